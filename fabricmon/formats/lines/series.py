"""Samples of numbered series: what lets a reader of millions of values look each one up once.

`Samples` collects (series, time, value) and hands them over as a `Chunk` in the numbers of a
`Layout`; `polls` cuts a chunk into readings of everything.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.base import Chunk, joined
from fabricmon.formats.lines.numerals import varint_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fabricmon.formats.base import Layout
    from fabricmon.formats.lines.series_table import SeriesTable
    from fabricmon.model.readings import ReadingBatch

EXACT = 1 << 53
"""Integers above this may have been rounded by a writer that keeps numbers as floats."""

_TOP = 1 << 64
_FLOAT, _BITS = struct.Struct("=d"), struct.Struct("=Q")


class Samples:
    """Values in the order they were read, one time after the other.

    Numbers stay text until `pack` turns all of them into an array at once.
    """

    def __init__(self, table: SeriesTable) -> None:
        """Numbers are those of `table`."""
        self.table = table
        self.codes: list[int] = []
        """Twice the series, plus 1 where the number was a bare JSON number; -1 for no series."""
        self.digits: list[bytes] = []
        """The values, at most 2^64-1 each."""
        self.rounded = 0
        """Counts that were written as JSON numbers above 2^53: the last digits may be wrong."""
        self.absent = 0
        """Values that are no number where a number is due."""
        self.untimed = 0
        """Values that got the time they were received, since they had none."""
        self.foreign_units = 0
        """Values whose time was not in nanoseconds."""
        self.ended: set[int] = set()
        """Series that a device deleted."""
        self._times: list[int] = []
        self._counts: list[int] = []
        self._wire: tuple[list[int], list[bytes], list[bytes], list[int]] = ([], [], [], [])
        self._stamped = 0
        self._chunks: list[Chunk] = []
        self._packed = 0

    def __len__(self) -> int:
        """Values packed and not yet taken."""
        return self._packed

    def put(self, series: int, value: object) -> None:
        """Take one value of a known series, whatever it was written as."""
        read = self.table.gauges[series]
        if read is None:
            count = as_count(value)
        else:
            level = read(value)
            count = None if level is None else _BITS.unpack(_FLOAT.pack(level))[0]
        if count is None:
            self.absent += 1
            return
        bare = read is None and not isinstance(value, str)
        self.codes.append(2 * series + bare)
        self.digits.append(b"%d" % count)

    def put_wire(self, codes: list[int], varints: tuple[bytes, ...], time_ns: bytes) -> None:
        """Take counts as protobuf has them on the wire, and their time likewise."""
        all_codes, all_varints, times, counts = self._wire
        all_codes.extend(codes)
        all_varints.extend(varints)
        times.append(time_ns)
        counts.append(len(codes))

    def put_array(
        self,
        codes: NDArray[np.int32],
        raw: NDArray[np.uint64],
        times: NDArray[np.int64],
        counts: NDArray[np.int64],
        received_ns: int,
    ) -> None:
        """Take M values at once; each of the `times` is that of so many of them (`counts`)."""
        self._pack(codes, raw, times, counts, received_ns)

    def stamp(self, time_ns: int) -> None:
        """Everything put since the last stamp was sampled at this time."""
        end = len(self.codes)
        if end > self._stamped:
            self._times.append(time_ns)
            self._counts.append(end - self._stamped)
            self._stamped = end

    def mark(self) -> tuple[int, int, int]:
        """A point to come back to. Only on a stamp."""
        return self._stamped, len(self._times), self.absent

    def since(self, mark: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        """Code, raw value and time of everything put since `mark`. Only on a stamp."""
        first, stamps, _ = mark
        times = [
            time
            for time, count in zip(self._times[stamps:], self._counts[stamps:], strict=True)
            for _ in range(count)
        ]
        return list(zip(self.codes[first:], map(int, self.digits[first:]), times, strict=True))

    def undo(self, mark: tuple[int, int, int]) -> None:
        """Forget what was put since `mark`."""
        self._stamped, stamps, self.absent = mark
        del self.codes[self._stamped :], self.digits[self._stamped :]
        del self._times[stamps:], self._counts[stamps:]

    def pack(self, received_ns: int) -> None:
        """Put what was collected into arrays; `received_ns` is the time of what has none."""
        codes, varints, wire_times, wire_counts = self._wire
        if codes:
            times = varint_numbers(wire_times).astype(np.int64)
            numbers = varint_numbers(varints)
            self._pack(np.array(codes, np.int32), numbers, times, wire_counts, received_ns)
            self._wire = ([], [], [], [])
        if not self.codes:
            return
        raw = np.fromstring(b",".join(self.digits), np.uint64, sep=",")
        times = np.array(self._times, np.int64)
        self._pack(np.array(self.codes, np.int32), raw, times, self._counts, received_ns)
        self.codes.clear()
        self.digits.clear()
        self._times.clear()
        self._counts.clear()
        self._stamped = 0

    def _pack(
        self,
        codes: NDArray[np.int32],
        raw: NDArray[np.uint64],
        times: NDArray[np.int64],
        counted: list[int] | NDArray[np.int64],
        received_ns: int,
    ) -> None:
        self.rounded += int(np.count_nonzero((codes & 1) & (codes >= 0) & (raw > EXACT)))
        stamps, foreign, untimed = nanoseconds(times, received_ns)
        counts = np.asarray(counted, np.int64)
        self.foreign_units += int(counts[foreign].sum())
        self.untimed += int(counts[untimed].sum())
        chunk = self.table.chunk(codes >> 1, np.repeat(stamps, counts), raw)
        self._chunks.append(chunk)
        self._packed += len(chunk)

    def drop_oldest(self) -> int:
        """Forget the chunk that was packed first; how many values that were."""
        dropped = len(self._chunks.pop(0)) if self._chunks else 0
        self._packed -= dropped
        return dropped

    def take(self) -> Chunk:
        """Everything packed, in order of time, and begin anew."""
        chunk = joined(self._chunks).in_order()
        self._chunks, self._packed = [], 0
        lanes = self.table.lane_columns
        return _weakest(chunk, lanes) if lanes and len(chunk) else chunk


def _weakest(chunk: Chunk, columns: set[int]) -> Chunk:
    """Of several lanes' levels at one time, only the lowest."""
    own = np.flatnonzero(np.isin(chunk.column, list(columns)))
    level = chunk.raw[own].view(np.float64)
    order = own[np.lexsort((level, chunk.time_ns[own], chunk.port[own], chunk.column[own]))]
    same = np.ones(len(order), np.bool_)
    same[:1] = False
    for key in (chunk.time_ns, chunk.port, chunk.column):
        same[1:] &= key[order[1:]] == key[order[:-1]]
    keep = np.ones(len(chunk), np.bool_)
    keep[order[same]] = False
    return chunk.part(keep)


