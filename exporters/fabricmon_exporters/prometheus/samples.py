"""From a snapshot to the values of metrics: what is exported, as which number, and what is not.

A series is absent where nothing is known. A counter that was not in this poll keeps its last value
for three polls, since it has one; a saturated, stale or withheld one is absent at once, because a
constant value would read as "no events".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Snapshot

_KEEP_POLLS = 3
_NEVER = 255
_EXACT = np.uint64((1 << 53) - 1)
_KNOWN = np.zeros(256, np.bool_)
_KNOWN[[State.OK, State.WRAPPED, State.HELD, State.BASELINE, State.RESET]] = True


class Samples(NamedTuple):
    """Values of one metric.

    values  int64 or float64, [N] or [N,Q]
    mask    bool, same shape: which of them are published
    has     bool, same shape: which of them the source has at all (what the limit a port counts)
    """

    values: NDArray[Any]
    mask: NDArray[np.bool_]
    has: NDArray[np.bool_]


@dataclass
class Memory:
    """What one fabric's values need from tick to tick."""

    missed: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    """Counter id -> polls in a row without it, per value; 255 = never had."""
    waited: dict[str, tuple[NDArray[np.uint64], NDArray[np.float64]]] = field(default_factory=dict)
    """Counter id -> (ticks so far, seconds so far): a port's speed may change in between."""
    queues: tuple[int, ...] = ()
    table: PortTable | None = None

    def follow(self, table: PortTable) -> None:
        """Bring what is kept per row to the rows of `table`, which may be a new one."""
        old, self.table = self.table, table
        if old is None or old is table:
            return
        rows = table.rows_in(old)

        def moved(array: NDArray[Any], fill: float) -> NDArray[Any]:
            out = np.full((len(rows), *array.shape[1:]), fill, array.dtype)
            kept = (rows >= 0) & (rows < len(array))
            out[kept] = array[rows[kept]]
            return out

        self._move(moved)

    def _move(self, moved: Callable[[NDArray[Any], float], NDArray[Any]]) -> None:
        self.missed = {name: moved(array, _NEVER) for name, array in self.missed.items()}
        self.waited = {
            name: (moved(ticks, 0), moved(seconds, 0.0))
            for name, (ticks, seconds) in self.waited.items()
        }

    def order(self, queues: tuple[int, ...]) -> None:
        """Bring what is kept per queue into the order of `queues`, which may have grown."""
        if queues == self.queues:
            return
        kept = [(old, queues.index(q)) for old, q in enumerate(self.queues) if q in queues]

        def moved(array: NDArray[Any], fill: float) -> NDArray[Any]:
            if array.ndim == 1:
                return array
            out = np.full((array.shape[0], len(queues)), fill, array.dtype)
            for old, new in kept:
                out[:, new] = array[:, old]
            return out

        self._move(moved)
        self.queues = queues


