"""Levels as last read within the tick: nothing to unwrap, nothing to remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fabricmon.model.counters import CATALOGUE, NO_QUEUE, Scope
from fabricmon.model.frame import GaugeOrigins
from fabricmon.model.readings import ByIdentity
from fabricmon.normalize.store import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.counters import Counter
    from fabricmon.model.readings import Column, ReadingBatch

Where: TypeAlias = "slice | NDArray[np.intp]"
Drained: TypeAlias = "tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.float32]]]"


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """Where the gauge columns of a batch go: row, and number of the source there."""

    rows: NDArray[np.intp]
    numbers: NDArray[np.uint8]


class Gauges:
    """One row per gauge and queue, one column per port; NaN where not read in this tick."""

    def __init__(self) -> None:
        """Empty."""
        self._row: dict[tuple[int, int], int] = {}
        self._rows: ByIdentity[tuple[Column, ...], _Taken] = ByIdentity()
        self._names: list[list[str]] = []
        self._values = np.full((0, 64), np.nan)
        self._number = np.zeros((0, 64), np.uint8)
        self._read = np.zeros(64, np.bool_)
        self._at_ns = np.full(64, NO_TIME)

    def take(self, batch: ReadingBatch, where: Where, ports: int) -> None:
        """Keep the levels of one reading; a missing one leaves what was read before."""
        taken = self._rows_of(batch.gauge_columns)
        rows, values, time_ns = taken.rows, batch.gauges, batch.time_ns
        self._grow(ports)
        if not isinstance(where, slice):
            good = where >= 0
            where, values, time_ns = where[good], values[:, good], time_ns[good]
        index = (rows, where) if isinstance(where, slice) else (rows[:, None], where)
        known = ~np.isnan(values)
        self._values[index] = np.where(known, values, self._values[index])
        self._number[index] = np.where(known, taken.numbers[:, None], self._number[index])
        self._at_ns[where] = time_ns
        self._read[where] = True

    def level(self, counter: Counter, ports: int) -> NDArray[np.float64] | None:
        """float64[N]: a port gauge as read in this tick; None where no source has it."""
        row = self._row.get((counter.code, NO_QUEUE))
        self._grow(ports)
        return None if row is None else self._values[row, :ports]

    def drain(self, ports: int, queues: tuple[int, ...]) -> tuple[NDArray[np.bool_], Drained]:
        """bool[N] with a reading, then port gauges (id -> [N]) and queue gauges (id -> [N,Q]).

        `queues` are the Q that the frame has. Forgets everything.
        """
        self._grow(ports)
        read, values = self._read[:ports], self._values[:, :ports].astype(np.float32)
        self._read = np.zeros_like(self._read)
        self._values.fill(np.nan)
        self._number.fill(0)
        single: dict[str, NDArray[np.float32]] = {}
        queued: dict[str, NDArray[np.float32]] = {}
        for (code, queue), row in self._row.items():
            counter = CATALOGUE[code]
            if counter.scope is Scope.PORT:
                single[counter.id] = values[row]
                continue
            if counter.id not in queued:
                queued[counter.id] = np.full((ports, len(queues)), np.nan, np.float32)
            queued[counter.id][:, queues.index(queue)] = values[row]
        return read, (single, queued)

    def origins(self, ports: int) -> GaugeOrigins:
        """Where what `drain` hands over is from; to be asked for first."""
        self._grow(ports)
        rows = {(CATALOGUE[code].id, queue): row for (code, queue), row in self._row.items()}
        names = tuple(map(tuple, self._names))
        return GaugeOrigins(self._number[:, :ports].copy(), names, rows, self._at_ns[:ports].copy())

    @property
    def queues(self) -> tuple[int, ...]:
        """Every queue that some gauge is read for."""
        queued = (q for code, q in self._row if CATALOGUE[code].scope is Scope.QUEUE)
        return tuple(sorted(set(queued)))

    def _rows_of(self, columns: tuple[Column, ...]) -> _Taken:
        known = self._rows.get(columns)
        if known is not None:
            return known
        keys = [
            (c.counter.code, NO_QUEUE if c.counter.scope is Scope.PORT else c.queue)
            for c in columns
        ]
        for key in keys:
            self._row.setdefault(key, len(self._row))
        missing = len(self._row) - len(self._values)
        pad = np.full((missing, self._values.shape[1]), np.nan)
        self._values = np.concatenate([self._values, pad])
        self._number = np.concatenate([self._number, np.zeros(pad.shape, np.uint8)])
        self._names += [[] for _ in range(missing)]
        rows = [self._row[key] for key in keys]
        numbers = [self._number_of(r, c.source) for r, c in zip(rows, columns, strict=True)]
        taken = _Taken(np.array(rows, np.intp), np.array(numbers, np.uint8))
        self._rows.put(columns, taken, most=4_096)
        return taken

    def _number_of(self, row: int, source: str) -> int:
        """The number of this source among the gauge's, from 1."""
        known = self._names[row]
        if source not in known:
            if len(known) >= 255:
                del known[1:]
            known.append(source)
        return known.index(source) + 1

    def _grow(self, ports: int) -> None:
        short = ports - len(self._read)
        if short <= 0:
            return
        room = max(short, len(self._read))
        pad = np.full((len(self._values), room), np.nan)
        self._values = np.concatenate([self._values, pad], axis=1)
        self._number = np.concatenate([self._number, np.zeros(pad.shape, np.uint8)], axis=1)
        self._at_ns = np.concatenate([self._at_ns, np.full(room, NO_TIME)])
        self._read = np.concatenate([self._read, np.zeros(room, np.bool_)])
