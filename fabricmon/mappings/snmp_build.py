"""What a device is read of: its instances, found in one walk, each with its place in a grid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.mappings.snmp import Oid, Profile, SnmpRow, oid
from fabricmon.mappings.snmp_grid import Grid, Instances
from fabricmon.model.counters import CATALOGUE, NO_QUEUE
from fabricmon.model.readings import Column, PortSet, State

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from fabricmon.mappings.snmp_walk import Walk


@dataclass(frozen=True, slots=True)
class _Raw:
    """One row of the raw matrix: one column of one counter, one queue, one part of a sum."""

    code: int
    queue: int
    part: tuple[int, Oid]
    column: Oid
    row: SnmpRow = field(compare=False)


def build(
    profile: Profile,
    device: str,
    names: Mapping[int, str],
    walk: Walk,
    queues: Collection[int] = (),
    keep: PortSet | None = None,
) -> tuple[Grid, Instances]:
    """The grid of a device from one walk of `profile.columns`, and what to read for it.

    `queues`: the only ones to read; empty means all. `keep`: the set in use until now; it stays the
    same object, with its order, where the same ports are still there under whatever numbers.
    """
    return build_apart(profile, device, names, walk, queues, keep)[0]


def build_apart(
    profile: Profile,
    device: str,
    names: Mapping[int, str],
    walk: Walk,
    queues: Collection[int] = (),
    keep: PortSet | None = None,
    other_every: int = 0,
) -> list[tuple[Grid, Instances]]:
    """The same, and with `other_every` a second grid: of the queues left out of the first.

    It is to be read in one of so many polls: what flows where nothing should must not go unseen.
    """
    ports, if_index = _port_set(device, names, keep)
    builder = _Builder(profile, if_index, walk, queues)
    for counter in CATALOGUE:
        builder.counter(counter.id)
    first = {NO_QUEUE, *queues} if queues else builder.queues
    grids = [builder.grid(ports, first)]
    if other_every and builder.queues - first:
        grids.append(builder.grid(ports, builder.queues - first, other_every))
    return grids


def _port_set(
    device: str, names: Mapping[int, str], keep: PortSet | None
) -> tuple[PortSet, tuple[int, ...]]:
    by_name = {name: index for index, name in names.items()}
    if keep is not None and keep.device[:1] == (device,) and set(keep.port) == set(by_name):
        return keep, tuple(by_name[name] for name in keep.port)
    ports = PortSet((device,) * len(names), tuple(names.values()))
    return ports, tuple(names)


_Gates = dict[tuple[int, int], int | bytes]
"""The value of a gate by interface number and queue."""


class _Builder:
    """Collects instances counter by counter."""

    def __init__(
        self, profile: Profile, if_index: tuple[int, ...], walk: Walk, queues: Collection[int]
    ) -> None:
        self._profile, self._walk, self._queues = profile, walk, frozenset(queues)
        self._if_index = if_index
        self._port = {index: i for i, index in enumerate(if_index)}
        self._found: dict[_Raw, dict[int, tuple[Oid, int]]] = {}
        self._shut: set[tuple[str, int, int]] = set()  # counter, queue, port
        self._lacks: list[str] = []
        self._units: dict[str, float] = {}

    def counter(self, counter: str) -> None:
        candidates = self._profile.by_counter.get(counter, ())
        for row in candidates:
            if self._row(row):
                return
        if candidates:
            self._lacks.append(counter)

    def _row(self, row: SnmpRow) -> bool:
        """Take the row if the device has anything of it."""
        if row.queue and len(self._queues) != 1:
            return False
        if row.unit:
            unit = self._walk.number(oid(row.unit))
            if unit is None:
                return False
            self._units[row.counter] = float(unit)
        gate, has = self._gate(row), False
        for place, (column, column_queue) in enumerate(row.columns()):
            found = self._column(row, 0 if row.queue_step else place, column, column_queue, gate)
            has = has or found
        return has

    def _column(
        self, row: SnmpRow, place: int, column: Oid, column_queue: int, gate: _Gates
    ) -> bool:
        """Take one column of a row; whether the device has anything in it."""
        only = next(iter(self._queues)) if row.queue else column_queue
        cells: dict[tuple[int, Oid], dict[int, tuple[Oid, int]]] = {}
        has = False
        for suffix, value in self._walk.column(column):
            read = row.shape.read(suffix)
            if read is None or not isinstance(value, int) or value in row.void:
                continue
            port = self._port.get(read[0])
            if port is None:
                continue
            has = True
            queue = only if only != NO_QUEUE else read[1]
            if row.gate and gate.get((read[0], queue)) != row.gate.equals:
                self._shut.add((row.counter, queue, port))
                continue
            cell = cells.get((queue, read[2]))
            if cell is None:
                raw = _Raw(row.entry.code, queue, (place, read[2]), column, row)
                cell = cells[queue, read[2]] = self._found.setdefault(raw, {})
            cell[port] = ((*column, *suffix), value)
        return has

    def _gate(self, row: SnmpRow) -> _Gates:
        if row.gate is None:
            return {}
        found = {}
        for suffix, value in self._walk.column(oid(row.gate.oid)):
            read = row.gate_shape.read(suffix)
            if read is not None:
                found[read[0], read[1]] = value
        return found

    @property
    def queues(self) -> set[int]:
        """What was found, NO_QUEUE included."""
        return {NO_QUEUE, *(raw.queue for raw in self._found)}

    def grid(self, ports: PortSet, queues: set[int], every: int = 1) -> tuple[Grid, Instances]:
        """What was found of these queues; the sample time goes with what every poll reads."""
        order = sorted(
            (raw for raw in self._found if raw.queue in queues),
            key=lambda raw: (raw.row.entry.is_gauge, raw.code, raw.queue, raw.part),
        )
        counts = [raw for raw in order if not raw.row.entry.is_gauge]
        gauges = [raw for raw in order if raw.row.entry.is_gauge]
        starts, columns = self._outputs(counts, every)
        clock = self._sample_times() if every == 1 else []
        base, state, asked = self._begun(order, clock, len(ports))
        _absent_parts(state, starts, len(counts))
        grid = Grid(
            self._profile,
            ports,
            self._if_index,
            base,
            state,
            tuple(columns),
            tuple(_column(raw, every) for raw in gauges),
            tuple(self._lacks),
            tuple(dict.fromkeys(counter for counter, _, _ in sorted(self._shut))),
            np.array(starts, np.intp),
            np.array([32 if _is_high(raw) else 0 for raw in counts], np.uint64),
            tuple(
                (raw.row.factor * self._units.get(raw.row.counter, 1.0), raw.row.is_)
                for raw in gauges
            ),
        )
        return grid, self._instances(asked)

    def _begun(
        self, order: list[_Raw], clock: list[tuple[Oid, int]], width: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8], list[tuple[Oid, int]]]:
        """What a poll starts from, values and states [R,N], and what it asks for where in them."""
        base = np.zeros((len(order) + bool(clock), width), np.uint64)
        state = np.full(base.shape, State.UNSUPPORTED, np.uint8)
        asked: list[tuple[Oid, int]] = []
        for r, raw in enumerate(order):
            for port, (instance, value) in self._found[raw].items():
                if raw.row.slow:
                    base[r, port], state[r, port] = value, State.OK
                else:
                    state[r, port] = State.MISSING
                    asked.append((instance, r * width + port))
        for instance, port in clock:
            state[-1, port] = State.MISSING
            asked.append((instance, len(order) * width + port))
        return base, state, asked

    def _instances(self, wanted: list[tuple[Oid, int]]) -> Instances:
        wanted.sort()
        oids = [instance for instance, _ in wanted]
        position = self._walk.positions(oids)
        return Instances(
            oids,
            np.array([place for _, place in wanted], np.int32),
            np.diff(position, prepend=-1) == 1,
        )

    @staticmethod
    def _outputs(counts: list[_Raw], every: int) -> tuple[list[int], list[Column]]:
        starts, columns = [], []
        for r, raw in enumerate(counts):
            if not r or (raw.code, raw.queue) != (counts[r - 1].code, counts[r - 1].queue):
                starts.append(r)
                columns.append(_column(raw, every))
        return starts, columns

    def _sample_times(self) -> list[tuple[Oid, int]]:
        column = self._profile.sample_time
        if column is None:
            return []
        return [
            ((*column, *suffix), self._port[suffix[0]])
            for suffix, _ in self._walk.column(column)
            if suffix[0] in self._port
        ]


def _is_high(raw: _Raw) -> bool:
    return raw.row.high is not None and raw.column == oid(raw.row.high)


def _column(raw: _Raw, every: int) -> Column:
    bits = 64 if raw.row.high else raw.row.bits
    source = raw.row.note or ".".join(map(str, raw.column))
    column = raw.row.column(queue=raw.queue, source=source)
    estimated = raw.row.estimated or raw.row.queue is not None
    return replace(column, bits=bits, estimated=estimated, every=every)


def _absent_parts(state: NDArray[np.uint8], starts: list[int], counts: int) -> None:
    """A part of a sum that a port does not have adds nothing, as long as it has another part."""
    stops = [*starts[1:], counts] if starts else []
    for start, stop in zip(starts, stops, strict=True):
        if stop - start > 1:
            part = state[start:stop]
            has_any = (part != State.UNSUPPORTED).any(axis=0)
            part[(part == State.UNSUPPORTED) & has_any] = State.OK
