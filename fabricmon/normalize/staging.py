"""Take a reading in: find its rows and slots, refuse what is old or foreign, stage the rest.

A whole reading that is newer, complete and from the known sources, which is nearly every one, is
staged by a handful of copies, and so is the first one of its ports; everything else goes the long
way round in `_sort_out`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fabricmon.model.readings import ByIdentity, State
from fabricmon.normalize.settle import grid
from fabricmon.normalize.store import NO_TIME, STEPPED

if TYPE_CHECKING:
    from collections import Counter

    from numpy.typing import NDArray

    from fabricmon.model.ports import PortTable
    from fabricmon.model.readings import Column, PortSet, ReadingBatch
    from fabricmon.normalize.settle import Settler
    from fabricmon.normalize.store import Store

Where: TypeAlias = "slice | NDArray[np.intp]"
_DROP = 255
"""In a matrix of states: leave the cell alone."""
_PATIENCE = 3
"""Ticks after which a silent source loses its series, and an old stamp means a wrong clock."""
_DISTRUST = 10
"""Good stamps before a clock that was wrong is believed again."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the columns of a batch go. Cached as long as slots and groups stay."""

    columns: tuple[Column, ...]
    version: int
    kept: list[int]
    """Indexes of the columns that are taken: the widest, where two feed one slot."""
    slots: NDArray[np.intp]
    sources: NDArray[np.uint8]
    groups: list[tuple[int, list[int]]]
    """Group, and the positions in `slots` that belong to it."""
    slot_rows: Where
    """The slots again, as a slice where they are adjacent."""
    group_rows: Where
    scales: NDArray[np.uint64]
    tops: NDArray[np.uint64]
    """Where each column sticks or wraps."""
    saturating: NDArray[np.intp]
    """Positions of the columns that stick."""


@dataclass(frozen=True, slots=True, eq=False)
class Usual:
    """The states of a plain reading uint8[K,N], and how many of them are not good."""

    state: NDArray[np.uint8]
    unsupported: int
    missing: int


