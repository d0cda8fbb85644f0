"""Devices that renew their counters slower than we poll.

Read faster than it is renewed, a counter stands still and then jumps: rates saw between nothing
and a multiple of the truth. The renewal shows as a steady beat of moves, with about as many
readings in between each time that move nothing. On/off traffic stands still too, but not steadily:
many readings between some moves, none between others; what cannot be told apart from a beat is
averaged over it, which keeps sums right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.normalize.store import NO_TIME, Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEADY = 1
"""Readings between moves differ by so many in one beat, by when in it they fall."""
_SLOWER = 1.2
"""A beat this much longer than the poll is the device's own."""
_ENOUGH = 2
"""Steady moves before a beat is believed."""
_MEMORY = 64
"""Moves that the mean looks back."""
_PENALTY = 4
"""Steady moves that an unsteady one costs."""
_LATE = 1.5
"""A reading later than this many polls tells little about when the device moved."""
_MARGIN = 1.5
"""Beats without a move before a value counts as stale."""
_AT_ONCE = 0.8
"""Of a device's active ports; so many of them moving together show that it renews all at once."""
_ROUND = (1.0, 5.0, 10.0, 30.0)
"""Seconds, the roundest last."""
_MOST_STILL = np.uint8(250)


@dataclass(frozen=True, slots=True, eq=False)
class Beat:
    """What ports do at this tick whose device has a beat of its own; all false where it has none.

    moved  bool[N]     the device renewed their counters
    span_s float64[N]  the time that this renewal stands for
    held   bool[N]     nothing moved, and nothing is due yet
    stale  bool[N]     nothing moved on the whole device for longer than its beat
    """

    moved: NDArray[np.bool_]
    span_s: NDArray[np.float64]
    held: NDArray[np.bool_]
    stale: NDArray[np.bool_]


def observe(
    store: Store,
    group: int,
    where: slice | NDArray[np.intp],
    changed: NDArray[np.bool_],
    anew: NDArray[np.bool_],
) -> None:
    """Learn from one reading of `where` in which `changed` ports moved and others began `anew`.

    Only traffic tells when a device renews: pauses or errors move once an iteration, or never.
    """
    time, before = store.last[group][where], store.settled[group][where]
    moved_at, still = store.moved_at[group][where], store.still[group][where]
    read = (time != before) & (before != NO_TIME)
    if anew.any():
        store.gaps[group][where] = np.where(anew, np.uint8(0), store.gaps[group][where])
        moved_at = np.where(anew, NO_TIME, moved_at)
    beats = changed & read & (moved_at != NO_TIME)
    beats &= (still > 0) | (store.gaps[group][where] > 0)
    at = np.flatnonzero(beats)
    if len(at) and group == store.traffic_group:
        _learn(store, group, _absolute(where, at), time[at], before[at])
    store.moved_at[group][where] = np.where(changed, time, moved_at)
    waited = np.minimum(still, _MOST_STILL) + (read & ~changed)
    store.still[group][where] = np.where(changed, np.uint8(0), waited)


def _absolute(where: slice | NDArray[np.intp], at: NDArray[np.intp]) -> NDArray[np.intp]:
    if isinstance(where, slice):
        return at + (where.start or 0)
    return where[at]


def _learn(
    store: Store,
    group: int,
    ports: NDArray[np.intp],
    time: NDArray[np.int64],
    before: NDArray[np.int64],
) -> None:
    """Take one move of each of these ports, `time` being its reading, `before` the one before."""
    gap = (time - store.moved_at[group][ports]) / 1e9
    spacing = (time - before) / 1e9
    poll = store.poll[group][ports]
    poll = np.where(poll > 0, poll + (np.minimum(spacing, _LATE * poll) - poll) / 8, spacing)
    store.poll[group][ports] = poll
    late = spacing > _LATE * poll
    sure = ~late & ~store.unsure[group][ports]
    store.unsure[group][ports] = late
    ports, gap = ports[sure], gap[sure]

    still, seen = store.still[group][ports], store.gaps[group][ports].astype(np.int16)
    low = np.minimum(store.still_low[group][ports], still)
    high = np.maximum(store.still_high[group][ports], still)
    steady = (seen > 0) & (high - low <= _STEADY)
    count = np.where(steady, np.minimum(seen + 1, _MEMORY), seen - _PENALTY)
    anew = ~steady & (count <= 0)
    mean = store.gap[group][ports]
    mean = np.where(steady, mean + (gap - mean) / np.maximum(count, 1), np.where(anew, gap, mean))
    store.gap[group][ports] = mean
    store.gaps[group][ports] = np.where(anew, 1, count)
    for extreme, value in ((store.still_low, low), (store.still_high, high)):
        kept = np.where(steady, value, extreme[group][ports])
        extreme[group][ports] = np.where(anew, still, kept)


