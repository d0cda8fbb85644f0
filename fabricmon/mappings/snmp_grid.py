"""The SNMP mapping engine, forward: from what an agent answered to batches.

A `Grid` is made once per device, from one walk: it fixes the ports, the source of every counter and
the list of instances that have a value. After that a poll only fills its matrices.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter as Tally
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.mappings.snmp import Oid, Profile, Shape, SnmpRow, oid
from fabricmon.model.counters import BY_ID, CATALOGUE, NO_QUEUE
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

IF_TYPE = oid("1.3.6.1.2.1.2.2.1.3")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")


class Walk:
    """What an agent answered, by OID."""

    def __init__(self, values: Mapping[Oid, int | bytes]) -> None:
        """Sort once; columns are then found by bisection."""
        self._values = values
        self._oids = sorted(values)

    def __len__(self) -> int:
        return len(self._oids)

    def column(self, column: Oid) -> Iterator[tuple[Oid, int | bytes]]:
        """Index and value of every instance of a column, in order."""
        size = len(column)
        for i in range(bisect_left(self._oids, column), len(self._oids)):
            found = self._oids[i]
            if found[:size] != column:
                return
            if len(found) > size:
                yield found[size:], self._values[found]

    def number(self, instance: Oid) -> int | None:
        """The value of one instance, if it is a number."""
        value = self._values.get(instance)
        return value if isinstance(value, int) else None

    def octets(self, instance: Oid) -> bytes:
        """The value of one instance, if it is a string; empty otherwise."""
        value = self._values.get(instance)
        return value if isinstance(value, bytes) else b""

    def text(self, instance: Oid) -> str:
        """The value of one instance as text; empty where there is none."""
        return printable(self.octets(instance))


def printable(raw: bytes) -> str:
    """Octets as text without control characters (agents pad with NUL)."""
    return _UNPRINTABLE.sub(" ", raw.decode("utf-8", "replace").rstrip("\0")).strip()


def port_names(profile: Profile, walk: Walk) -> dict[int, str]:
    """Name of every port by its number in the interface table; equal names get `#number`."""
    names: dict[int, str] = {}
    for column in map(oid, profile.ports.name):
        for index, value in walk.column(column):
            if len(index) == 1 and isinstance(value, bytes) and not names.get(index[0]):
                names[index[0]] = printable(value)
    types = {index[0]: value for index, value in walk.column(IF_TYPE)}
    exclude = re.compile(profile.ports.exclude or r"(?!)")
    kept = {
        index: name
        for index, name in names.items()
        if name
        and types.get(index, profile.ports.types[0]) in profile.ports.types
        and not exclude.search(name)
    }
    tally = Tally(kept.values())
    return {
        index: name if tally[name] == 1 else f"{name}#{index}"
        for index, name in sorted(kept.items())
    }


@dataclass(frozen=True, slots=True)
class _Raw:
    """One row of the raw matrix: one column of one counter, one queue, one part of a sum."""

    code: int
    queue: int
    part: tuple[int, Oid]
    column: Oid
    row: SnmpRow = field(compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """What is read from one device and where it lands.

    R raw rows: those of counts first (one or more per output column, in the order of `columns`),
    then those of gauges, then the sample time where the device has one. N ports, M instances.

    oids  M instances to read in every poll, ascending
    raw   int32[M]      the raw row of each
    port  int32[M]      the port row of each
    base, base_state    uint64[R,N], uint8[R,N]: what a poll starts from (slow values, and
                        UNSUPPORTED where the device has no such instance)
    """

    profile: Profile
    ports: PortSet
    if_index: tuple[int, ...]
    oids: list[Oid]
    raw: NDArray[np.int32]
    port: NDArray[np.int32]
    base: NDArray[np.uint64]
    base_state: NDArray[np.uint8]
    columns: tuple[Column, ...]
    gauge_columns: tuple[Column, ...]
    lacks: tuple[str, ...]
    """Counters of the mapping that this device does not have."""
    closed: tuple[str, ...]
    """Counters that it has and that are switched off (their gate is closed)."""
    _starts: NDArray[np.intp] = field(repr=False)
    _shifts: NDArray[np.uint64] = field(repr=False)
    _gauges: tuple[tuple[float, int | None], ...] = field(repr=False)

    def blank(self) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Matrices for one poll: everything that is to be read is MISSING."""
        return self.base.copy(), self.base_state.copy()

    def fill(self, walk: Walk) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """The matrices, filled from a walk instead of a poll."""
        values, state = self.blank()
        for instance, raw, port in zip(self.oids, self.raw, self.port, strict=True):
            value = walk.number(instance)
            if value is not None:
                values[raw, port], state[raw, port] = value & 0xFFFF_FFFF_FFFF_FFFF, State.OK
        return values, state

    def batch(
        self,
        target: str,
        values: NDArray[np.uint64],
        state: NDArray[np.uint8],
        now_ns: int,
        *,
        uptime_cs: int | None = None,
        discontinuity: bool = False,
    ) -> ReadingBatch:
        """One poll as a batch. Takes the matrices over."""
        counts = len(self._shifts)
        gauges = len(self.gauge_columns)
        c_values, c_state = values[:counts], state[:counts]
        if len(self._starts) != counts:
            c_values = np.add.reduceat(c_values << self._shifts[:, None], self._starts, axis=0)
            c_state = np.maximum.reduceat(c_state, self._starts, axis=0)
        time_ns = np.full(len(self.ports), now_ns, np.int64)
        if len(values) > counts + gauges and uptime_cs is not None:
            _sample_time(time_ns, values[-1], state[-1], uptime_cs)
        return ReadingBatch(
            target,
            self.ports,
            self.columns,
            c_values,
            c_state,
            time_ns,
            self.gauge_columns,
            self._levels(values[counts : counts + gauges], state[counts : counts + gauges]),
            discontinuity,
        )

    def _levels(self, raw: NDArray[np.uint64], state: NDArray[np.uint8]) -> NDArray[np.float64]:
        out = np.empty(raw.shape)
        for g, (factor, wanted) in enumerate(self._gauges):
            out[g] = raw[g] == wanted if wanted is not None else raw[g] * factor
        out[state != State.OK] = np.nan
        return out


