"""Counters in long form, one row per value: the table of an interchange dump.

Columns: `time` (int64 ns since the epoch, UTC), `device`, `port`, `queue` (null for port scope),
`counter` (catalogue name), `value` (cumulative; gauges as they are). Parquet or CSV. Written files
carry a further column `gauge` for levels that no unsigned integer holds (optical power, BER).

Whole columns are turned at once; only rows that are wrong are looked at one by one.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord, Chunk
from fabricmon.formats.tables.cells import Cells, integers, numbers, texts
from fabricmon.model.counters import BY_ID, NO_QUEUE, Kind, Scope
from fabricmon.model.readings import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from fabricmon.formats.base import Bad, Layout

NAMES = ("time", "device", "port", "queue", "counter", "value")
GAUGE = "gauge"
_REQUIRED = {"time", "device", "port", "counter", "value"}
_ROWS = 1 << 18
_PARQUET = b"PAR1"


def sniff(head: bytes) -> bool:
    """Whether a file that begins so is such a table."""
    if head.startswith(_PARQUET):
        return True
    first = head.split(b"\n", 1)[0].strip().decode("utf-8", "replace")
    return {name.strip().strip('"') for name in first.split(",")} >= _REQUIRED


def read(stream: io.BufferedReader, file: str, layout: Layout, bad: Bad) -> Iterator[Chunk]:
    """The table as chunks, each in order of time. Rows that are wrong are told to `bad`.

    A counter that is not of the catalogue is told once. Raises `FormatError` where the file is no
    such table.
    """
    parquet = stream.peek(4)[:4] == _PARQUET
    reader = _Reader(layout, bad, file, "" if parquet else "utf-8")
    tables = _parquet(stream, file) if parquet else _csv(stream, file, bad)
    for table, line_of in tables:
        yield reader.chunk(table, line_of)


def _parquet(stream: io.BufferedReader, file: str) -> Iterator[tuple[Any, Callable[[int], int]]]:
    import pyarrow as pa  # noqa: PLC0415 - 50 MB that other formats do not need
    import pyarrow.parquet as pq  # noqa: PLC0415

    source = stream if stream.seekable() else io.BytesIO(stream.read())
    try:
        table = pq.ParquetFile(source)
        present = set(table.schema_arrow.names)
        _check(present, file)
        names = [name for name in (*NAMES, GAUGE) if name in present]
        first = 0
        for batch in table.iter_batches(_ROWS, columns=names):
            yield batch, lambda row, first=first: first + row + 1  # type: ignore[misc] # bound now
            first += batch.num_rows
    except pa.ArrowException as error:
        raise FormatError(f"not readable as Parquet: {error}", file=file) from error


def _csv(
    stream: io.BufferedReader, file: str, bad: Bad
) -> Iterator[tuple[Any, Callable[[int], int]]]:
    for cells in Cells(stream, file, bad):
        _check(set(cells.batch.schema.names), file)
        yield cells.batch, cells.line


def _check(present: set[str], file: str) -> None:
    missing = _REQUIRED - present
    if missing:
        raise FormatError(f"has no column {', '.join(sorted(missing))}", file=file)


class _Reader:
    """Turns Arrow batches into chunks."""

    def __init__(self, layout: Layout, bad: Bad, file: str, encoding: str) -> None:
        self._layout, self._bad, self._file, self._encoding = layout, bad, file, encoding
        self._ports: dict[tuple[str, str], int] = {}
        self._columns: dict[tuple[str, int], int] = {}

    def chunk(self, batch: Any, line_of: Callable[[int], int]) -> Chunk:
        """One Arrow batch, in order of time."""
        time, time_ok = integers(batch.column("time"))
        port, port_ok = self._port(batch)
        column, column_ok, gauge, ignored = self._column(batch)
        raw, value_ok, present = self._value(batch, gauge)
        for why, wrong in (
            ("`time` is no number of nanoseconds", ~time_ok),
            ("`device` or `port` is empty", ~port_ok),
            ("`queue` is no queue number", ~column_ok & ~ignored),
            ("`value` is no count", ~value_ok & present & ~ignored),
        ):
            for row in np.flatnonzero(wrong).tolist():
                self._bad(BadRecord(self._file, line_of(row), why))
        good = time_ok & port_ok & column_ok & value_ok & present
        zero = np.zeros(len(time), np.uint8)
        return Chunk(time, port, column, raw, zero).part(good).in_order()

    def _port(self, batch: Any) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        device, devices = texts(batch.column("device"), self._encoding)
        port, ports = texts(batch.column("port"), self._encoding)
        pair = device * len(ports) + port
        numbers_of = np.full(len(devices) * len(ports), -1, np.int32)
        for key in np.unique(pair).tolist():
            name = (devices[key // len(ports)], ports[key % len(ports)])
            if all(name):
                numbers_of[key] = self._layout.port(*name)
        rows = numbers_of[pair]
        return rows, rows >= 0

    def _column(
        self, batch: Any
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Column number, good, gauge, and not of the catalogue."""
        counter, counters = texts(batch.column("counter"), self._encoding)
        queue, queue_ok = self._queue(batch)
        width = int(queue.max(initial=NO_QUEUE)) + 2
        pair = counter * width + (queue + 1)
        table = np.full(len(counters) * width, -1, np.int32)
        is_gauge = np.zeros(len(table), np.bool_)
        for key in np.unique(pair[queue_ok]).tolist():
            known = self._known(counters[key // width], key % width - 1)
            if known is not None:
                table[key] = self._layout.column(known)
                is_gauge[key] = known.counter.is_gauge
        ignored = np.array([name not in BY_ID for name in counters])[counter]
        column = np.where(queue_ok, table[pair], -1).astype(np.int32)
        return column, column >= 0, is_gauge[pair], ignored

    @staticmethod
    def _queue(batch: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        if "queue" not in batch.schema.names:
            return np.full(batch.num_rows, NO_QUEUE), np.ones(batch.num_rows, np.bool_)
        queues = batch.column("queue")
        queue, good = integers(queues)
        empty = numbers(queues)[2]
        in_range = good & (queue >= NO_QUEUE) & (queue < 256)
        return np.where(in_range, queue, NO_QUEUE), in_range | empty

    def _known(self, name: str, queue: int) -> Column | None:
        counter = BY_ID.get(name)
        if counter is None:
            if (name, NO_QUEUE) not in self._columns:
                self._columns[name, NO_QUEUE] = -1
                reason = f"{name!r} is not in the catalogue: its rows are left out"
                self._bad(BadRecord(self._file, 0, reason))
            return None
        if (counter.scope is Scope.PORT) != (queue == NO_QUEUE):
            return None
        source = f"dump, counter {name}"
        return Column(counter, queue, saturates=counter.kind is Kind.SATURATING, source=source)

    @staticmethod
    def _value(
        batch: Any, gauge: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Raw bits, good, and whether there was something to read at all."""
        values = batch.column("value")
        count, count_ok = integers(values, unsigned=True)
        level, level_ok, empty = numbers(values)
        if GAUGE in batch.schema.names:
            extra, extra_ok, _ = numbers(batch.column(GAUGE))
            level, level_ok = np.where(extra_ok, extra, level), level_ok | extra_ok
            empty &= ~extra_ok
        raw = np.where(gauge, level.view(np.uint64), count)
        return raw, np.where(gauge, level_ok, count_ok), ~empty