def as_count(value: object) -> int | None:
    """A count 0 .. 2^64-1 from a JSON value; None for what is no such number.

    Digit strings are exact (RFC 7951). A float counts where it is whole.
    """
    number: int | float
    if isinstance(value, str):
        text = value.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            return None
        number = int(text)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    else:
        return None
    return int(number) if 0 <= number < _TOP and number == int(number) else None


_OLDEST = 100_000_000  # seconds: 1973; smaller is no time but a counter or an unset field


def nanoseconds(
    stamps: NDArray[np.int64], received_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """int64[M] in nanoseconds whatever unit they came in; bool[M] which did not; bool[M] no time.

    Devices send seconds, milli-, micro- and nanoseconds in one field; magnitudes tell them apart
    for every date from 1973 to 5138.
    """
    scaled = stamps.copy()
    foreign = np.zeros(len(stamps), np.bool_)
    for below, factor in ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3)):
        which = (stamps < below) & (stamps >= _OLDEST) & ~foreign
        scaled[which] *= factor
        foreign |= which
    untimed = stamps < _OLDEST
    scaled[untimed] = received_ns
    return scaled, foreign, untimed


def polls(layout: Layout, chunk: Chunk, spread_ns: int = 1_000_000_000) -> Iterator[ReadingBatch]:
    """Batches in order of time: each ends before a value would repeat.

    A port's values within one batch were sampled within `spread_ns`, since a batch has one time a
    port.
    """
    for part in cut(chunk, spread_ns):
        yield from layout.batches(part)


def cut(chunk: Chunk, spread_ns: int) -> Iterator[Chunk]:
    """The parts of `polls`, before they are made batches. `chunk` is in order of time."""
    chunk, previous = _without_repeats(chunk)
    start, n = 0, len(chunk)
    while start < n:
        end = _first_repeat(previous, start)
        window = chunk.part(slice(start, end))
        end = start + _within(window, spread_ns)
        yield chunk.part(slice(start, end))
        start = end


def _without_repeats(chunk: Chunk) -> tuple[Chunk, NDArray[np.int64]]:
    """Without values that came twice for one time, and the index of each value's predecessor."""
    while True:
        width = int(chunk.column.max(initial=0)) + 1
        code = chunk.port.astype(np.int64) * width + chunk.column
        if code.max(initial=0) < 1 << 16:
            code = code.astype(np.uint16)  # numpy sorts these ten times faster
        order = np.argsort(code, kind="stable")
        same = code[order[1:]] == code[order[:-1]]
        twice = same & (chunk.time_ns[order[1:]] == chunk.time_ns[order[:-1]])
        if not twice.any():
            previous = np.full(len(code), -1, np.int64)
            previous[order[1:][same]] = order[:-1][same]
            return chunk, previous
        keep = np.ones(len(code), np.bool_)
        keep[order[:-1][twice]] = False
        chunk = chunk.part(keep)


def _first_repeat(previous: NDArray[np.int64], start: int, step: int = 65_536) -> int:
    for low in range(start, len(previous), step):
        hits = np.flatnonzero(previous[low : low + step] >= start)
        if len(hits):
            return low + int(hits[0])
    return len(previous)


def _within(window: Chunk, spread_ns: int) -> int:
    """How many samples from the start keep every port within `spread_ns`. At least one."""
    if window.time_ns[-1] - window.time_ns[0] <= spread_ns:
        return len(window)
    _, first, inverse = np.unique(window.port, return_index=True, return_inverse=True)
    late = window.time_ns - window.time_ns[first][inverse] > spread_ns
    hits = np.flatnonzero(late)
    return int(hits[0]) if len(hits) else len(window)
