"""Devices that renew their counters slower than we poll.

Read faster than it is renewed, a counter stands still and then jumps: rates saw between nothing
and a multiple of the truth. The renewal shows as a steady beat of moves with polls between them
that move nothing. On/off traffic pauses too, but its gaps differ by more than one poll; what
cannot be told apart from a beat is averaged over it, which keeps sums right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.normalize.store import NO_TIME, Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEADY = 1.6
"""Gaps of one beat differ by at most a poll, and polls jitter; traffic that pauses differs by 2."""
_SLOWER = 1.2
"""A beat this much longer than the poll is the device's own."""
_ENOUGH = 2
"""Steady gaps before a beat is believed."""
_MEMORY = 32
"""Gaps that the mean looks back."""
_MARGIN = 1.5
"""Beats without a move before a value counts as stale."""


@dataclass(frozen=True, slots=True, eq=False)
class Beat:
    """What the ports of one group do at this tick, where their device has a beat of its own.

    slow   bool[N]     the device renews slower than we poll
    span_s float64[N]  the time that the latest move stands for; meaningful where slow
    held   bool[N]     nothing moved, and nothing is due yet
    stale  bool[N]     nothing moved on the whole device for longer than its beat
    """

    slow: NDArray[np.bool_]
    span_s: NDArray[np.float64]
    held: NDArray[np.bool_]
    stale: NDArray[np.bool_]


def observe(
    store: Store,
    group: int,
    where: slice | NDArray[np.intp],
    changed: NDArray[np.bool_],
) -> None:
    """Learn from one reading of `where` in which the `changed` ports moved."""
    time, before = store.last[group][where], store.settled[group][where]
    moved_at = store.moved_at[group][where]
    beats = changed & (moved_at != NO_TIME) & (before != NO_TIME)
    beats &= (moved_at != before) | (store.gaps[group][where] > 0)
    at = np.flatnonzero(beats)
    if len(at):
        _learn(store, group, _absolute(where, at), time[at], before[at])
    store.moved_at[group][where] = np.where(changed, time, moved_at)


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
    gap = ((time - store.moved_at[group][ports]) / 1e9).astype(np.float32)
    poll = ((time - before) / 1e9).astype(np.float32)
    seen, low, high = (a[group][ports] for a in (store.gaps, store.gap_low, store.gap_high))
    slack = _STEADY * poll
    longer = (seen >= _ENOUGH) & (gap > low + slack)  # traffic paused, or polls were missed
    fits = (seen > 0) & (gap <= low + slack) & (gap >= high - slack)
    count = np.where(longer, seen - 1, np.where(fits, np.minimum(seen + 1, _MEMORY), 1))
    learned: dict[str, NDArray[Any]] = {
        "gap": np.where(fits, _mean(store.gap[group][ports], gap, count), gap),
        "poll": np.where(fits, _mean(store.poll[group][ports], poll, count), poll),
        "gap_low": np.where(fits, np.minimum(low, gap), gap),
        "gap_high": np.where(fits, np.maximum(high, gap), gap),
    }
    store.gaps[group][ports] = count
    for name, value in learned.items():
        row: NDArray[np.float32] = getattr(store, name)[group]
        row[ports] = np.where(longer, row[ports], value)


def _mean(
    mean: NDArray[np.float32], value: NDArray[np.float32], count: NDArray[np.uint16]
) -> NDArray[np.float32]:
    """The running mean after `value`, the `count`-th."""
    return (mean + (value - mean) / count).astype(np.float32)


def beat_of(store: Store, group: int, node: NDArray[np.int32]) -> Beat | None:
    """The beat of every device, from the ports that show it. None where no device has one."""
    gap = store.gap[group].astype(np.float64)
    shows = (store.gaps[group] >= _ENOUGH) & (gap > _SLOWER * store.poll[group])
    if not shows.any():
        return None
    devices = int(node.max()) + 1
    votes = np.bincount(node[shows], minlength=devices)
    period = np.bincount(node[shows], gap[shows], devices) / np.maximum(votes, 1)
    span = period[node]
    known = store.moved_at[group] != NO_TIME
    still = np.full(len(node), np.inf)
    still[known] = (store.last[group][known] - store.moved_at[group][known]) / 1e9
    active = np.bincount(node[still <= 2 * span], minlength=devices)
    slow_device = (votes > 0) & (2 * votes >= active)
    slow = slow_device[node]
    due = _MARGIN * span + store.poll[group]
    alive = np.bincount(node[slow & (still <= due)], minlength=devices) > 0
    changed = known & (store.moved_at[group] != store.moved_base[group])
    since = np.zeros(len(node))
    both = changed & (store.moved_base[group] != NO_TIME)
    since[both] = (store.moved_at[group][both] - store.moved_base[group][both]) / 1e9
    beats = np.maximum(1.0, np.rint(since / np.where(span > 0, span, 1.0)))
    return Beat(
        slow=slow,
        span_s=beats * span,
        held=slow & ~changed & (still <= due),
        stale=slow & ~changed & ~alive[node],
    )