def beat_of(store: Store, group: int, node: NDArray[np.int32]) -> Beat | None:
    """The beat of every device, from the ports that show it. None where no device has one."""
    gap = store.gap[group].astype(np.float64)
    shows = (store.gaps[group] >= _ENOUGH) & (gap > _SLOWER * store.poll[group])
    if not shows.any():
        return None
    devices = int(node.max()) + 1
    votes = np.bincount(node[shows], minlength=devices)
    period = np.bincount(node[shows], gap[shows], devices) / np.maximum(votes, 1)
    # A move is known to be as old as one poll, so the mean of n gaps may be off by a poll / n.
    doubt = store.poll[group][shows] / store.gaps[group][shows]
    span = _rounded(period, np.bincount(node[shows], doubt, devices) / np.maximum(votes, 1))[node]
    known = store.moved_at[group] != NO_TIME
    still = np.full(len(node), np.inf)
    still[known] = (store.last[group][known] - store.moved_at[group][known]) / 1e9
    active = np.bincount(node[still <= 2 * span], minlength=devices)
    slow = ((votes > 0) & (2 * votes >= active))[node]
    due = _MARGIN * span + store.poll[group]
    alive = np.bincount(node[slow & (still <= due)], minlength=devices) > 0
    changed = known & (store.moved_at[group] != store.moved_base[group])
    passed = _passed_over(store, group, node, span, still <= 2 * span)
    held = slow & ~changed & (still <= due) & ~passed
    stale = slow & ~changed & ~alive[node]
    beats = np.maximum(1.0, np.rint(_since(store, group) / np.where(span > 0, span, 1.0)))
    store.quiet[group][:] = slow & ~changed & ~held & ~stale
    return Beat(slow & changed, beats * span, held, stale)


def _passed_over(
    store: Store,
    group: int,
    node: NDArray[np.int32],
    span: NDArray[np.float64],
    active: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """bool[N]: the device has renewed its counters since the port moved, and it did not move.

    Only where a device renews all at once: what its other ports show then holds for this one.
    """
    known = store.moved_at[group] != NO_TIME
    newest = np.full(int(node.max()) + 1, NO_TIME)
    np.maximum.at(newest, node[known], store.moved_at[group][known])
    behind = np.zeros(len(node))
    behind[known] = (newest[node[known]] - store.moved_at[group][known]) / 1e9
    poll = store.poll[group]
    together = np.bincount(node[active & (behind <= poll)], minlength=len(newest))
    at_once = together >= _AT_ONCE * np.bincount(node[active], minlength=len(newest))
    return known & at_once[node] & (behind >= np.maximum(span - poll / 2, poll))


def _rounded(period: NDArray[np.float64], doubt: NDArray[np.float64]) -> NDArray[np.float64]:
    """The roundest time within the doubt: that is how people set caches."""
    out = period
    for step in _ROUND:
        near = np.rint(period / step) * step
        out = np.where((near > 0) & (np.abs(near - period) < doubt), near, out)
    return out


def _since(store: Store, group: int) -> NDArray[np.float64]:
    """float64[N]: seconds the latest move covers: since the one before, or since it was due."""
    before = np.where(store.quiet[group], store.base[group], store.moved_base[group])
    known = (before != NO_TIME) & (store.moved_at[group] != NO_TIME)
    since = np.zeros(len(before))
    since[known] = (store.moved_at[group][known] - before[known]) / 1e9
    return since
