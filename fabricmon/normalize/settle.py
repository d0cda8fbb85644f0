"""Turn staged readings into movement: totals grow, states are found, beats are learned."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fabricmon.model.frame import Odd
from fabricmon.model.readings import State
from fabricmon.normalize import refresh
from fabricmon.normalize.store import NO_TIME, Store
from fabricmon.normalize.unwrap import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fabricmon.model.readings import Column
    from fabricmon.normalize.limits import Limits
    from fabricmon.normalize.staging import Layout

Where: TypeAlias = "slice | NDArray[np.intp]"
"""Which ports: a slice where their rows are adjacent, else their rows."""
_ALL = slice(None)
_ODD = (State.WRAPPED, State.RESET, State.SATURATED)
_MOST_ODD = 1_024
"""Odd values noted per series and reading."""


def grid(slots: Where, ports: Where) -> tuple[Any, Any]:
    """Index of a block of slots (or groups) x ports."""
    if isinstance(slots, slice) or isinstance(ports, slice):
        return slots, ports
    return slots[:, None], ports


def seconds(store: Store, group: int) -> NDArray[np.float64]:
    """float64[N]: the time the group's movement since the last tick stands for; NaN unknown."""
    last, base = store.last[group], store.base[group]
    span = (last - base) / 1e9
    span[(last == NO_TIME) | (base == NO_TIME)] = np.nan
    return span


