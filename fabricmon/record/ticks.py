"""Samples with times of their own to a stream with ticks, as a live fabric would have given.

Several files are read side by side, in bounded memory, and merged by time. What belongs to one tick
is found from the samples: a tick ends where a value comes again that was there half an interval or
more before; where none does soon, after one interval. Targets that are read one after the other
over the interval so fall into one tick each time, whatever their phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.base import Chunk, joined
from fabricmon.model.counters import NO_QUEUE
from fabricmon.model.readings import State
from fabricmon.model.stream import Item, Tick
from fabricmon.model.topology import Intent, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.base import Layout
    from fabricmon.model.readings import ReadingBatch

DEFAULT_INTERVAL_S = 10.0
"""Taken where nothing comes twice and nothing says how often it was read."""

_LEAST_GAP_NS = 10_000_000
"""Closer is no interval: files that were copied in a row, a sample that was sent twice."""
_LEARN_SAMPLES = 400_000
_EMPTY = joined([])
_PFC = ("rx_pfc_frames", "tx_pfc_frames")


class Feed:
    """One source of samples, read ahead as far as a tick needs."""

    def __init__(self, source: Iterator[Chunk | Topology]) -> None:
        """Nothing is read yet."""
        self._source = source
        self._held = _EMPTY
        self._front = np.iinfo(np.int64).min
        self._done = False
        self.topologies: list[Topology] = []
        """Found on the way; whoever looks takes them."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held(self) -> Chunk:
        """What was read and not taken, in order of time."""
        return self._held

    def more(self) -> bool:
        """Read one more chunk; False at the end."""
        for piece in self._source:
            if isinstance(piece, Topology):
                self.topologies.append(piece)
            elif len(piece):
                self._held = joined([self._held, piece]) if len(self._held) else piece.in_order()
                # Not the latest sample: one clock that is ahead must not end the reading.
                self._front = int(piece.time_ns[len(piece) // 2])
                return True
        self._done = True
        return False

    def until(self, time_ns: int) -> Chunk:
        """All samples up to `time_ns`, reading on as needed; they are not taken yet."""
        while not self._done and (not len(self._held) or self._front <= time_ns):
            self.more()
        end = int(np.searchsorted(self._held.time_ns, time_ns, side="right"))
        return self._held.part(slice(0, end))

    def take(self, time_ns: int) -> None:
        """Drop the samples before `time_ns`."""
        start = int(np.searchsorted(self._held.time_ns, time_ns, side="left"))
        self._held = self._held.part(slice(start, None))


def stream(
    feeds: Sequence[Feed],
    layout: Layout,
    interval_s: float = 0.0,
    settle: Sequence[Callable[[Chunk], Chunk]] = (),
) -> Iterator[Item]:
    """Batches and ticks of all feeds, in order of time. The interval is learned where not given.

    `settle` is applied to the samples of each tick.
    """
    interval_s = interval_s or learned_interval_s(feeds)
    interval_ns = round(interval_s * 1e9)
    lossless: set[int] = set()
    end = np.iinfo(np.int64).min
    while True:
        for feed in feeds:
            if not len(feed):
                feed.more()
            yield from _taken(feed.topologies)
        starts = [int(feed.held.time_ns[0]) for feed in feeds if len(feed)]
        if not starts:
            return
        start = max(min(starts), end)  # what comes late is part of the next tick
        parts = [feed.until(start + interval_ns * 3 // 2) for feed in feeds]
        window = joined([part for part in parts if len(part)])
        end = start + boundary(window, start, interval_ns)
        for feed in feeds:
            feed.take(end)
            yield from _taken(feed.topologies)
        tick = window.part(slice(0, int(np.searchsorted(window.time_ns, end, side="left"))))
        for apply in settle:
            tick = apply(tick)
        if not len(tick):
            continue
        for batch in layout.batches(tick):
            fresh = _pfc_queues(batch) - lossless
            if fresh:
                lossless |= fresh
                yield Topology(intent=Intent(tuple(sorted(lossless))))
            yield batch
        yield Tick(max(int(tick.time_ns[-1]), start), interval_s)


def _taken(topologies: list[Topology]) -> list[Topology]:
    taken = topologies.copy()
    topologies.clear()
    return taken


def boundary(window: Chunk, start: int, interval_ns: int) -> int:
    """Nanoseconds from `start`, where this tick begins, to where the next one does.

    `window` reaches half an interval further than a tick, so that a late poll does not tear it.
    """
    half = interval_ns // 2
    late = int(np.searchsorted(window.time_ns, start + half, side="left"))
    if late < len(window):
        order = _by_series(window)
        code = _series(window)[order]
        gap = np.diff(window.time_ns[order])
        again = order[1:][(code[1:] == code[:-1]) & (gap >= half)]
        again = again[again >= late]
        if len(again):
            return int(window.time_ns[again.min()]) - start
    return interval_ns


def learned_interval_s(feeds: Sequence[Feed]) -> float:
    """Seconds between two samples of the same value, by the median over what is read first."""
    gaps: list[NDArray[np.int64]] = []
    share = _LEARN_SAMPLES // max(len(feeds), 1)
    for feed in feeds:
        while len(feed) < share and feed.more():
            pass
        order = _by_series(feed.held)
        code, time_ns = _series(feed.held)[order], feed.held.time_ns[order]
        gap = np.diff(time_ns)[code[1:] == code[:-1]]
        gaps.append(gap[gap > _LEAST_GAP_NS])
    gap = np.concatenate(gaps) if gaps else np.empty(0, np.int64)
    return float(np.median(gap)) / 1e9 if len(gap) else DEFAULT_INTERVAL_S


def _series(chunk: Chunk) -> NDArray[np.int64]:
    return (chunk.port.astype(np.int64) << 32) | chunk.column


def _by_series(chunk: Chunk) -> NDArray[np.intp]:
    return np.argsort(_series(chunk), kind="stable")


def _pfc_queues(batch: ReadingBatch) -> set[int]:
    """Queues on which pause frames were counted."""
    return {
        column.queue
        for k, column in enumerate(batch.columns)
        if column.counter.id in _PFC
        and column.queue != NO_QUEUE
        and (batch.values[k][batch.state[k] == State.OK] > 0).any()
    }
