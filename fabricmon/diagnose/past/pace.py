"""The pace of jobs: how much they communicate, and which host sends last.

The ranks of a collective send together. A rank that computes longer lets the others send their
first part, then all wait for it: its cumulative traffic falls behind the others' and catches up,
once an iteration. That lag shows at any poll length that does not divide the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fabricmon.model.ports import Saved
from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.ports import PortTable

KEPT = 120
"""Polls kept per job."""
SPAN = 16
"""Polls over which lag and pace are taken: some iterations."""
LEARN = 24
"""Polls of a job before anything is said of it."""
_QUIET = 0.005
SLOWER = 0.95
"""Share of its usual traffic that a slower job stays below."""
_SLOWED = 0.7
"""Share of its usual traffic below which a job that stays there counts as slow: a span that holds
one iteration less than another shows less for a while."""
_SEEN = 12
"""Lags that must be known of the past."""
_SPANS = (2, 4, 8)
"""Polls over which a job may have an even pace; else it is taken over `_LONGEST`."""
_LONGEST = 24
_EVENLY = 0.2
"""Share of its usual traffic by which a job of an even pace sends more or less, but rarely."""
_RARE = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Lag:
    """One job at one tick, in units of what a host usually sends in a poll.

    rows    int[H]    one network card of each host
    cards   int[C]    all of them
    lag     float[H]  how far each host fell behind the others and caught up again
    past    float[H]  the farthest that each was apart from the others before, ahead or behind
    pace    float     traffic of the job now, as a share of its usual traffic: of its hosts, the
            median by what they usually send
    lasting (low, high) of the pace of late, over the polls that tell it first; a job that stops
            or starts passes through any pace in half as many
    lasts   int       the latest polls that `lasting` is taken over
    least   float     the lowest pace in the latest span of polls
    slow_for int      polls for which the job has been slower than usual
    even    float     spread of the latest such pace between its hosts
    usual   float[H]  share of its link that each host usually sends, over all its cards
    shares  float[W,H]  what each sent in each of the last polls, over `usual`; 0 of idle hosts
    span    int       the latest polls that `pace` is taken over
    """

    rows: NDArray[np.intp]
    cards: NDArray[np.intp]
    lag: NDArray[np.float64]
    past: NDArray[np.float64]
    pace: float
    lasting: tuple[float, float]
    lasts: int
    least: float
    slow_for: int
    even: float
    usual: NDArray[np.float64]
    shares: NDArray[np.float64]
    span: int


class Beat:
    """The recent polls of one job."""

    def __init__(self, cards: NDArray[np.intp], host: NDArray[np.intp]) -> None:
        """`cards` int[C] are its network cards, `host` int[C] the place of each one's host."""
        self.cards = cards
        self._host = host
        hosts = int(host.max(initial=-1)) + 1
        self._per_host = np.bincount(host, minlength=hosts)
        first = np.unique(host, return_index=True)[1]
        self.rows = cards[first] if len(cards) else cards
        self._polls = 0
        self._sent = np.full((KEPT, hosts), np.nan)
        self._lags = np.full((KEPT, hosts), np.nan)
        self._paces = np.full(KEPT, np.nan)
        self._slow = np.zeros(KEPT, np.bool_)
        """Polls in which the job ran slower than usual: they do not teach what is usual."""
        self._ill = False

    def save(self) -> tuple[int, dict[str, NDArray[Any]]]:
        """Polls seen, and what they showed."""
        return self._polls, {
            "sent": self._sent,
            "lags": self._lags,
            "slow": self._slow,
            "paces": self._paces,
        }

    def restore(self, polls: int, arrays: dict[str, NDArray[Any]], order: list[int]) -> None:
        """Go on from there; host `i` is the one that was `order[i]`.

        Raises `KeyError`, `IndexError` or `ValueError` where it does not fit.
        """
        sent = arrays["sent"][:, order]
        if sent.shape != self._sent.shape:
            raise ValueError(f"a job of {self._sent.shape}, not {sent.shape}")
        self._polls, self._sent = polls, sent
        self._lags, self._slow = arrays["lags"][:, order], arrays["slow"]
        self._paces = arrays["paces"]

    def push(self, sent: NDArray[np.float32], *, ill: bool) -> None:
        """Take float32[C], the share of its link each card used in this poll.

        `ill`: an incident touches the job, so that it does not teach what is usual.
        """
        self._ill = ill
        total = np.bincount(self._host, sent, len(self._per_host))
        self._sent[self._polls % KEPT] = total / self._per_host
        self._slow[self._polls % KEPT] = False
        self._lags[self._polls % KEPT] = np.nan
        self._paces[self._polls % KEPT] = np.nan
        self._polls += 1

    def _recent(self, store: NDArray[Any], skip: int, count: int) -> NDArray[Any]:
        """The `count` polls before the last `skip`, oldest first."""
        first = max(0, self._polls - skip - count, self._polls - KEPT)
        return store[np.arange(first, max(first, self._polls - skip)) % KEPT]

    def lag(self) -> Lag | None:
        """The lag of each host now; None while the job is not known well enough."""
        if self._polls < LEARN or len(self.rows) < 3:
            return None
        before = self._recent(self._sent, SPAN, KEPT)
        slow = self._recent(self._slow, SPAN, KEPT)
        learned = before if slow.all() else before[~slow]
        usual = _usual(learned)
        now = self._recent(self._sent, 0, SPAN)
        works = usual > _QUIET
        if works.sum() < 3:
            return None
        share = _filled(now) / np.where(works, usual, np.inf)
        together = np.median(share[:, works], axis=1)
        spread, behind = _spread_and_lag(share, together, np.isnan(now))
        spread = np.where(works, spread, 0.0)
        lag = np.where(works, np.minimum(spread, behind), 0.0)
        span = SPAN // 2 if _whole_iterations(before) else SPAN
        recent, sends = share[-span:].mean(axis=0), np.where(works, usual, 0.0)
        pace = float(_quantile(recent, sends))
        self._paces[(self._polls - 1) % KEPT] = pace
        if self._ill or np.all(self._recent(self._paces, 0, SPAN // 2) < _SLOWED):
            self._slow[(self._polls - 1 - np.arange(SPAN // 2)) % KEPT] = True
            self._lags[(self._polls - 1 - np.arange(SPAN)) % KEPT] = np.nan
        else:
            self._lags[(self._polls - 1) % KEPT] = spread
        past = self._recent(self._lags, SPAN, KEPT)
        past = past[~np.isnan(past).any(axis=1)]
        if len(past) < _SEEN:
            return None
        even = _even_span(learned)
        lately = _filled(self._recent(self._sent, 0, 2 * SPAN)) / np.where(works, usual, np.inf)
        over, lasts, lasting = _lasting(even, lately, sends)
        hosts = lately[-over:].mean(axis=0)
        return Lag(
            self.rows,
            self.cards,
            lag,
            past.max(axis=0),
            pace,
            lasting,
            lasts,
            float(np.nanmin(self._recent(self._paces, 0, SPAN))),
            _latest(~(self._recent(self._paces, 0, KEPT) > SLOWER)),
            float(_quantile(hosts, sends, 0.9) - _quantile(hosts, sends, 0.1)),
            sends,
            share,
            span,
        )


def _lasting(
    even: int, share: NDArray[np.float64], usual: NDArray[np.float64]
) -> tuple[int, int, tuple[float, float]]:
    """The lowest and highest pace over some polls of late, float[W,H], and how many were looked at.

    As many polls as usually have an `even` pace; or more, of those over which it is lowest, for
    iterations may have become longer. Then twice as many are looked at: what happens once, a pause
    of the job, makes no such pace for so long.
    """
    found = []
    for span in (even, *(more for more in (2 * even, 4 * even) if more <= SPAN)):
        starts = span if span > even else max(min(span, SPAN // 2), 3)
        looked = span + starts - 1
        parts = sliding_window_view(share[-looked:], span, axis=0).mean(axis=-1)
        late = [float(_quantile(part, usual)) for part in parts]
        found.append((span, looked, (min(late), max(late))))
    return min(found, key=lambda one: one[2][1])


def _latest(true: NDArray[np.bool_]) -> int:
    """How many of bool[W] are true without a break, from the last one back."""
    return int(np.argmin(np.append(true[::-1], False)))


def _quantile(
    share: NDArray[np.float64], usual: NDArray[np.float64], part: float = 0.5
) -> np.float64:
    """What a `part` of all that the hosts usually send goes below; a median, if not said.

    What comes beside the job shows most at ranks that send little.
    """
    order = np.argsort(share, kind="stable")
    below = np.cumsum(usual[order])
    return np.float64(share[order[np.searchsorted(below, part * below[-1])]])


def _even_span(before: NDArray[np.float64]) -> int:
    """The fewest polls over which a job that sent float[W,H] kept an even pace."""
    whole = _filled(before).mean(axis=1)
    for span in _SPANS:
        if len(whole) >= 2 * span:
            means = sliding_window_view(whole, span).mean(axis=-1)
            low, usual, high = np.quantile(means, (_RARE, 0.5, 1 - _RARE))
            if low >= (1 - _EVENLY) * usual and high <= (1 + _EVENLY) * usual:
                return span
    return _LONGEST


def _whole_iterations(before: NDArray[np.float64]) -> bool:
    """Whether a poll covers whole iterations, so that few polls tell the pace."""
    whole = np.nan_to_num(before).mean(axis=1)
    return float(whole.std()) < 0.25 * float(whole.mean())


def _usual(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[H]: what each host sends in a poll: the job's mean, divided as in most parts of it.

    What a host sends beside its job for less than half of the time is not usual.
    """
    mean = _mean(values)
    known = ~np.isnan(values)
    parts = max(2 * len(values) // SPAN, 1)
    starts = np.arange(parts) * len(values) // parts
    count = np.add.reduceat(known.astype(np.intp), starts)
    sent = np.add.reduceat(np.where(known, values, 0.0), starts) / np.maximum(count, 1)
    whole = sent.sum(axis=1, keepdims=True)
    busy = whole[:, 0] >= 0.5 * whole.mean()
    if not whole.any():
        return mean
    usual = np.median(sent[busy] / whole[busy], axis=0)
    if not usual.any():  # each sends by turns
        return mean
    return np.asarray(usual * (mean.sum() / usual.sum()), np.float64)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[H]: mean of what is known, 0 where nothing is."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1), np.float64)


def _filled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[W,H]: a missed poll is part of what the next one reports; the last is repeated."""
    if not np.isnan(values).any():
        return values
    out = values.copy()
    for step in range(len(out) - 2, -1, -1):
        out[step] = np.where(np.isnan(out[step]), out[step + 1], out[step])
    for step in range(1, len(out)):
        out[step] = np.where(np.isnan(out[step]), out[step - 1], out[step])
    return np.nan_to_num(out)


def _spread_and_lag(
    share: NDArray[np.float64], together: NDArray[np.float64], missed: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two float64[H]: how far apart the host's and the job's cumulative traffic were, and behind.

    The first, ahead or behind, leaves a steady drift aside. The second counts from where the host
    was before: who sends something beside the job is ahead, and never late. Inside a missed poll
    nobody knows how far a host is; the sum is right again at the next one.
    """
    path = np.cumsum(together[:, None] - share, axis=0)
    steps = np.linspace(0, 1, len(path))[:, None]
    level = path - (path[0] + (path[-1] - path[0]) * steps)
    level[missed] = 0.0
    ordered = np.sort(level, axis=0)
    least = np.minimum(np.minimum.accumulate(np.where(missed, np.inf, path), axis=0), 0.0)
    behind = np.where(missed, 0.0, path - least)
    return ordered[-2] - ordered[1], behind.max(axis=0)


class Pace:
    """One per fabric; jobs come and go with the topology."""

    def __init__(self) -> None:
        """No job yet."""
        self._shape: object = None
        self._beats: dict[str, Beat] = {}

    def save(self, ids: Sequence[PortId]) -> Saved:
        """The recent polls of every job, whose cards are told by name."""
        saved, about = Saved(), []
        for place, (name, beat) in enumerate(self._beats.items()):
            polls, arrays = beat.save()
            hosts = [ids[row].device for row in beat.rows]
            about.append([name, polls, [ids[row] for row in beat.cards], hosts])
            saved.add(str(place), Saved(other=arrays))
        saved.write("jobs", about)
        return saved

    @classmethod
    def restored(cls, saved: Saved, table: PortTable) -> Pace:
        """Go on from there; a job of which a card is not known any more begins anew."""
        pace = cls()
        for place, (name, polls, cards, hosts) in enumerate(saved.read("jobs")):
            rows = [row for card in cards if (row := table.row(PortId(*card))) is not None]
            if len(rows) == len(cards):
                known = np.sort(np.array(rows, np.intp))
                nodes, host = np.unique(table.node[known], return_inverse=True)
                order = [hosts.index(table.nodes[node]) for node in nodes]
                beat = Beat(known, host.astype(np.intp))
                beat.restore(polls, saved.part(str(place)).other, order)
                pace._beats[name] = beat
        return pace

    def update(self, view: FabricView, touched: NDArray[np.intp]) -> None:
        """Take this tick of every job; `touched` rows are in an incident."""
        if view.shape is not self._shape:
            self._shape = view.shape
            self._adopt(view)
        own = view.window.now("tx_use")  # a poll that one end missed is not filled from the other
        told = view.shape.at_peer(view.window.now("rx_use"))
        sent = np.where(np.isnan(view.levels.now("tx_use")), told, own)
        for beat in self._beats.values():
            beat.push(sent[beat.cards], ill=bool(np.isin(beat.cards, touched).any()))

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
            if old is None or not np.array_equal(old.cards, cards):
                host = np.unique(shape.node[cards], return_inverse=True)[1]
                old = Beat(cards, host.astype(np.intp))
            beats[job.name] = old
        self._beats = beats
