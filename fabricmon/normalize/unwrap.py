"""What a counter did between two readings: one counter of many ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fabricmon.model.readings import Column

_HALF = np.uint64(1 << 63)


def difference(
    new: NDArray[np.uint64],
    old: NDArray[np.uint64],
    column: Column,
    possible: Callable[[NDArray[np.intp]], NDArray[np.float64]],
    valid: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.uint8] | None]:
    """How far a counter moved, in its source's own units, and what happened on the way.

    A fall is a wrap where the counter wraps at all, the way over the top is `possible` (the most
    that the ports at these indexes can have moved), and takes less than half the range (a 64-bit
    counter must have stood in its upper half); any other fall is a reset, whose movement is unknown
    and given as 0. A saturating counter at its top has moved by at least the difference. Where not
    `valid` (None: everywhere), nothing moved.
    Returns uint64[N] and uint8[N] `State`, or None where every value is plain.
    """
    delta = new - old
    fell = new < old
    if valid is not None:
        delta *= valid
        fell &= valid
    state: NDArray[np.uint8] | None = None
    if fell.any():
        state = np.zeros(len(new), np.uint8)
        at = np.flatnonzero(fell)
        way = delta[at] & np.uint64((1 << column.bits) - 1)
        wrapped = _wrapped(new[at], old[at], column) & (way.astype(np.float64) <= possible(at))
        delta[at] = np.where(wrapped, way, np.uint64(0))
        state[at] = np.where(wrapped, State.WRAPPED, State.RESET)
    if column.saturates:
        full = new >= np.uint64((1 << column.bits) - 1)
        if valid is not None:
            full &= valid
        if full.any():
            state = np.zeros(len(new), np.uint8) if state is None else state
            state[full] = State.SATURATED
    return delta, state


def _wrapped(new: NDArray[np.uint64], old: NDArray[np.uint64], column: Column) -> NDArray[np.bool_]:
    """bool[M]: which of these falls look like a way over the top."""
    if column.saturates:
        return np.zeros(len(new), np.bool_)
    if column.bits == 64:
        return (old >= _HALF) & (new < _HALF)
    top = np.uint64((1 << column.bits) - 1)
    way = (new - old) & top
    return (new <= top) & (old <= top) & (way <= (top >> np.uint64(1)))
