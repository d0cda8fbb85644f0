"""What counters see of an epoch: per-second rates of every signal of every port.

Which signal moves where follows what switches do: pauses belong to the link they stop, marks to
the egress queue they were made in, damage to the receiver, drops to the switch that dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.engine.epoch import RESENT_PER_LOSS, buffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.engine.epoch import Epoch
    from fabricmon.simulate.engine.flows import Network
    from fabricmon.simulate.fabric.wiring import Wiring

SIGNALS = (
    "bytes",  # sent by the egress, per second
    "lossless_bytes",  # the part of them in the lossless queue
    "received",  # bytes that arrive undamaged at the far end
    "packets",
    "stall",  # share of time
    "pauses",  # pause frames that stop the egress
    "marks",  # packets marked in the egress queue
    "egress_drops",
    "egress_drops_lossless",
    "ingress_drops",  # at the far end of the link, for lack of headroom
    "damaged",  # packets that arrive broken at the far end
    "cut",  # packets that were on their way when the link went down
    "downs",
    "head_drops",  # InfiniBand: packets that died waiting at the head of the queue
    "congested_received",  # marked packets that reach the card that this link leaves
    "notified",  # notifications that make the card of this link slow down
    "resent",
    "out_of_sequence",  # at the card that this link leaves
    "depth",  # bytes, a level
    "up",
    "speed_bps",
)
"""Rows of the matrix, all per directed link (that is, per port)."""

ROW = {name: i for i, name in enumerate(SIGNALS)}

PACKET_BYTES = 4160
"""A full RoCE or InfiniBand packet with its headers."""

_QUEUE = 0.25
"""Standing queue that working congestion control leaves at a bottleneck, in full buffers."""

_MARK_PRESSED, _MARK_ROOT, _MARK_SETTLED, _MARK_IDLE = 0.2, 0.01, 0.012, 3e-5
"""Share of packets marked: under back-pressure, at its root, when converged, at other times."""

_LATE_MARKS = 0.02
"""Where marking is set too late, the few marks that are left."""

_NOTIFICATIONS_PER_S = 20_000
"""A card answers at most one notification per flow in 50 us."""

_HEAD_DROPS_PER_S = 20.0

_CUT_PER_DOWN = 12
"""Packets cut short when a link goes down."""

_MARK_OVERRUN = 0.15
"""Share of packets marked by a queue that is so long that it drops."""


def signals(
    wiring: Wiring, conditions: Conditions, network: Network, epoch: Epoch
) -> NDArray[np.float64]:
    """float64[S,E]: rates and levels during `epoch`, rows as `SIGNALS`."""
    out = np.zeros((len(SIGNALS), len(wiring)))
    row = {name: out[i] for name, i in ROW.items()}
    sent = epoch.sent / 8
    row["bytes"][:] = sent
    row["received"][:] = sent * (1 - conditions.loss)
    row["packets"][:] = sent / PACKET_BYTES
    row["damaged"][:] = sent / PACKET_BYTES * conditions.loss
    row["cut"][:] = _CUT_PER_DOWN * conditions.downs
    row["stall"][:] = epoch.stall
    row["downs"][:] = conditions.downs
    row["up"][:] = conditions.up
    row["speed_bps"][:] = wiring.capacity * conditions.speed
    _lossless(row["lossless_bytes"], network, epoch)
    row["depth"][:] = _depth(wiring, conditions, epoch)
    row["pauses"][:] = _pauses(wiring, conditions, network, epoch)
    row["head_drops"][:] = np.where(epoch.stall > 0.97, _HEAD_DROPS_PER_S, 0.0)
    if not wiring.infiniband:
        row["marks"][:] = _marks(wiring, conditions, network, epoch)
    _drops(row, conditions, wiring, network, epoch)
    _cards(row, conditions, network, epoch)
    return out


def _lossless(row: NDArray[np.float64], network: Network, epoch: Epoch) -> None:
    if network.flows.lossless.all():
        row[:] = epoch.sent / 8
        return
    part = network.load(np.where(network.flows.lossless, epoch.rate, 0.0))
    whole = np.maximum(network.load(epoch.rate), 1.0)
    row[:] = epoch.sent / 8 * part / whole


def _depth(wiring: Wiring, conditions: Conditions, epoch: Epoch) -> NDArray[np.float64]:
    """float64[E]: mean bytes in the egress queue."""
    line = wiring.capacity / 8
    use = epoch.sent / 8 / np.maximum(line * conditions.speed, 1.0)
    full = np.maximum(np.maximum(epoch.pressed, epoch.full), conditions.stuck)
    depth = buffers(wiring) * (full + _QUEUE * epoch.settled) + line * 0.3e-6 * use**2
    return np.where(wiring.tier[wiring.source] > 0, depth, 0.0)


def _pauses(
    wiring: Wiring, conditions: Conditions, network: Network, epoch: Epoch
) -> NDArray[np.float64]:
    """float64[E]: pause frames per second that stop each egress.

    Back-pressure alternates XOFF and XON as buffers fill and drain; a receiver that stays slow
    refreshes its pause. A deadlock sends none but what a switch renews: nobody's buffer changes.
    """
    gap = buffers(wiring) / 4
    refresh = 0.7 * 65_535 * 512 / wiring.capacity
    cycling = np.where(epoch.limited, 0.0, epoch.pressed) * epoch.sent / 8 / gap * 2
    frames = np.where(epoch.stall > 0, cycling, 0.0) + epoch.stall / refresh
    if conditions.stuck.any():
        frames[(epoch.sent < 1.0) & ~epoch.limited] *= conditions.refresh
    ignored = conditions.deaf.copy()
    if ignored.any():  # the peer goes on asking a port that does not listen
        squeezed = np.zeros(len(wiring), np.bool_)
        deaf_pairs = (epoch.dropped > 0) & (network.pair_ingress < len(wiring))
        squeezed[network.pair_ingress[deaf_pairs]] = True
        asked = ignored & squeezed & ~conditions.mute[wiring.target]
        frames = np.where(asked, epoch.sent / 8 / gap * 2 + 0.5 / refresh, frames)
    return np.where(conditions.mute[wiring.target], 0.0, frames)


def _marks(
    wiring: Wiring, conditions: Conditions, network: Network, epoch: Epoch
) -> NDArray[np.float64]:
    """float64[E]: packets marked per second; most of them upstream once pressure has formed."""
    use = epoch.sent / np.maximum(wiring.capacity, 1.0)
    share = (
        epoch.pressed * _MARK_PRESSED
        + epoch.full * _MARK_ROOT
        + epoch.settled * _MARK_SETTLED
        + _MARK_IDLE * use**2
    )
    if epoch.dropped.any():
        overrun = np.zeros(len(wiring), np.bool_)
        overrun[network.pair_link[epoch.dropped > 0]] = True
        share = np.where(overrun, np.maximum(share, _MARK_OVERRUN), share)
    marking = conditions.marking[wiring.source]
    share = np.where(marking >= 1, share, share * np.where(marking > 0, _LATE_MARKS, 0.0))
    marks: NDArray[np.float64] = share * epoch.sent / 8 / PACKET_BYTES
    return np.where(wiring.tier[wiring.source] > 0, marks, 0.0)


def _drops(
    row: dict[str, NDArray[np.float64]],
    conditions: Conditions,
    wiring: Wiring,
    network: Network,
    epoch: Epoch,
) -> None:
    if conditions.leak.any():
        row["ingress_drops"] += conditions.leak * epoch.pressed * row["packets"]
    lost = epoch.dropped / 8 / PACKET_BYTES
    if not lost.any():
        return
    inner = network.pair_ingress < len(wiring)
    ingress = np.where(inner, network.pair_ingress, 0)
    over_run = inner & conditions.deaf[ingress] & network.pair_lossless
    over_run &= ~conditions.mute[wiring.target[ingress]]
    np.add.at(row["ingress_drops"], ingress[over_run], lost[over_run])
    egress = ~over_run
    np.add.at(row["egress_drops"], network.pair_link[egress], lost[egress])
    lossless = egress & network.pair_lossless
    np.add.at(row["egress_drops_lossless"], network.pair_link[lossless], lost[lossless])


def _cards(
    row: dict[str, NDArray[np.float64]],
    conditions: Conditions,
    network: Network,
    epoch: Epoch,
) -> None:
    """What the network cards at both ends of each flow count."""
    if not len(network.flows):
        return
    packets = epoch.rate / 8 / PACKET_BYTES
    crowd = np.maximum(row["packets"], 1e-9)
    clean = np.log1p(-np.minimum(row["marks"] / crowd, 0.99))[network.hop_link]
    marked = packets * (1 - np.exp(np.add.reduceat(clean, network.first)))
    lost_share = np.minimum(epoch.dropped / 8 / PACKET_BYTES / _pair_packets(network, epoch), 0.5)
    kept = np.log1p(-conditions.loss)[network.hop_link] + np.log1p(-lost_share)[network.hop_pair]
    lost = packets * (1 - np.exp(np.add.reduceat(kept, network.first)))
    start = network.hop_link[network.first]
    end = network.hop_link[network.first + network.hops - 1] ^ 1
    notified = np.minimum(marked, _NOTIFICATIONS_PER_S)
    np.add.at(row["congested_received"], end, marked)
    np.add.at(row["notified"], start, notified)
    np.add.at(row["out_of_sequence"], end, lost)
    np.add.at(row["resent"], start, lost * RESENT_PER_LOSS)


def _pair_packets(network: Network, epoch: Epoch) -> NDArray[np.float64]:
    rate = np.bincount(network.hop_pair, epoch.rate[network.hop_flow], len(network.pair_link))
    return np.maximum(rate / 8 / PACKET_BYTES, 1e-9)