class Staging:
    """Writes readings into the store."""

    def __init__(self, store: Store, table: PortTable, settler: Settler) -> None:
        """Caches are empty; `now_ns` and `interval_s` are those of the last tick."""
        self._store = store
        self._table = table
        self._settler = settler
        self._layouts: ByIdentity[tuple[Column, ...], Layout] = ByIdentity()
        self._rows: ByIdentity[PortSet, tuple[Where, bool]] = ByIdentity()
        """A port set's rows, and whether every port has one of its own."""
        self._usual: dict[tuple[int, int], Usual] = {}
        """What a plain reading of a port set and a layout (by id) looks like."""
        self.now_ns = NO_TIME
        self.interval_s = 0.0
        self.awake_ns = NO_TIME
        """The first tick after a restart: before it, silence was ours."""

    @property
    def _tally(self) -> Counter[str]:
        return self._settler.tally

    def where(self, ports: PortSet) -> Where:
        """The rows of a port set: a slice where adjacent. Rows the table refused are -1."""
        return self._where(ports)[0]

    def _where(self, ports: PortSet) -> tuple[Where, bool]:
        known = self._rows.get(ports)
        if known is not None:
            return known
        rows = self._table.rows(ports).astype(np.intp)
        self._store.grow(len(self._table))
        where = _adjacent(rows)
        own = isinstance(where, slice) or len(_first_of_each(rows)) == len(rows)
        if self._rows.put(ports, (where, own), len(ports), self._table.most_names):
            self._usual.clear()
        return where, own

    def stage(self, batch: ReadingBatch) -> None:
        """Take the counters of one reading."""
        layout = self._layout(batch.columns)
        where, own = self._where(batch.ports)
        if not layout.kept or len(batch.ports) == 0:
            return
        whole = len(layout.kept) == len(batch.columns)
        values = batch.values if whole else batch.values[layout.kept]
        state = batch.state if whole else batch.state[layout.kept]
        usual = self._usual_for(batch, layout, where, state) if own else None
        if usual is not None:
            self._write(layout, where, values, state, batch.time_ns)
            self._tally["unsupported"] += usual.unsupported
            self._tally["missing"] += usual.missing
        elif not (own and self._begin(layout, where, values, state, batch.time_ns)):
            self._sort_out(batch, layout, where, values, state)

    def _layout(self, columns: tuple[Column, ...]) -> Layout:
        layout = self._layouts.get(columns)
        if layout is not None and layout.version == self._store.version:
            return layout
        best: dict[tuple[int, int], int] = {}
        for i, column in enumerate(columns):
            key = (column.counter.code, column.queue)
            if key not in best or columns[best[key]].bits < column.bits:
                best[key] = i
        kept = sorted(best.values())
        taken = [columns[i] for i in kept]
        slots = self._store.slots(taken)
        sources = [self._store.number(s, c) for s, c in zip(slots, taken, strict=True)]
        groups: dict[int, list[int]] = {}
        for position, slot in enumerate(slots):
            groups.setdefault(self._store.group_of[slot], []).append(position)
        layout = Layout(
            columns,
            self._store.version,
            kept,
            np.array(slots, np.intp),
            np.array(sources, np.uint8),
            list(groups.items()),
            _adjacent(np.array(slots, np.intp)),
            _adjacent(np.array(list(groups), np.intp)),
            np.array([c.scale for c in taken], np.uint64),
            np.array([(1 << c.bits) - 1 for c in taken], np.uint64),
            np.flatnonzero([c.saturates for c in taken]),
        )
        self._layouts.put(columns, layout, most=4_096)
        self._usual.clear()
        return layout

    def _usual_for(
        self, batch: ReadingBatch, layout: Layout, where: Where, state: NDArray[np.uint8]
    ) -> Usual | None:
        """What makes this reading plain; None where it has to be looked at value by value.

        Plain: newer than what is known, every value from its own source, nothing missing but what
        was never there, and nothing but movement in an earlier reading of the same tick.
        """
        if batch.discontinuity:
            return None
        store = self._store
        groups = grid(layout.group_rows, where)
        if (batch.time_ns <= store.last[groups]).any():
            return None
        key = id(batch.ports), id(layout)
        usual = self._usual.get(key)
        again = bool(store.touched[groups].any())
        if usual is not None and np.array_equal(state, usual.state):
            return usual if not again or self._settler.early_block(layout, where) else None
        if usual is None and not again:
            usual = self._usual_of(layout, where, state)
            if usual is not None:
                self._usual[key] = usual
            return usual
        return None

    def _usual_of(self, layout: Layout, where: Where, state: NDArray[np.uint8]) -> Usual | None:
        """What is plain from now on, if this reading is; None if something needs a look."""
        good = state == State.OK
        sources = self._store.source[grid(layout.slot_rows, where)]
        own = sources == np.where(good, layout.sources[:, None], 0)
        if not own.all() or not good.any(axis=0).all():
            return None
        counts = np.bincount(state.ravel(), minlength=State.UNSUPPORTED + 1)
        return Usual(state, int(counts[State.UNSUPPORTED]), int(counts[State.MISSING]))

    def _write(
        self,
        layout: Layout,
        where: Where,
        values: NDArray[np.uint64],
        state: NDArray[np.uint8],
        time_ns: NDArray[np.int64],
    ) -> None:
        store = self._store
        slots, groups = grid(layout.slot_rows, where), grid(layout.group_rows, where)
        store.incoming[slots] = values
        store.state[slots] = state
        store.last[groups] = time_ns
        store.touched[groups] = True

    def _begin(
        self,
        layout: Layout,
        where: Where,
        values: NDArray[np.uint64],
        state: NDArray[np.uint8],
        time_ns: NDArray[np.int64],
    ) -> bool:
        """Take the first reading of ports that no source has read; False if it is not that.

        The long way would come to the same; but at the start every reading is of this kind.
        """
        store, good = self._store, state == State.OK
        block = grid(layout.slot_rows, where)
        if (store.last[grid(layout.group_rows, where)] != NO_TIME).any():
            return False
        if store.source[block].any():
            return False
        if not all(good[positions].any(axis=0).all() for _, positions in layout.groups):
            return False
        begun = np.where(good, np.uint8(State.BASELINE), state)
        self._write(layout, where, values, begun, time_ns)
        store.source[block] = np.where(good, layout.sources[:, None], np.uint8(0))
        shown = values * layout.scales[:, None]
        store.total[block] = np.where(good, shown, store.total[block])
        for says in (State.BASELINE, State.UNSUPPORTED, State.MISSING):
            self._tally[says.name.lower()] += int(np.count_nonzero(begun == says))
        self._usual.clear()
        return True

    def _sort_out(
        self,
        batch: ReadingBatch,
        layout: Layout,
        where: Where,
        values: NDArray[np.uint64],
        state: NDArray[np.uint8],
    ) -> None:
        """The long way: find out per value what may be staged, and stage that."""
        rows = np.arange(self._store.ports)[where] if isinstance(where, slice) else where
        keep = _first_of_each(rows)
        rows, time_ns = rows[keep], batch.time_ns[keep]
        values, state = values[:, keep], state[:, keep].copy()
        if len(rows) == 0:
            return
        self._claim(layout, rows, state, values, restarted=batch.discontinuity)
        if self._part_ways(layout, rows, state):
            layout = self._layout(batch.columns)
        for group, positions in layout.groups:
            self._stage_group(group, positions, layout.slots, rows, values, state, time_ns)

    def _claim(
        self,
        layout: Layout,
        rows: NDArray[np.intp],
        state: NDArray[np.uint8],
        values: NDArray[np.uint64],
        *,
        restarted: bool,
    ) -> None:
        """Settle who feeds each series, and mark in `state` what starts anew."""
        store = self._store
        block = np.ix_(layout.slots, rows)
        pinned = store.source[block]
        mine = layout.sources[:, None]
        good = state == State.OK
        groups = np.array([store.group_of[slot] for slot in layout.slots])
        alive = self._silence(groups[:, None], rows) <= _PATIENCE
        foreign = good & (pinned != 0) & (pinned != mine) & alive
        if foreign.any():
            self._tally["other_source"] += int(foreign.sum())
        state[(pinned != 0) & (pinned != mine) & alive] = _DROP
        if restarted:
            state[good & (pinned == mine)] = State.RESET
            self._tally["reset"] += int((state == State.RESET).sum())
        fresh = good & (pinned != mine) & ~foreign
        state[fresh] = State.BASELINE
        self._tally["baseline"] += int(fresh.sum())
        self._tally["unsupported"] += int((state == State.UNSUPPORTED).sum())
        self._tally["missing"] += int((state == State.MISSING).sum())
        if fresh.any():
            # A total starts from what its first source shows, so that one poll says something;
            # whatever feeds the series later only adds to it.
            scales = np.array([layout.columns[k].scale for k in layout.kept], np.uint64)
            shown = values * scales[:, None]
            store.total[block] = np.where(fresh & (pinned == 0), shown, store.total[block])
            store.source[block] = np.where(fresh, mine, pinned)
            self._usual.clear()

    def _silence(self, groups: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Ticks since the last reading of these groups and ports; 0 in the first ticks."""
        heard = self._store.heard[groups, rows]
        if self.now_ns == NO_TIME or self.interval_s <= 0:
            return np.zeros(heard.shape)
        silent = (self.now_ns - np.maximum(heard, self.awake_ns)) / (self.interval_s * 1e9)
        return np.where((heard == NO_TIME) | self._store.touched[groups, rows], 0.0, silent)

    def _part_ways(self, layout: Layout, rows: NDArray[np.intp], state: NDArray[np.uint8]) -> bool:
        """Give slots that miss a reading the rest of their group has sample times of their own."""
        store = self._store
        good = (state == State.OK) | (state == State.BASELINE) | (state == State.RESET)
        known = store.source[np.ix_(layout.slots, rows)] != 0
        apart = []
        for _, positions in layout.groups:
            some = good[positions].any(axis=0)
            apart += [p for p in positions if (some & known[p] & ~good[p]).any()]
        version = store.version
        store.split(int(layout.slots[p]) for p in apart)
        return store.version != version

    def _stage_group(
        self,
        group: int,
        positions: list[int],
        slots: NDArray[np.intp],
        rows: NDArray[np.intp],
        values: NDArray[np.uint64],
        state: NDArray[np.uint8],
        time_ns: NDArray[np.int64],
    ) -> None:
        store = self._store
        mine = state[positions]
        good = ((mine == State.OK) | (mine == State.BASELINE) | (mine == State.RESET)).any(axis=0)
        taken = good & self._is_news(group, rows, time_ns, good)
        again = rows[taken & (store.last[group][rows] != store.settled[group][rows])]
        if len(again):
            self._settler.early(group, again)
        for position in positions:
            slot = int(slots[position])
            says = state[position]
            written = taken & (says != _DROP)
            store.incoming[slot][rows[written]] = values[position][written]
            silent = ~good & (says != _DROP) & ~store.touched[group][rows]
            store.state[slot][rows[written | silent]] = says[written | silent]
        at = rows[taken]
        store.last[group][at] = time_ns[taken]
        store.touched[group][at] = True

    def _fell_behind(
        self, group: int, rows: NDArray[np.intp], old: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """bool[M]: for ticks nothing came but `old` readings: it is the clock that is wrong.

        A past that is read once more, as after a restart, ends in something newer.
        """
        behind = self._store.behind[group]
        behind[rows[old & (behind[rows] == NO_TIME)]] = self.now_ns
        since = np.where(self._store.touched[group][rows], NO_TIME, behind[rows])
        return (since != NO_TIME) & ((self.now_ns - since) / 1e9 >= _PATIENCE * self.interval_s)

    def _is_news(
        self,
        group: int,
        rows: NDArray[np.intp],
        time_ns: NDArray[np.int64],
        good: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """bool[M]: readings with a newer stamp, and those of clocks that have proved wrong."""
        store = self._store
        newer = time_ns > store.last[group][rows]
        if newer.all():
            return newer
        distrusted = store.doubt[group][rows] > 0
        distrusted |= self._fell_behind(group, rows, good & ~newer)
        wrong = good & ~newer & distrusted
        blamed = rows[wrong & (store.doubt[group][rows] != STEPPED)]
        store.doubt[group][blamed] = _DISTRUST
        self._tally["wrong_clock"] += int(wrong.sum())
        self._tally["late"] += int((good & ~newer & ~wrong).sum())
        return newer | wrong


def _adjacent(rows: NDArray[np.intp]) -> Where:
    """The same rows as a slice, if they are adjacent and all there (-1: not there)."""
    if len(rows) and rows[0] >= 0 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _first_of_each(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions to keep: rows the table has, each once."""
    _, first = np.unique(rows, return_index=True)
    first.sort()
    return first[rows[first] >= 0]