def _sample_time(
    time_ns: NDArray[np.int64],
    sampled_cs: NDArray[np.uint64],
    state: NDArray[np.uint8],
    uptime_cs: int,
) -> None:
    """Move each port's time back by the age of its sample; more than a minute is not believed."""
    age = (np.uint64(uptime_cs) - sampled_cs) & np.uint64(0xFFFF_FFFF)
    good = (state == State.OK) & (age <= 6_000)
    time_ns[good] -= age[good].astype(np.int64) * 10_000_000


def build(
    profile: Profile,
    device: str,
    names: Mapping[int, str],
    walk: Walk,
    queues: Collection[int] = (),
    keep: PortSet | None = None,
) -> Grid:
    """The grid of a device from one walk of `profile.columns`.

    `queues`: the only ones to read; empty means all. `keep`: the set in use until now; it stays the
    same object, with its order, where the same ports are still there under whatever numbers.
    """
    ports, if_index = _port_set(device, names, keep)
    builder = _Builder(profile, if_index, walk, queues)
    for counter in CATALOGUE:
        builder.counter(counter.id)
    return builder.grid(ports)


def _port_set(
    device: str, names: Mapping[int, str], keep: PortSet | None
) -> tuple[PortSet, tuple[int, ...]]:
    by_name = {name: index for index, name in names.items()}
    if keep is not None and keep.device[:1] == (device,) and set(keep.port) == set(by_name):
        return keep, tuple(by_name[name] for name in keep.port)
    ports = PortSet((device,) * len(names), tuple(names.values()))
    return ports, tuple(names)


