"""Counters in long form, written: the other side of `longtable`.

A dump holds cumulative counts of 64 bits in catalogue units, so counters that wrap at fewer bits
are unwrapped, and a value that stands at the top of a saturating counter is left out: it is not
known. What was not read is not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fabricmon.formats.tables.longtable import GAUGE, NAMES
from fabricmon.model.counters import NO_QUEUE
from fabricmon.model.readings import ByIdentity, PortSet, ReadingBatch, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.readings import Column

_ROWS = 1 << 19


class _Names:
    """Texts by number."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._known.setdefault(text, len(self._known))

    def texts(self) -> list[str]:
        return list(self._known)


class LongTable:
    """Collects readings and writes them to `sink`, as Parquet or as CSV."""

    def __init__(self, sink: BinaryIO, *, csv: bool = False) -> None:
        """Nothing is written before the first half million rows, or the end."""
        self._sink, self._csv = sink, csv
        self._writer: Any = None
        self._names = {name: _Names() for name in ("device", "port", "counter")}
        self._sets: ByIdentity[PortSet, tuple[NDArray[np.int32], NDArray[np.int32]]] = ByIdentity()
        self._unwrapped: dict[tuple[str, int, Column], _Unwrapped] = {}
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._rows = 0

    def add(self, batch: ReadingBatch) -> None:
        """Take one reading."""
        device, port = self._ports(batch.ports)
        for k, column in enumerate(batch.columns):
            good = batch.state[k] == State.OK
            values = batch.values[k]
            top = (1 << column.bits) - 1
            if column.saturates:
                good &= values < top
            elif column.bits < 64:
                values = self._unwrap(batch, k, column, good)
            counts = values * np.uint64(column.scale)
            self._part(batch, column, good, device, port, counts, None)
        for g, column in enumerate(batch.gauge_columns):
            levels = batch.gauges[g]
            good = np.isfinite(levels)
            safe = np.where(good, levels, 0.0)
            whole = good & (safe >= 0) & (safe == np.floor(safe)) & (safe < 2.0**53)
            counts = np.where(whole, safe, 0.0).astype(np.uint64)
            self._part(batch, column, whole, device, port, counts, None)
            self._part(batch, column, good & ~whole, device, port, None, levels)
        if self._rows >= _ROWS:
            self._flush()

    def close(self) -> None:
        """Write what is left and end the table; the sink stays open."""
        self._flush(last=True)
        self._writer.close()

    def _ports(self, ports: PortSet) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        known = self._sets.get(ports)
        if known is None:
            device = [self._names["device"].number(name) for name in ports.device]
            port = [self._names["port"].number(name) for name in ports.port]
            known = np.array(device, np.int32), np.array(port, np.int32)
            self._sets.put(ports, known)
        return known

    def _unwrap(
        self, batch: ReadingBatch, k: int, column: Column, good: NDArray[np.bool_]
    ) -> NDArray[np.uint64]:
        key = (batch.target, id(batch.ports), column)
        known = self._unwrapped.get(key)
        if known is None:
            known = self._unwrapped[key] = _Unwrapped(batch.ports)
        return known.totals(batch.values[k], good, column.bits)

    def _part(
        self,
        batch: ReadingBatch,
        column: Column,
        rows: NDArray[np.bool_],
        device: NDArray[np.int32],
        port: NDArray[np.int32],
        counts: NDArray[np.uint64] | None,
        levels: NDArray[np.float64] | None,
    ) -> None:
        n = int(rows.sum())
        if not n:
            return
        counter = self._names["counter"].number(column.counter.id)
        self._parts.append(
            {
                "time": batch.time_ns[rows],
                "device": device[rows],
                "port": port[rows],
                "queue": np.full(n, column.queue, np.int16),
                "counter": np.full(n, counter, np.int32),
                "value": counts[rows] if counts is not None else np.zeros(n, np.uint64),
                "counted": np.full(n, counts is not None),
                GAUGE: levels[rows] if levels is not None else np.zeros(n),
            }
        )
        self._rows += n

    def _flush(self, *, last: bool = False) -> None:
        import pyarrow as pa  # noqa: PLC0415 - 50 MB that other formats do not need

        if not self._parts and (self._writer is not None or not last):
            return
        empty = {"counted": np.empty(0, np.bool_), "queue": np.empty(0, np.int16)}
        columns: dict[str, NDArray[Any]] = {
            key: np.concatenate([part[key] for part in self._parts])
            if self._parts
            else empty.get(key, np.empty(0, np.int64))
            for key in (*NAMES, GAUGE, "counted")
        }
        self._parts, self._rows = [], 0
        arrays = {
            "time": pa.array(columns["time"], pa.int64()),
            "queue": pa.array(columns["queue"], pa.int16(), mask=columns["queue"] == NO_QUEUE),
            "value": pa.array(columns["value"], pa.uint64(), mask=~columns["counted"]),
            GAUGE: pa.array(columns[GAUGE], pa.float64(), mask=columns["counted"]),
        }
        for name, names in self._names.items():
            indices = pa.array(columns[name], pa.int32())
            texts = pa.array(names.texts(), pa.string())
            arrays[name] = pa.DictionaryArray.from_arrays(indices, texts).cast(pa.string())
        self._write(pa.table([arrays[name] for name in (*NAMES, GAUGE)], [*NAMES, GAUGE]))

    def _write(self, table: Any) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - see `_flush`
        from pyarrow import csv  # noqa: PLC0415

        if self._writer is None and self._csv:
            self._writer = csv.CSVWriter(self._sink, table.schema)
        elif self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression="zstd")
        self._writer.write_table(table)


class _Unwrapped:
    """Totals of a counter that wraps at fewer than 64 bits, by row of one port set."""

    def __init__(self, ports: PortSet) -> None:
        self.ports = ports  # held, so that its identity is not given to another
        self._last = np.zeros(len(ports), np.uint64)
        self._base = np.zeros(len(ports), np.uint64)

    def totals(
        self, values: NDArray[np.uint64], good: NDArray[np.bool_], bits: int
    ) -> NDArray[np.uint64]:
        """From the top quarter to the lowest is a wrap; any other fall is left to be seen."""
        quarter = np.uint64(1 << (bits - 2))
        wrapped = good & (self._last >= quarter * np.uint64(3)) & (values < quarter)
        fell = good & (values < self._last) & ~wrapped
        self._base[wrapped] += np.uint64(1 << bits)
        self._base[fell] = 0
        self._last = np.where(good, values, self._last)
        return values + self._base