class Values:
    """The values of one tick of one fabric. Read-only once made."""

    def __init__(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take what must be remembered from `memory`, and leave there what the next tick needs."""
        self.snapshot = snapshot
        self.frame = frame = snapshot.frame
        self.n = frame.n_ports
        self.present = snapshot.present[: self.n]
        self._known: dict[str, NDArray[np.bool_]] = {}
        self._has: dict[str, NDArray[np.bool_]] = {}
        self._seconds: dict[str, NDArray[np.float64]] = {}
        memory.follow(snapshot.table)
        memory.order(frame.queues)
        for counters, states in (
            (frame.counters, frame.state),
            (frame.queue_counters, frame.queue_state),
        ):
            for counter, state in zip(counters, states, strict=True):
                self._remember(counter.id, state, memory)
        for name in ("tx_wait_ticks", "queue_tx_wait_ticks"):
            self._accumulate(name, memory)

    def _remember(self, name: str, state: NDArray[np.uint8], memory: Memory) -> None:
        missed = _grown(memory.missed.get(name), state.shape, _NEVER, np.uint8)
        known = _KNOWN[state]
        absent = (missed < _KEEP_POLLS + 1) & ~known
        missed[absent] += 1
        missed[known] = 0
        gone = state == State.UNSUPPORTED
        missed[gone] = _NEVER
        memory.missed[name] = missed
        self._has[name] = missed != _NEVER
        self._known[name] = known | ((state == State.MISSING) & (missed <= _KEEP_POLLS))

    def _accumulate(self, name: str, memory: Memory) -> None:
        """Ticks become seconds with the tick length of the moment they were counted in."""
        total = self._total(name)
        if total is None:
            return
        length = tick_seconds(self.snapshot, self.n)
        length = length if total.ndim == 1 else length[:, None]
        before, seconds = memory.waited.get(name, (None, None))
        before = _grown(before, total.shape, 0, np.uint64)
        seconds = _grown(seconds, total.shape, 0.0, np.float64)
        gained = np.where(total >= before, total - before, total)
        seconds = seconds + np.where(np.isfinite(length), gained * length, 0.0)
        memory.waited[name] = (total.copy(), seconds)
        self._seconds[name] = np.where(np.isfinite(length), seconds, np.nan)

    def _total(self, name: str) -> NDArray[np.uint64] | None:
        k = self.frame.row(name)
        if k is not None:
            return self.frame.total[k]
        k = self.frame.queue_row(name)
        return self.frame.queue_total[k] if k is not None else None

    def total(self, name: str) -> Samples | None:
        """A counter; beyond 2^53, where a float64 cannot count in ones, modulo 2^53."""
        total = self._total(name)
        if total is None:
            return None
        return self._samples((total & _EXACT).astype(np.int64), self._known[name], self._has[name])

    def seconds(self, name: str) -> Samples | None:
        """A time counter: nanoseconds, or ticks of known length."""
        ticks, ns = {"wait": ("tx_wait_ticks", "tx_wait_ns")}.get(name, ("", name))
        if name == "queue_wait":
            ticks, ns = "queue_tx_wait_ticks", ""
        parts = [self._of_ns(ns), self._of_ticks(ticks)]
        known = [part for part in parts if part is not None]
        if not known:
            return None
        if len(known) == 1:
            return known[0]
        first, second = known
        return Samples(
            np.where(first.has, first.values, second.values),
            np.where(first.has, first.mask, second.mask),
            first.has | second.has,
        )

    def _of_ns(self, name: str) -> Samples | None:
        total = self._total(name)
        if total is None:
            return None
        return self._samples(total / 1e9, self._known[name], self._has[name])

    def _of_ticks(self, name: str) -> Samples | None:
        seconds = self._seconds.get(name)
        if seconds is None:
            return None
        unit = np.isfinite(seconds)
        return self._samples(seconds, self._known[name] & unit, self._has[name] & unit)

    def gauge(self, name: str, factor: float) -> Samples | None:
        """A level in catalogue units times `factor`."""
        level = self.frame.gauges.get(name)
        if level is None:
            level = self.frame.queue_gauges.get(name)
        if level is None:
            return None
        return self._finite(level.astype(np.float64) * factor)

    def ratio(self, name: str) -> Samples:
        """A ratio of the frame, rounded to six places: finer digits are noise."""
        samples = self._finite(_six_places(getattr(self.frame.ratios, name)))
        return samples._replace(has=np.ones_like(samples.has)) if name == "stall" else samples

    def score(self) -> Samples:
        """The anomaly score."""
        score = self.snapshot.scores.anomaly[: self.n]
        samples = self._finite(_six_places(score))
        return samples._replace(has=np.ones_like(samples.has))

    def ones(self) -> Samples:
        """1 for every port."""
        yes = np.ones(self.n, np.bool_)
        return self._samples(np.ones(self.n, np.int64), yes, yes)

    def _finite(self, values: NDArray[np.float64]) -> Samples:
        finite = np.isfinite(values)
        return self._samples(values, finite, finite)

    def _samples(
        self, values: NDArray[Any], mask: NDArray[np.bool_], has: NDArray[np.bool_]
    ) -> Samples:
        present = self.present if values.ndim == 1 else self.present[:, None]
        return Samples(values, mask & present, has)

    def busy_queues(self) -> NDArray[np.bool_]:
        """bool[N,Q]: queues worth a series by default: lossless ones, and any that ever counted."""
        lossless = set(self.snapshot.topology.intent.lossless_queues)
        declared = np.array([q in lossless for q in self.frame.queues], np.bool_)
        counted = np.zeros((self.n, len(declared)), np.bool_)
        for k, counter in enumerate(self.frame.queue_counters):
            if counter.id in _BUSY:
                counted |= self.frame.queue_total[k] > 0
        return counted | declared[None, :]


_BUSY = {"rx_pfc_frames", "tx_pfc_frames", "rx_pfc_ns", "tx_pfc_ns", "ecn_marked_packets"}


def _six_places(values: NDArray[np.float32]) -> NDArray[np.float64]:
    wide: NDArray[np.float64] = values.astype(np.float64)
    return wide.round(6)


def tick_seconds(snapshot: Snapshot, n: int) -> NDArray[np.float64]:
    """float64[N]: seconds that one wait tick stands for; NaN where the unit is unknown."""
    table = snapshot.table
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds: NDArray[np.float64] = table.tick_bytes[:n] * 8.0 / table.speed_bps[:n]
    return seconds


def _grown(
    old: NDArray[Any] | None, shape: tuple[int, ...], fill: float, dtype: type
) -> NDArray[Any]:
    """`old` copied into the larger `shape`, new places filled."""
    grown: NDArray[Any] = np.full(shape, fill, dtype)
    if old is not None:
        grown[tuple(slice(0, size) for size in old.shape)] = old
    return grown
