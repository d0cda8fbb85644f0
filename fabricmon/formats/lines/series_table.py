"""Which value of a device is which series: paths become numbers once, and are forgotten again.

A path with its keys is resolved to a port and a column when it is first seen, and is an int from
then on. What devices can invent is bounded; what they no longer name gives its number back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from fabricmon.formats.base import Chunk, renumbered
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from fabricmon.formats.base import Layout
    from fabricmon.model.readings import Column

UNMAPPED = -1
"""The series of what no mapping knows."""

_WEAKEST = frozenset({"rx_power_dbm", "tx_power_dbm"})
_HELD = frozenset({"oper_up", "admin_up", "speed_bps"})
_MOST_CELLS = 8
"""Ports times columns, for each series there may be: batches are dense."""


class Place(Protocol):
    """Where a value belongs, as a mapping says."""

    @property
    def port(self) -> str:
        """The port's own name."""

    @property
    def column(self) -> Column:
        """What it counts."""

    @property
    def rank(self) -> int:
        """Of two paths for one counter of one port, the lower rank is taken."""

    @property
    def gauge(self) -> Callable[[object], float | None] | None:
        """Reads a level in catalogue units; None where the value is a count."""


class Resolver(Protocol):
    """A mapping, as far as readers need it."""

    def place(self, path: str, keys: Mapping[str, str]) -> Place | None:
        """Where the value of a plain path belongs; None where the mapping does not know it."""


class SeriesTable:
    """Series by number; one for all files and streams of a target."""

    def __init__(self, layout: Layout, resolver: Resolver, limit: int = 8_000_000) -> None:
        """`limit` is the ceiling on series; what is beyond it is refused and counted."""
        self.layout = layout
        self.resolver = resolver
        self.gauges: list[Callable[[object], float | None] | None] = []
        """By series: how a level is read, None for counts."""
        self.held_columns: set[int] = set()
        """Columns of the layout whose levels devices send only when they change."""
        self.lane_columns: set[int] = set()
        """Columns that come once a lane, of which the weakest counts."""
        self._limit, self._refused = limit, 0
        self._known: dict[tuple[int, int], int] = {}
        self._claims: dict[tuple[int, str, int], tuple[int, int]] = {}
        self._port = np.empty(64, np.int32)
        self._column = np.empty(64, np.int32)
        self._over = np.zeros(64, np.bool_)  # deleted by the device
        self._deletes = False
        self._unsure: set[int] = set()

    def find(self, device: str, path: str, keys: Mapping[str, str]) -> int:
        """The series of one value of `device`, or UNMAPPED."""
        place = self.resolver.place(path, keys)
        return UNMAPPED if place is None else self.take(device, place)

    def take(self, device: str, place: Place) -> int:
        """The series of a place; UNMAPPED where a better source counts the same already."""
        layout = self.layout
        if len(self.gauges) >= self._limit or layout.cells >= _MOST_CELLS * self._limit:
            known = self._known.get(layout.numbers(device, place.port, place.column))
            return self.refuse() if known is None else known
        port, column = layout.port(device, place.port), layout.column(place.column)
        known = self._known.get((port, column))
        if known is not None:
            return known
        claim = (port, place.column.counter.id, place.column.queue)
        rank, holder = self._claims.get(claim, (place.rank + 1, UNMAPPED))
        if rank <= place.rank:
            self._known[port, column] = UNMAPPED
            return UNMAPPED
        if holder != UNMAPPED:
            self._known[port, int(self._column[holder])] = UNMAPPED
            self._port[holder] = UNMAPPED
        series = len(self.gauges)
        self._claims[claim] = (place.rank, series)
        self._known[port, column] = series
        self._store(series, port, column)
        if place.column.counter.id in _HELD:
            self.held_columns.add(column)
        elif place.column.counter.id in _WEAKEST:
            self.lane_columns.add(column)
        self.gauges.append(place.gauge)
        return series

    def refuse(self) -> int:
        """Count one that is not taken; UNMAPPED."""
        self._refused += 1
        return UNMAPPED

    def take_refused(self) -> int:
        """Series that were refused since the last call, each once a place it was asked from."""
        refused, self._refused = self._refused, 0
        return refused

    def keep(self, ports: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Forget the ports that are False. Samples in the old numbers must have been taken.

        int32[series + 1]: the new number of each series; UNMAPPED for those forgotten, and at -1.
        """
        places = self.layout.keep(ports)
        count = len(self.gauges)
        port = places[self._port[:count]]
        moved = renumbered(port >= 0)
        kept = np.flatnonzero(port >= 0)
        self.gauges = [self.gauges[series] for series in kept.tolist()]
        self._port, self._column = port[kept], self._column[kept]
        self._over = self._over[kept]
        self._unsure = set(moved[list(self._unsure)].tolist()) - {UNMAPPED}
        at, to = places.tolist(), moved.tolist()
        self._known = {
            (at[port], column): to[series]
            for (port, column), series in self._known.items()
            if at[port] >= 0
        }
        self._claims = {
            (at[port], counter, queue): (rank, to[series])
            for (port, counter, queue), (rank, series) in self._claims.items()
            if at[port] >= 0
        }
        return moved

    def _store(self, series: int, port: int, column: int) -> None:
        if series >= len(self._port):
            size = 2 * series + 64
            self._port = np.resize(self._port, size)
            self._column = np.resize(self._column, size)
            self._over = np.resize(self._over, size)
        self._over[series] = False
        self._port[series], self._column[series] = port, column

    def end(self, ended: set[int], chunk: Chunk) -> None:
        """Take series that the device deleted: a port that has no other is named no longer.

        What `chunk` tells of may be from before or after its delete: the next call decides.
        """
        if not ended and not self._unsure:
            return
        series = np.array([*ended, *self._unsure], np.intp)
        width = 1 + max(self._column[series].max(), chunk.column.max(initial=0))
        told = np.isin(
            self._port[series].astype(np.int64) * width + self._column[series],
            chunk.port.astype(np.int64) * width + chunk.column,
        )
        self._unsure = ended.intersection(series[told].tolist())
        ended.clear()
        over, known = series[~told], self._port[: len(self)]
        self._over[over], self._deletes = True, True
        alive = known[(known >= 0) & ~self._over[: len(self)]]
        ports = np.unique(self._port[over])
        ports = ports[ports >= 0]
        self.layout.end(ports[np.bincount(alive, minlength=self.layout.ports)[ports] == 0])

    def __len__(self) -> int:
        return len(self.gauges)

    def where(self, series: int) -> tuple[int, int]:
        """Port and column of a series, in the numbers of the layout."""
        return int(self._port[series]), int(self._column[series])

    def chunk(
        self, series: NDArray[np.int32], time_ns: NDArray[np.int64], raw: NDArray[np.uint64]
    ) -> Chunk:
        """M samples in the numbers of the layout; those of replaced series are left out."""
        if self._deletes:
            self._over[series[series >= 0]] = False
        port = np.where(series >= 0, self._port[series], UNMAPPED)
        state = np.full(len(series), State.OK, np.uint8)
        made = Chunk(time_ns, port, self._column[series], raw, state)
        return made if port.min(initial=0) >= 0 else made.part(port >= 0)