class Settler:
    """Works on a store; `tally` counts what is not plain, by state."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Nothing staged yet."""
        self.store = store
        self.limits = limits
        self.tally: Counter[str] = Counter()
        self.odd: list[Odd] = []
        """What was not plain since the tick, as read: evidence."""

    def early(self, group: int, where: Where) -> None:
        """Settle what is staged for these ports, since a newer reading came before the tick."""
        store = self.store
        changed = np.zeros(len(store.last[group][where]), np.bool_)
        anew = changed.copy()
        for slot in store.groups[group]:
            delta = self._slot(slot, where)
            state = store.state[slot][where]
            store.moved[slot][where] += delta
            seen = np.where(state == State.MISSING, np.uint8(State.OK), state)
            store.worst[slot][where] = np.maximum(store.worst[slot][where], seen)
            changed |= delta != 0
            anew |= _begins(state)
        store.early.update(store.groups[group])
        self._done(group, where, changed, anew)

    def early_block(self, layout: Layout, where: Where) -> bool:
        """The same for all of a layout at once, where every value just moved on; else False."""
        store = self.store
        block = grid(layout.slot_rows, where)
        state, new, old = store.state[block], store.incoming[block], store.raw[block]
        good = state == State.OK
        plain = good | (state == State.MISSING) | (state == State.UNSUPPORTED)
        full = layout.saturating
        stuck = bool(len(full)) and bool((new[full] >= layout.tops[full, None]).any())
        if stuck or not plain.all() or (good & (new < old)).any():
            return False
        delta = (new - old) * good * layout.scales[:, None]
        store.raw[block] = np.where(good, new, old)
        store.moved[block] += delta
        store.total[block] += delta
        store.early.update(layout.slots.tolist())
        moved = delta != 0
        anew = np.zeros(delta.shape[1], np.bool_)
        for group, positions in layout.groups:
            self._done(group, where, moved[positions].any(axis=0), anew)
        return True

    def group(self, group: int, inverse: NDArray[np.float32]) -> dict[int, NDArray[np.intp]]:
        """Settle a group at the tick and write its rates into `store.rate`.

        `inverse` float32[N] is 1 / seconds since the last tick's reading, NaN where unknown.
        Returns, per slot, the ports whose rate is more than their link carries.
        """
        store = self.store
        changed = np.zeros(store.ports, np.bool_)
        anew = changed.copy()
        over = {}
        for slot in store.groups[group]:
            delta = self._slot(slot, _ALL)
            changed |= delta != 0
            state = store.state[slot]
            if slot in store.early:
                delta += store.moved[slot]
                np.maximum(state, store.worst[slot], out=state)
                store.moved[slot], store.worst[slot] = 0, State.OK
            rate = store.rate[slot]
            np.multiply(delta, inverse, out=rate, casting="unsafe")
            if state.any():
                rate[state >= State.MISSING] = np.nan
                anew |= _begins(state)
            fast = rate > self.limits.of(store.counter_of(slot))
            if fast.any():
                over[slot] = self._disbelieve(group, slot, np.flatnonzero(fast), delta)
        store.early.difference_update(store.groups[group])
        self._done(group, _ALL, changed, anew)
        return over

    def _disbelieve(
        self, group: int, slot: int, at: NDArray[np.intp], delta: NDArray[np.uint64]
    ) -> NDArray[np.intp]:
        """Take back what cannot have moved even since the last move; returns the other ports."""
        store = self.store
        since = (store.last[group][at] - store.moved_at[group][at]) / 1e9
        since[store.moved_at[group][at] == NO_TIME] = 0.0
        since = np.fmax(since, seconds(store, group)[at])
        absurd = delta[at] > self.limits.of(store.counter_of(slot))[at] * since
        gone = at[absurd]
        store.total[slot][gone] -= delta[gone]
        scales = np.array([column.scale for column in store.columns[slot]], np.uint64)
        moved = delta[gone] // scales[store.source[slot][gone] - 1]
        raw = store.raw[slot][gone]
        self._keep(slot, gone, np.ones(len(gone), np.bool_), raw - moved, raw)
        store.rate[slot][gone] = np.nan
        store.state[slot][gone] = State.OVER_RATE
        self.tally["over_rate"] += len(gone)
        return at[~absurd]

    def _keep(
        self,
        slot: int,
        where: Where,
        odd: NDArray[np.bool_],
        before: NDArray[np.uint64],
        after: NDArray[np.uint64],
    ) -> None:
        """Note some of the `odd` values among those of `where`, as read."""
        at = np.flatnonzero(odd)[:_MOST_ODD]
        if len(at):
            store = self.store
            rows = np.arange(store.ports)[where][at]
            counter, queue = store.counter_of(slot).id, store.queue_of(slot)
            self.odd.append(Odd(counter, queue, rows, before[at], after[at]))

    def _done(
        self, group: int, where: Where, changed: NDArray[np.bool_], anew: NDArray[np.bool_]
    ) -> None:
        store = self.store
        refresh.observe(store, group, where, changed, anew)
        store.settled[group][where] = store.last[group][where]

    def _slot(self, slot: int, where: Where) -> NDArray[np.uint64]:
        """uint64[len(where)]: how far it moved, in catalogue units; raw, state, total follow."""
        store = self.store
        state, new, old = (a[slot][where] for a in (store.state, store.incoming, store.raw))
        valid: NDArray[np.bool_] | None = None
        taken: NDArray[np.bool_] | None = None
        if state.any():
            valid = state == State.OK
            taken = valid | (state == State.BASELINE) | (state == State.RESET)
        parts = list(self._sources(slot, where))
        if len(parts) == 1:
            delta = self._part(slot, where, parts[0][0], new, old, state, valid)
        else:
            delta = np.zeros(len(new), np.uint64)
            rows = np.arange(store.ports)[where]
            for column, at in parts:
                sub = None if valid is None else valid[at]
                states = state[at]
                delta[at] = self._part(slot, rows[at], column, new[at], old[at], states, sub)
                state[at] = states
        if state.any():
            self._keep(slot, where, np.isin(state, _ODD), old, new)
        raw = store.raw[slot]
        raw[where] = new if taken is None else np.where(taken, new, old)
        if not isinstance(where, slice):
            store.state[slot][where] = state
        store.total[slot][where] += delta
        return delta

    def _part(
        self,
        slot: int,
        where: Where,
        column: Column,
        new: NDArray[np.uint64],
        old: NDArray[np.uint64],
        state: NDArray[np.uint8],
        valid: NDArray[np.bool_] | None,
    ) -> NDArray[np.uint64]:
        """The same for ports that one column feeds; `state` is written in place."""
        store = self.store

        def possible(at: NDArray[np.intp]) -> NDArray[np.float64]:
            span = seconds(store, store.group_of[slot])[where][at]
            limit = self.limits.of(store.counter_of(slot))[where][at]
            return np.where(np.isnan(span), np.inf, span) * limit / column.scale

        delta, what = difference(new, old, column, possible, valid)
        if what is not None:
            np.maximum(state, what, out=state)
            counts = np.bincount(what)
            for code in np.flatnonzero(counts[1:]) + 1:
                self.tally[State(int(code)).name.lower()] += int(counts[code])
        if column.scale != 1:
            delta *= np.uint64(column.scale)
        return delta

    def _sources(self, slot: int, where: Where) -> Iterator[tuple[Column, NDArray[np.intp]]]:
        """The columns that feed these ports, and which of the ports each feeds."""
        columns = self.store.columns[slot]
        if len({(c.bits, c.saturates, c.scale) for c in columns}) == 1:
            yield columns[0], np.empty(0, np.intp)
            return
        sources = self.store.source[slot][where]
        for number, column in enumerate(columns, 1):
            at = np.flatnonzero(sources == number)
            if len(at):
                yield column, at


def _begins(state: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """bool[N]: the series begins anew with this reading."""
    return (state == State.BASELINE) | (state == State.RESET)
