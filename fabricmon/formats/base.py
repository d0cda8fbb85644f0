"""What readers of sparse sources share: bad records, port readings, and batches made of them.

A text or JSON format yields one `PortReading` per port and time. `BatchBuilder` collects them into
`ReadingBatch`es whose `PortSet` and columns stay the same objects from poll to poll; what was seen
before and is not in this poll is MISSING there, never zero.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from fabricmon.model.readings import PortSet, ReadingBatch, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from fabricmon.model.readings import Column

_TOP = 1 << 64
_UNSUPPORTED = int(State.UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read. It costs only itself."""

    file: str
    line: int
    """1-based; 0 where the format has no lines."""
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.reason}"
            if self.line
            else f"{self.file}: {self.reason}"
        )


Bad: TypeAlias = "Callable[[BadRecord], None]"
"""Where a reader reports a record it had to skip."""


class PortReading(NamedTuple):
    """What one source said about one port at one time.

    A value is a raw count (0 .. 2^64-1), a gauge in catalogue units, or None where the device says
    that it does not count this. Use the same `Column` object again and again: it is looked up by
    identity first.
    """

    device: str
    port: str
    values: Iterable[tuple[Column, int | float | None]]
    time_ns: int = 0
    """When it was sampled, wall clock; 0 where the source does not say."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Samples in long form, numbered by a `Layout`, in order of time.

    time_ns int64[M], port int32[M], column int32[M], state uint8[M] (OK or UNSUPPORTED),
    raw uint64[M] (the count; for gauges the bits of the float64)
    """

    time_ns: NDArray[np.int64]
    port: NDArray[np.int32]
    column: NDArray[np.int32]
    raw: NDArray[np.uint64]
    state: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.time_ns)

    def part(self, which: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Chunk:
        """Some of the M samples: a range, bool[M], or their places."""
        return Chunk(
            self.time_ns[which],
            self.port[which],
            self.column[which],
            self.raw[which],
            self.state[which],
        )

    def in_order(self) -> Chunk:
        """The same samples by time; those of one time keep their order."""
        if np.all(self.time_ns[1:] >= self.time_ns[:-1]):
            return self
        return self.part(np.argsort(self.time_ns, kind="stable"))


def joined(chunks: list[Chunk]) -> Chunk:
    """One chunk of all, in order of time."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        np.concatenate([c.time_ns for c in chunks]) if chunks else np.empty(0, np.int64),
        np.concatenate([c.port for c in chunks]) if chunks else np.empty(0, np.int32),
        np.concatenate([c.column for c in chunks]) if chunks else np.empty(0, np.int32),
        np.concatenate([c.raw for c in chunks]) if chunks else np.empty(0, np.uint64),
        np.concatenate([c.state for c in chunks]) if chunks else np.empty(0, np.uint8),
    ).in_order()


class _Part:
    """The ports and columns of one batch of a layout, in order of appearance."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.gauges: list[Column] = []
        self.rows = np.empty(0, np.int32)  # by port number; -1: not in this part
        self.numbers: list[int] = []  # port number of each row
        self.times = np.empty(0, np.int64)  # last sample of each row
        self.told = np.empty(0, np.bool_)  # by row: whether batches name it
        self._frozen: tuple[PortSet, tuple[Column, ...], tuple[Column, ...]] | None = None

    def keep(self, places: NDArray[np.int32]) -> None:
        """Forget the ports whose new number is -1."""
        numbers = places[np.array(self.numbers, np.int64)]
        self.times, self.told = self.times[numbers >= 0], self.told[numbers >= 0]
        self._frozen = None
        numbers = numbers[numbers >= 0]
        self.rows = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int32)
        self.rows[numbers] = np.arange(len(numbers), dtype=np.int32)
        self.numbers = numbers.tolist()

    def end(self, ports: NDArray[np.int32]) -> None:
        """Name these ports no longer, until they are admitted again."""
        rows = self.rows[ports[ports < len(self.rows)]]
        self.told[rows[rows >= 0]] = False
        self._frozen = None

    def place(self, column: Column) -> int:
        into = self.gauges if column.counter.is_gauge else self.columns
        into.append(column)
        return len(into) - 1

    def admit(self, ports: NDArray[np.int32]) -> NDArray[np.int32]:
        """int32[M]: rows of these port numbers, made where new."""
        if not len(ports):
            return ports
        top = int(ports.max()) + 1
        if top > len(self.rows):
            self.rows = np.concatenate([self.rows, np.full(top - len(self.rows), -1, np.int32)])
        rows = self.rows[ports]
        if rows.min() >= 0:
            if not self.told.all() and not self.told[rows].all():
                self.told[rows], self._frozen = True, None
            return rows
        fresh = np.unique(ports[rows < 0])
        first = len(self.numbers)
        self.rows[fresh] = np.arange(first, first + len(fresh), dtype=np.int32)
        self.numbers.extend(fresh.tolist())
        self.times = np.concatenate([self.times, np.zeros(len(fresh), np.int64)])
        self.told = np.concatenate([self.told, np.ones(len(fresh), np.bool_)])
        self.told[self.rows[ports]], self._frozen = True, None
        return self.rows[ports]

    def frozen(
        self, names: list[tuple[str, str]]
    ) -> tuple[PortSet, tuple[Column, ...], tuple[Column, ...]]:
        """Names, columns and gauge columns: the same objects for as long as none came to them."""
        old = self._frozen
        if old is not None:
            if len(old[1]) == len(self.columns) and len(old[2]) == len(self.gauges):
                return old
            ports = old[0]
        else:
            told = zip(self.numbers, self.told.tolist(), strict=True)
            own = [names[number] for number, is_told in told if is_told]
            ports = PortSet(tuple(d for d, _ in own), tuple(p for _, p in own))
        self._frozen = (ports, tuple(self.columns), tuple(self.gauges))
        return self._frozen


