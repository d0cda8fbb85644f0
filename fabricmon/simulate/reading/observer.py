"""Which signal each counter shows, on which end of a link, and how counts scatter.

`SHOWS` is the whole truth about it: counter -> (signal, end, factor) terms that are added up. `own`
is the port's egress, `peer` what comes in from the other end of the cable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.engine.counters import PACKET_BYTES, ROW, SIGNALS
from fabricmon.simulate.engine.epoch import buffers
from fabricmon.simulate.engine.flows import LOSSLESS_QUEUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.workload.timeline import Interval

_OWN, _PEER = "own", "peer"
_Terms = tuple[tuple[str, str, float], ...]

_DERIVED = ("pfc", "global_pauses", "pfc_ns", "ticks", "peak")
_ROWS = {name: i for i, name in enumerate((*SIGNALS, *_DERIVED))}

SHOWS: dict[str, _Terms] = {
    "tx_bytes": (("bytes", _OWN, 1),),
    "rx_bytes": (("received", _PEER, 1),),
    "tx_packets": (("packets", _OWN, 1),),
    "rx_packets": (("packets", _PEER, 1), ("damaged", _PEER, -1)),
    "rx_errors": (("damaged", _PEER, 1), ("cut", _PEER, 1)),
    "symbol_errors": (("damaged", _PEER, 1.3), ("cut", _PEER, 1)),
    "fec_uncorrected": (("damaged", _PEER, 1.3),),
    "link_recoveries": (("damaged", _PEER, 1e-4),),
    "link_downed": (("downs", _OWN, 1),),
    "tx_discards": (("egress_drops", _OWN, 1),),
    "rx_discards": (("ingress_drops", _PEER, 1),),
    "hoq_discards": (("head_drops", _OWN, 1),),
    "tx_wait_ticks": (("ticks", _OWN, 1),),
    "rx_pause_frames": (("global_pauses", _OWN, 1),),
    "tx_pause_frames": (("global_pauses", _PEER, 1),),
    "rx_pfc_frames": (("pfc", _OWN, 1),),
    "tx_pfc_frames": (("pfc", _PEER, 1),),
    "rx_pfc_ns": (("pfc_ns", _OWN, 1),),
    "tx_pfc_ns": (("pfc_ns", _PEER, 1),),
    "ecn_marked_packets": (("marks", _OWN, 1),),
    "cnp_sent": (("congested_received", _OWN, 0.05),),
    "cnp_handled": (("notified", _OWN, 1),),
    "ecn_marked_received": (("congested_received", _OWN, 1),),
    "out_of_sequence": (("out_of_sequence", _OWN, 1),),
    "retransmits": (("resent", _OWN, 1),),
    "ack_timeouts": (("resent", _OWN, 1e-3),),
    "oper_up": (("up", _OWN, 1),),
    "speed_bps": (("speed_bps", _OWN, 1),),
    "queue_depth_bytes": (("depth", _OWN, 1),),
    "queue_depth_peak_bytes": (("peak", _OWN, 1),),
}
"""Port counters and those of the lossless queue. What is not here stands at zero."""

_LOSSLESS: dict[str, _Terms] = {
    "queue_tx_bytes": (("lossless_bytes", _OWN, 1),),
    "queue_discards": (("egress_drops_lossless", _OWN, 1), ("ingress_drops", _PEER, 1)),
}
_OTHER: dict[str, _Terms] = {
    "queue_tx_bytes": (("bytes", _OWN, 1), ("lossless_bytes", _OWN, -1)),
    "queue_discards": (("egress_drops", _OWN, 1), ("egress_drops_lossless", _OWN, -1)),
}

_SPREAD = {
    "marks": 0.25,
    "pauses": 0.15,
    "notified": 0.2,
    "congested_received": 0.2,
    "stall": 0.04,
}
"""Log-normal scatter of what is not counted packet by packet in the engine."""

_RARE = ("damaged", "cut", "head_drops", "egress_drops", "egress_drops_lossless", "ingress_drops")

_BRIEF_PER_S = 0.3
_BRIEF_S = 60e-6
"""Bursts too short for steady states: a fully used egress is paused this often and this long."""


class Observer:
    """What devices count in each interval."""

    def __init__(self, wiring: Wiring, rng: np.random.Generator) -> None:
        """One per run; `rng` is its own."""
        self._wiring, self._rng = wiring, rng
        self._peer = np.arange(len(wiring)) ^ 1
        facts = {f.id: f.tick_bytes for f in wiring.topology.ports}
        ticks = np.array([facts.get(port, 0.0) for port in wiring.ports])
        self._ticks_per_s = wiring.capacity / 8 / np.where(ticks > 0, ticks, 8.0)
        self._top = buffers(wiring) * 1.3

    def observe(self, interval: Interval, seconds: float) -> NDArray[np.float64]:
        """float64[S + derived, E]: the signals of an interval as devices count them."""
        rng, e = self._rng, len(self._wiring)
        seen = np.empty((len(_ROWS), e))
        seen[: len(SIGNALS)] = interval.amount
        alike = np.exp(rng.normal(0.0, 0.003, e))  # both ends of a link count the same bytes
        for name in ("bytes", "received", "packets", "lossless_bytes"):
            seen[ROW[name]] *= alike
        for name, spread in _SPREAD.items():
            seen[ROW[name]] *= np.exp(rng.normal(0.0, spread, e))
        for name in _RARE:
            if seen[ROW[name]].any():
                seen[ROW[name]] = rng.poisson(seen[ROW[name]])
        part = seen[ROW["egress_drops_lossless"]]
        np.minimum(part, seen[ROW["egress_drops"]], out=part)
        self._brief(seen, interval, seconds)
        self._derive(seen, interval, seconds)
        return seen

    def _brief(self, seen: NDArray[np.float64], interval: Interval, seconds: float) -> None:
        line = self._wiring.capacity / 8
        use = np.minimum(seen[ROW["bytes"]] / (line * seconds), 1.0)
        count = self._rng.poisson(_BRIEF_PER_S * seconds * use**2)
        count[interval.unpaused] = 0
        if count.any():
            spell = self._rng.exponential(_BRIEF_S, len(count))
            seen[ROW["stall"]] += np.where(interval.deaf, 0.0, count * spell)
            seen[ROW["pauses"]] += count * 2
        stall = seen[ROW["stall"]]
        np.minimum(stall, seconds, out=stall)

    def _derive(self, seen: NDArray[np.float64], interval: Interval, seconds: float) -> None:
        stall, pauses = seen[ROW["stall"]], seen[ROW["pauses"]]
        seen[_ROWS["pfc"]] = np.where(interval.coarse, 0.0, pauses)
        seen[_ROWS["global_pauses"]] = np.where(interval.coarse, pauses, 0.0)
        seen[_ROWS["pfc_ns"]] = np.where(interval.coarse, 0.0, stall * 1e9)
        seen[_ROWS["ticks"]] = stall * self._ticks_per_s
        use = np.minimum(seen[ROW["bytes"]] * 8 / (self._wiring.capacity * seconds), 1.0)
        burst = self._rng.exponential(4 * PACKET_BYTES, len(use)) * np.sqrt(use)
        seen[_ROWS["peak"]] = np.floor(np.minimum(interval.peak * 1.2 + burst, self._top + burst))
        flicker = np.exp(self._rng.normal(0.0, 0.4, len(self._wiring)))
        seen[ROW["depth"]] = np.floor(interval.depth * flicker)
        seen[ROW["up"]] = seen[ROW["up"]] > 0.5

    def value(self, counter: str, queue: int, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[E]: what one catalogue column gains (levels: shows)."""
        by_queue = _LOSSLESS if queue == LOSSLESS_QUEUE else _OTHER
        total = np.zeros(seen.shape[1])
        for signal, end, factor in by_queue.get(counter) or SHOWS.get(counter, ()):
            row = seen[_ROWS[signal]]
            total += factor * (row if end == _OWN else row[self._peer])
        return np.maximum(total, 0.0)  # differences of large numbers round below zero
