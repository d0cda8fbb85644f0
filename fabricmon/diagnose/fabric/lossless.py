"""What the counters say of the lossless class: drops, pauses asked for, queues used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.past.levels import LONG, known_mean
from fabricmon.model.frame import PAUSE_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_ASKED = 0.05
"""Pauses asked for, in longest pauses, from which a port must have waited."""
NO_WAIT = 1e-3
"""Waiting per pause asked for that no stop and go falls short of: two packets must drain first."""
_LIKE = 0.7
"""Share of what comes in by its siblings from which a way is filled like them."""
_ALIKE = 0.1
"""Share of the pauses of the way that asks for most from which another asks likewise."""
_SENDS = 0.05
"""A port that uses less of its link may have had nothing to send."""


class Lossless:
    """Arrays about the lossless class of one tick. All float32[N] unless said otherwise."""

    def __init__(self, view: FabricView) -> None:
        """Nothing is computed before it is asked for."""
        self._view = view

    @cached_property
    def queues(self) -> NDArray[np.bool_]:
        """bool[Q]: declared lossless, or, where nothing is declared, seen with PFC frames."""
        frame = self._view.frame
        declared = self._view.intent.lossless_queues
        if declared:
            return np.isin(frame.queues, declared)
        seen = np.zeros(len(frame.queues), np.bool_)
        for name in ("rx_pfc_frames", "tx_pfc_frames"):
            k = frame.queue_row(name)
            if k is not None:
                seen |= (frame.queue_total[k] > 0).any(axis=0)
                seen |= (np.nan_to_num(frame.queue_rate[k]) > 0).any(axis=0)
        return seen

    @property
    def numbers(self) -> list[int]:
        """The same as queue numbers."""
        return [q for q, own in zip(self._view.frame.queues, self.queues, strict=True) if own]

    @property
    def exists(self) -> bool:
        """Whether this fabric has a lossless class at all."""
        return bool(self.queues.any())

    @cached_property
    def packets(self) -> NDArray[np.float32]:
        """Packets per second in both directions; at least 1."""
        frame = self._view.frame
        both = np.nan_to_num(frame.rate_of("rx_packets")) + np.nan_to_num(
            frame.rate_of("tx_packets")
        )
        return np.fmax(both, np.float32(1))

    @cached_property
    def egress_drops(self) -> NDArray[np.float32]:
        """Lossless packets per second dropped at the egress.

        Per queue where the device counts that; otherwise all its discards, which is right only
        where nothing else is sent.
        """
        frame = self._view.frame
        by_queue = frame.queue_rate_of("queue_discards")
        own = by_queue[:, self.queues] if len(self.queues) else by_queue
        counted = ~np.isnan(by_queue).all(axis=1) if by_queue.size else np.zeros(len(own), bool)
        port = np.nan_to_num(frame.rate_of("tx_discards"))
        return np.where(counted, np.nansum(own, axis=1), port).astype(np.float32)

    @cached_property
    def ingress_drops(self) -> NDArray[np.float32]:
        """Packets per second dropped at the ingress, where pauses came too late or not at all."""
        return np.nan_to_num(self._view.frame.rate_of("rx_discards"))

    @cached_property
    def drops(self) -> NDArray[np.float32]:
        """Both, where they are more than the port's own past and more than noise; else 0."""
        view = self._view
        both = self.egress_drops + self.ingress_drops
        past = np.nan_to_num(view.levels.high("drops"))
        noticed = (both > view.config.loss * self.packets) & (both > 2 * past)
        noticed &= ~view.shape.host_port & ~view.table.infiniband
        return np.where(noticed, both, np.float32(0))

    @cached_property
    def drops_unread(self) -> NDArray[np.bool_]:
        """bool[N]: nobody counts what the port drops."""
        frame = self._view.frame
        unread: NDArray[np.bool_] = np.isnan(frame.rate_of("tx_discards"))
        unread &= np.isnan(frame.rate_of("rx_discards"))
        by_queue = frame.queue_rate_of("queue_discards")
        return unread & np.isnan(by_queue).all(axis=1) if by_queue.size else unread

    @cached_property
    def lost_unseen(self) -> NDArray[np.float32]:
        """Packets per second a host misses behind a full port of its switch that is not read.

        More than in the past and more than noise, with a clean cable, else 0: they are lost there.
        """
        view = self._view
        gaps = view.frame.rate_of("out_of_sequence")
        missed = view.shape.at_peer(np.nan_to_num(gaps), 0.0)
        past = view.shape.at_peer(np.nan_to_num(view.levels.high("resent")), 0.0)
        errors = view.shape.at_peer(np.nan_to_num(view.levels.now("errors")), 0.0)
        here = self.drops_unread & view.shape.faces_host & (view.use >= view.config.busy)
        here &= (missed > view.config.loss * view.shape.at_peer(self.packets, 0.0)) & (errors <= 0)
        return np.where(here & (missed > 2 * past), missed, np.float32(0))

    @cached_property
    def asked(self) -> NDArray[np.float32]:
        """Pause frames per second the port sends, counted at either end; NaN unknown."""
        levels, shape = self._view.levels, self._view.shape
        return np.fmax(levels.now("tx_pause"), shape.at_peer(levels.now("rx_pause")))

    @cached_property
    def asked_share(self) -> NDArray[np.float32]:
        """The longest time these frames can have paused the peer, as a share of the interval."""
        longest = PAUSE_BITS / self._view.table.speed_bps
        share: NDArray[np.float32] = np.nan_to_num(self.asked * longest).astype(np.float32)
        return np.fmin(share, np.float32(1))

    @cached_property
    def deaf(self) -> NDArray[np.bool_]:
        """bool[N]: sends, and waits for nothing, in a poll in which it was asked to pause.

        Told by its own counters alone; believed only where its device has counted paused time.
        """
        view = self._view
        asked = np.nan_to_num(view.window.now("rx_pause")) * PAUSE_BITS / view.table.speed_bps
        waits = view.window.now("stall")
        deaf = (asked >= _ASKED) & (waits <= NO_WAIT * np.fmin(asked, 1))
        deaf &= view.window.now("tx_use") >= _SENDS
        counts = (np.nan_to_num(view.levels.high("stall")) > 0) | (np.nan_to_num(waits) > 0)
        works = np.bincount(view.shape.node, counts, len(view.shape.is_host)) > 0
        heard: NDArray[np.bool_] = deaf & ~view.frame.ratios.estimated & works[view.shape.node]
        return heard & ~view.table.infiniband

    def mute(self, rows: NDArray[np.intp]) -> int | None:
        """The way into a device, of its `rows`, that asks for no pause while its siblings do.

        As much comes in by it as by them, and for some polls: it is not spared by chance.
        """
        view = self._view
        ways = rows[view.shape.parallel[rows] >= 0]
        asked = np.fmax.reduce(view.polls("tx_pause", LONG)[:, ways], axis=0)
        takes = np.nan_to_num(known_mean(view.polls("rx_use", LONG)[:, ways]))
        asks = (asked > 0) & (asked >= _ALIKE * np.fmax.reduce(asked, initial=0))
        if asks.sum() < 2:
            return None
        mute = (asked <= 0) & (takes >= _LIKE * np.median(takes[asks]))
        return int(ways[np.argmax(mute)]) if mute.sum() == 1 else None

    def by_device(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """float64[D]: the sum over each device's ports; NaN counts as 0."""
        shape = self._view.shape
        total = np.bincount(shape.node, np.nan_to_num(values), len(shape.is_host))
        return total.astype(np.float64)