def renumbered(kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    """int32[len + 1]: new numbers for those kept, in order; -1 for the others, and at -1."""
    numbers = np.where(kept, np.cumsum(kept) - 1, -1)
    return np.append(numbers, -1).astype(np.int32)


class Layout:
    """The ports and columns of a source, numbered as they appear; only `keep` renumbers ports.

    Where a source counts one catalogue counter in two ways (32 bits here, 64 there), the second way
    goes to a batch of its own, so that within one batch a counter has one column.
    """

    def __init__(self, target: str) -> None:
        """Empty. `target` is the name the batches carry."""
        self.target = target
        self._ports: dict[tuple[str, str], int] = {}
        self._names: list[tuple[str, str]] = []
        self._by_object: dict[int, tuple[Column, int]] = {}
        self._by_value: dict[Column, int] = {}
        self._ways: dict[tuple[str, int], int] = {}
        self._parts: list[_Part] = []
        self._part_of = np.empty(0, np.int32)
        self._place = np.empty(0, np.int32)
        self._gauge = np.empty(0, np.bool_)

    def devices(self) -> tuple[NDArray[np.int32], list[str]]:
        """int32[ports]: which device each port belongs to, and the names of the devices."""
        numbers: dict[str, int] = {}
        own = [numbers.setdefault(device, len(numbers)) for device, _ in self._names]
        return np.array(own, np.int32), list(numbers)

    def port(self, device: str, port: str) -> int:
        """The number of a port."""
        key = (device, port)
        number = self._ports.setdefault(key, len(self._names))
        if number == len(self._names):
            self._names.append(key)
        return number

    @property
    def ports(self) -> int:
        """How many ports there are."""
        return len(self._names)

    @property
    def cells(self) -> int:
        """Ports times columns."""
        return len(self._names) * len(self._place)

    def numbers(self, device: str, port: str, column: Column) -> tuple[int, int]:
        """The numbers of a port and a column, -1 for what is not known."""
        return self._ports.get((device, port), -1), self._by_value.get(column, -1)

    def keep(self, ports: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Forget the ports that are False, of bool[ports]. int32[ports]: `renumbered` of them."""
        places = renumbered(ports)
        self._names = [self._names[port] for port in np.flatnonzero(ports).tolist()]
        self._ports = {name: number for number, name in enumerate(self._names)}
        for part in self._parts:
            part.keep(places)
        return places

    def end(self, ports: NDArray[np.int32]) -> None:
        """Batches do not name these ports any more, until there is something of them again."""
        for part in self._parts:
            part.end(ports)

    def column(self, column: Column) -> int:
        """The number of a column."""
        known = self._by_object.get(id(column))
        if known is not None:
            return known[1]
        number = self._by_value.get(column)
        if number is None:
            number = self._by_value[column] = len(self._place)
            self._add(column)
        if len(self._by_object) < 65_536:  # a source that makes a column per value must not leak
            self._by_object[id(column)] = (column, number)
        return number

    def _add(self, column: Column) -> None:
        key = (column.counter.id, column.queue)
        way = self._ways[key] = self._ways.get(key, -1) + 1
        if way == len(self._parts):
            self._parts.append(_Part())
        self._part_of = np.append(self._part_of, np.int32(way))
        self._place = np.append(self._place, np.int32(self._parts[way].place(column)))
        self._gauge = np.append(self._gauge, column.counter.is_gauge)

    def batches(self, chunk: Chunk) -> tuple[ReadingBatch, ...]:
        """One poll: the latest of each value in `chunk`; MISSING where it has none."""
        if not len(chunk):
            return ()
        parts = self._part_of[chunk.column]
        made = []
        for way, part in enumerate(self._parts):
            own = chunk if len(self._parts) == 1 else chunk.part(parts == way)
            if len(own):
                made.append(self._batch(part, own))
        return tuple(made)

    def _batch(self, part: _Part, chunk: Chunk) -> ReadingBatch:
        rows = part.admit(chunk.port)
        ports, columns, gauge_columns = part.frozen(self._names)
        # Where a value comes twice, numpy keeps the last assignment: the latest.
        part.times[rows] = chunk.time_ns
        k, is_gauge = self._place[chunk.column], self._gauge[chunk.column]
        values = np.zeros((len(columns), len(part.times)), np.uint64)
        state = np.full(values.shape, State.MISSING, np.uint8)
        gauges = np.full((len(gauge_columns), len(part.times)), np.nan)
        count = ~is_gauge
        at = (k[count], rows[count])
        values[at], state[at] = chunk.raw[count], chunk.state[count]
        good = is_gauge & (chunk.state == State.OK)
        gauges[k[good], rows[good]] = chunk.raw[good].view(np.float64)
        times = part.times.copy()
        if len(ports) < len(times):
            told = np.flatnonzero(part.told)
            values, state, gauges = values[:, told], state[:, told], gauges[:, told]
            times = times[told]
        return ReadingBatch(
            self.target, ports, columns, values, state, times, gauge_columns, gauges
        )


class ChunkBuilder:
    """Collects port readings into chunks."""

    def __init__(self, layout: Layout) -> None:
        """Numbers come from `layout`."""
        self._layout = layout
        self.refused = 0
        """Values outside what their counter can hold (negative, above 64 bits, not finite)."""
        self._clear()

    def _clear(self) -> None:
        self._times: list[int] = []
        self._ports: list[int] = []
        self._columns: list[int] = []
        self._raw: list[int] = []
        self._states: list[int] = []

    def __len__(self) -> int:
        return len(self._raw)

    def add(self, reading: PortReading, time_ns: int = 0) -> None:
        """Take one reading; `time_ns` is its time where it has none of its own."""
        time_ns = reading.time_ns or time_ns
        port = self._layout.port(reading.device, reading.port)
        for column, value in reading.values:
            raw, state = _packed(column, value)
            if raw is None:
                self.refused += 1
                continue
            self._times.append(time_ns)
            self._ports.append(port)
            self._columns.append(self._layout.column(column))
            self._raw.append(raw)
            self._states.append(state)

    def take(self) -> Chunk:
        """What was collected, in order of time, and begin anew."""
        chunk = Chunk(
            np.array(self._times, np.int64),
            np.array(self._ports, np.int32),
            np.array(self._columns, np.int32),
            np.array(self._raw, np.uint64),
            np.array(self._states, np.uint8),
        ).in_order()
        self._clear()
        return chunk


def _packed(column: Column, value: float | None) -> tuple[int | None, int]:
    """Bits and state of one value; None where it cannot be held."""
    if value is None:
        return 0, _UNSUPPORTED
    if column.counter.is_gauge:
        bits: int = _BITS.unpack(_FLOAT.pack(value))[0]
        return bits, 0
    if isinstance(value, int):
        return (value, 0) if 0 <= value < _TOP else (None, 0)
    # 2^53 is where a float stops to be exact; a source that sends more has lost digits already.
    return (int(value), 0) if 0 <= value < _TOP else (None, 0)


_BITS, _FLOAT = struct.Struct("=Q"), struct.Struct("=d")


class BatchBuilder:
    """Port readings of one target into the batches of one poll, poll after poll."""

    def __init__(self, target: str) -> None:
        """Keep one per target for as long as it is polled."""
        self._layout = Layout(target)
        self._rows = ChunkBuilder(self._layout)

    def add(self, reading: PortReading, time_ns: int = 0) -> None:
        """Take one reading; `time_ns` is its time where it has none of its own."""
        self._rows.add(reading, time_ns)

    @property
    def refused(self) -> int:
        """Values that no counter can hold, so far."""
        return self._rows.refused

    def __len__(self) -> int:
        """Values collected for this poll."""
        return len(self._rows)

    def take(self) -> tuple[ReadingBatch, ...]:
        """The batches of this poll (mostly one), and begin the next."""
        return self._layout.batches(self._rows.take())
