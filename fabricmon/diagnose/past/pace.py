"""The pace of jobs: how much they communicate, and which host sends last.

The ranks of a collective send together. A rank that computes longer lets the others send their
first part, then all wait for it: its cumulative traffic falls behind the others' and catches up,
once an iteration. That lag shows at any poll length that does not divide the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

KEPT = 120
"""Polls kept per job."""
SPAN = 16
"""Polls over which lag and pace are taken: some iterations."""
LEARN = 24
"""Polls of a job before anything is said of it."""
_QUIET = 0.005
_SEEN = 12
"""Lags that must be known of the past."""


@dataclass(frozen=True, slots=True, eq=False)
class Lag:
    """One job at one tick, in units of what a host usually sends in a poll.

    rows    int[H]    the job's network cards
    lag     float[H]  how far each fell behind the others and caught up again
    past    float[H]  the largest such lag before
    pace    float     traffic of the job now, as a share of its usual traffic
    even    float     spread of that share between its hosts
    """

    rows: NDArray[np.intp]
    lag: NDArray[np.float64]
    past: NDArray[np.float64]
    pace: float
    even: float


class Beat:
    """The recent polls of one job."""

    def __init__(self, rows: NDArray[np.intp]) -> None:
        """`rows` int[H] are its network cards."""
        self.rows = rows
        self.polls = 0
        self._sent = np.full((KEPT, len(rows)), np.nan, np.float32)
        self._lags = np.full((KEPT, len(rows)), np.nan)

    def push(self, sent: NDArray[np.float32]) -> None:
        """Take float32[H], the share of its link each card used in this poll."""
        self._sent[self.polls % KEPT] = sent
        self.polls += 1

    def _recent(self, store: NDArray[np.floating], skip: int, count: int) -> NDArray[np.floating]:
        """The `count` polls before the last `skip`, oldest first."""
        first = max(0, self.polls - skip - count, self.polls - KEPT)
        return store[np.arange(first, max(first, self.polls - skip)) % KEPT]

    def lag(self) -> Lag | None:
        """The lag of each host now; None while the job is not known well enough."""
        if self.polls < LEARN or len(self.rows) < 3:
            return None
        before = self._recent(self._sent, SPAN, KEPT)
        usual = _mean(before)
        now = self._recent(self._sent, 0, SPAN)
        works = usual > _QUIET
        if works.sum() < 3:
            return None
        share = _filled(now) / np.where(works, usual, np.inf)
        together = np.median(share[:, works], axis=1)
        lag = np.where(works, _excursion(share, together, np.isnan(now)), 0.0)
        past = self._recent(self._lags, SPAN, KEPT)
        self._lags[(self.polls - 1) % KEPT] = lag
        if (~np.isnan(past)).all(axis=1).sum() < _SEEN:
            return None
        recent = _mean(now[-SPAN // 2 :])[works] / usual[works]
        largest = np.nan_to_num(np.fmax.reduce(past, axis=0))
        spread = float(np.subtract(*np.quantile(recent, [0.9, 0.1])))
        return Lag(self.rows, lag, largest, float(np.median(recent)), spread)


def _mean(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """float64[H]: mean of what is known, 0 where nothing is."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1), np.float64)


def _filled(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """float64[W,H]: a missed poll is part of what the next one reports; the last is repeated."""
    out = np.asarray(values, np.float64).copy()
    for step in range(len(out) - 2, -1, -1):
        out[step] = np.where(np.isnan(out[step]), out[step + 1], out[step])
    for step in range(1, len(out)):
        out[step] = np.where(np.isnan(out[step]), out[step - 1], out[step])
    return np.nan_to_num(out)


def _excursion(
    share: NDArray[np.float64], together: NDArray[np.float64], missed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """float64[H]: how far the cumulative traffic fell behind the job's, a steady drift aside.

    Inside a missed poll nobody knows how far a host is; the sum is right again at the next one.
    """
    path = np.cumsum(together[:, None] - share, axis=0)
    steps = np.linspace(0, 1, len(path))[:, None]
    level = path - (path[0] + (path[-1] - path[0]) * steps)
    level[missed] = 0.0
    ordered = np.sort(level, axis=0)
    return np.asarray(ordered[-2] - ordered[1], np.float64)


class Pace:
    """One per fabric; jobs come and go with the topology."""

    def __init__(self) -> None:
        """No job yet."""
        self._shape: object = None
        self._beats: dict[str, Beat] = {}

    def update(self, view: FabricView) -> None:
        """Take this tick of every job."""
        if view.shape is not self._shape:
            self._shape = view.shape
            self._adopt(view)
        own = view.window.now("tx_use")  # a poll that one end missed is not filled from the other
        told = view.shape.at_peer(view.window.now("rx_use"))
        sent = np.where(np.isnan(view.levels.now("tx_use")), told, own)
        for beat in self._beats.values():
            beat.push(sent[beat.rows])

    def lags(self) -> dict[str, Lag]:
        """Every job that is known well enough."""
        found = {name: beat.lag() for name, beat in self._beats.items()}
        return {name: lag for name, lag in found.items() if lag is not None}

    def _adopt(self, view: FabricView) -> None:
        """Find the cards of each job; a job whose cards changed starts anew."""
        shape = view.shape
        card = shape.host_port | shape.faces_host
        beats: dict[str, Beat] = {}
        for number, job in enumerate(shape.jobs):
            rows = np.flatnonzero(card & (shape.job == number))
            peers = shape.peer[rows[shape.faces_host[rows]]]
            cards = np.union1d(rows[shape.host_port[rows]], peers[peers >= 0]).astype(np.intp)
            old = self._beats.get(job.name)
            same = old is not None and np.array_equal(old.rows, cards)
            beats[job.name] = old if same and old is not None else Beat(cards)
        self._beats = beats