class _Builder:
    """Collects instances counter by counter."""

    def __init__(
        self, profile: Profile, if_index: Sequence[int], walk: Walk, queues: Collection[int]
    ) -> None:
        self._profile, self._walk, self._queues = profile, walk, frozenset(queues)
        self._if_index = tuple(if_index)
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
        gate = self._gate(row)
        has = False
        for place, (column, column_queue) in enumerate(row.columns()):
            for suffix, value in self._walk.column(column):
                read = row.shape.read(suffix)
                if read is None or read[0] not in self._port or not isinstance(value, int):
                    continue
                index, queue, rest = read
                queue = column_queue if column_queue != NO_QUEUE else queue
                queue = next(iter(self._queues)) if row.queue else queue
                has = True
                if self._queues and queue != NO_QUEUE and queue not in self._queues:
                    continue
                port = self._port[index]
                if row.gate and gate.get((index, queue)) != row.gate.equals:
                    self._shut.add((row.counter, queue, port))
                    continue
                part = (0 if row.queue_step else place, rest)
                raw = _Raw(row.entry.code, queue, part, column, row)
                self._found.setdefault(raw, {})[port] = ((*column, *suffix), value)
        return has

    def _gate(self, row: SnmpRow) -> dict[tuple[int, int], int | bytes]:
        if row.gate is None:
            return {}
        shape = _shape_of(row, row.gate.index)
        found = {}
        for suffix, value in self._walk.column(oid(row.gate.oid)):
            read = shape.read(suffix)
            if read is not None:
                found[read[0], read[1]] = value
        return found

    def grid(self, ports: PortSet) -> Grid:
        order = sorted(
            self._found, key=lambda raw: (raw.row.entry.is_gauge, raw.code, raw.queue, raw.part)
        )
        counts = [raw for raw in order if not raw.row.entry.is_gauge]
        gauges = [raw for raw in order if raw.row.entry.is_gauge]
        starts, columns = self._outputs(counts)
        clock = self._sample_times()
        base = np.zeros((len(order) + bool(clock), len(ports)), np.uint64)
        state = np.full(base.shape, State.UNSUPPORTED, np.uint8)
        oids: list[tuple[Oid, int, int]] = []
        for r, raw in enumerate(order):
            for port, (instance, value) in self._found[raw].items():
                if raw.row.slow:
                    base[r, port], state[r, port] = value, State.OK
                else:
                    state[r, port] = State.MISSING
                    oids.append((instance, r, port))
        for instance, port in clock:
            state[-1, port] = State.MISSING
            oids.append((instance, len(order), port))
        _absent_parts(state, starts, len(counts))
        oids.sort()
        return Grid(
            self._profile,
            ports,
            self._if_index,
            [instance for instance, _, _ in oids],
            np.array([raw for _, raw, _ in oids], np.int32),
            np.array([port for _, _, port in oids], np.int32),
            base,
            state,
            tuple(columns),
            tuple(_column(raw) for raw in gauges),
            tuple(self._lacks),
            tuple(dict.fromkeys(counter for counter, _, _ in sorted(self._shut))),
            np.array(starts, np.intp),
            np.array([32 if _is_high(raw) else 0 for raw in counts], np.uint64),
            tuple(
                (raw.row.factor * self._units.get(raw.row.counter, 1.0), raw.row.is_)
                for raw in gauges
            ),
        )

    @staticmethod
    def _outputs(counts: list[_Raw]) -> tuple[list[int], list[Column]]:
        starts, columns = [], []
        for r, raw in enumerate(counts):
            if not r or (raw.code, raw.queue) != (counts[r - 1].code, counts[r - 1].queue):
                starts.append(r)
                columns.append(_column(raw))
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


def _shape_of(row: SnmpRow, index: str) -> Shape:
    """The shape of another table that counts queues as `row` does."""
    return Shape(index, row.queue_offset)


def _is_high(raw: _Raw) -> bool:
    return raw.row.high is not None and raw.column == oid(raw.row.high)


def _column(raw: _Raw) -> Column:
    bits = 64 if raw.row.high else raw.row.bits
    source = raw.row.note or ".".join(map(str, raw.column))
    column = raw.row.column(queue=raw.queue, source=source)
    return replace(column, bits=bits, estimated=raw.row.estimated or raw.row.queue is not None)


def _absent_parts(state: NDArray[np.uint8], starts: list[int], counts: int) -> None:
    """A part of a sum that a port does not have adds nothing, as long as it has another part."""
    stops = [*starts[1:], counts] if starts else []
    for start, stop in zip(starts, stops, strict=True):
        if stop - start > 1:
            part = state[start:stop]
            has_any = (part != State.UNSUPPORTED).any(axis=0)
            part[(part == State.UNSUPPORTED) & has_any] = State.OK


def lacking(grid: Grid) -> dict[str, str]:
    """Each counter of the mapping that has no value on this device, and why."""
    why = dict.fromkeys(grid.lacks, "the device does not answer for it")
    read = {column.counter.id for column in (*grid.columns, *grid.gauge_columns)}
    why.update({name: "switched off on the device" for name in grid.closed if name not in read})
    return {name: why[name] for name in BY_ID if name in why}
