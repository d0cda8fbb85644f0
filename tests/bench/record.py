"""Cost of recording one tick of 100k ports x 40 counters, beside JSON lines and Parquet.

30 % of the counters move by random steps, the others stand. Each round writes one tick of the
product and of both peers; JSON lines are measured on a tenth of the ports and scaled. Beside it,
what the same bytes cost as messages of a cluster.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cramjam
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from _figures import row

from fabricmon.clock import SystemClock, cpu_seconds
from fabricmon.model.counters import CATALOGUE, NO_QUEUE, Scope
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.record import Recording, Writer
from fabricmon.runtime.cluster.message import Unpacker, pack
from fabricmon.selfmon import Reporter

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGETS, PORTS, BUSY, TICKS = 200, 500, 12, 4
SAMPLES = TARGETS * PORTS * 40
SECOND = 1_000_000_000


def columns() -> tuple[Column, ...]:
    """16 counters of port scope and 3 x 8 of queue scope."""
    counts = [c for c in CATALOGUE if not c.is_gauge]
    ports = [Column(c, NO_QUEUE) for c in counts if c.scope is Scope.PORT][:16]
    queues = [Column(c, q) for c in counts if c.scope is Scope.QUEUE for q in range(8)][:24]
    return (*ports, *queues)


def fabric(targets: int = TARGETS, ports: int = PORTS) -> Iterator[list[ReadingBatch]]:
    """One list of batches per tick, as a collector of so many switches would give."""
    random = np.random.default_rng(1)
    sets = [
        PortSet((f"leaf{t:03d}",) * ports, tuple(f"Ethernet{p}" for p in range(ports)))
        for t in range(targets)
    ]
    kinds = columns()
    values = random.integers(0, 1 << 40, (targets, 40, ports), dtype=np.uint64)
    values[:, BUSY + 8 :] = 0
    state = np.zeros((40, ports), np.uint8)
    for tick in range(TICKS):
        values[:, :BUSY] += random.integers(0, 1 << 32, (targets, BUSY, ports), dtype=np.uint64)
        stamp = np.full(ports, tick * 10 * SECOND, np.int64)
        yield [
            ReadingBatch(f"leaf{t}", sets[t], kinds, values[t].copy(), state, stamp)
            for t in range(targets)
        ]


class Product:
    """The recording."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "r.arrows"
        self._writer = Writer(self.path, "lab", Reporter(SystemClock()))

    def tick(self, batches: list[ReadingBatch], time_ns: int) -> float:
        """CPU seconds a sample."""
        begun = cpu_seconds()
        for batch in batches:
            self._writer.write(batch)
        self._writer.write(Tick(time_ns, 10.0))
        return (cpu_seconds() - begun) / SAMPLES

    def bytes_per_sample(self) -> float:
        """Of the file."""
        self._writer.close()
        return self.path.stat().st_size / SAMPLES / TICKS


class ParquetPeer:
    """One row group a tick, a column a counter, zstd."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "r.parquet"
        names = [f"{c.counter.id}_{c.queue}" for c in columns()]
        schema = pa.schema(
            [("device", pa.string()), ("port", pa.string())] + [(n, pa.uint64()) for n in names]
        )
        self._schema = schema
        self._writer = pq.ParquetWriter(self.path, schema, compression="zstd", compression_level=1)

    def tick(self, batches: list[ReadingBatch]) -> float:
        """CPU seconds a sample."""
        begun = cpu_seconds()
        devices = pa.array([d for batch in batches for d in batch.ports.device])
        ports = pa.array([p for batch in batches for p in batch.ports.port])
        matrix = np.concatenate([batch.values for batch in batches], axis=1)
        arrays = [devices, ports, *(pa.array(row) for row in matrix)]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        return (cpu_seconds() - begun) / SAMPLES

    def bytes_per_sample(self) -> float:
        """Of the file."""
        self._writer.close()
        return self.path.stat().st_size / SAMPLES / TICKS


class JsonPeer:
    """One line a port and tick, zstd."""

    def __init__(self) -> None:
        self._names = [f"{c.counter.id}_{c.queue}" for c in columns()]
        self._size = 0

    def tick(self, batches: list[ReadingBatch], time_ns: int) -> float:
        """CPU seconds a sample."""
        part = batches[::10]
        begun = cpu_seconds()
        lines: list[bytes] = []
        for batch in part:
            rows = batch.values.T.tolist()
            for device, port, own in zip(batch.ports.device, batch.ports.port, rows, strict=True):
                record: dict[str, Any] = dict(zip(self._names, own, strict=True))
                lines.append(
                    orjson.dumps({"time": time_ns, "device": device, "port": port, **record})
                )
        self._size += len(cramjam.zstd.compress(b"\n".join(lines), level=1))
        return (cpu_seconds() - begun) / (SAMPLES / 10)

    def bytes_per_sample(self) -> float:
        """Of what was compressed."""
        return self._size / (SAMPLES / 10) / TICKS


def messages() -> Iterator[dict[str, Any]]:
    """The polls of switches of 64 ports as a cluster's log holds them, one a message."""
    batches = [batch for tick in fabric(100, 64) for batch in tick]
    begun = cpu_seconds()
    bodies = [pack(batch, "lab") for batch in batches]
    packed, unpacker = cpu_seconds(), Unpacker()
    for body in bodies:
        unpacker.item(body)
    unpacked = cpu_seconds()
    yield row("message-pack-cpu", (packed - begun) / len(bodies) * 1000, "ms")
    yield row("message-unpack-cpu", (unpacked - packed) / len(bodies) * 1000, "ms")
    yield row("message-size", sum(map(len, bodies)) / len(bodies), "B")


def run() -> Iterator[dict[str, Any]]:
    """Rows of the benchmark."""
    yield from messages()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        product, parquet, json = Product(folder), ParquetPeer(folder), JsonPeer()
        cost: dict[str, list[float]] = {"product": [], "parquet": [], "jsonl.zst": []}
        for number, batches in enumerate(fabric()):
            cost["product"].append(product.tick(batches, number * 10 * SECOND))
            cost["parquet"].append(parquet.tick(batches))
            cost["jsonl.zst"].append(json.tick(batches, number * 10 * SECOND))
        nanoseconds = {name: statistics.median(times) * 1e9 for name, times in cost.items()}
        sizes = {
            "product": product.bytes_per_sample(),
            "parquet": parquet.bytes_per_sample(),
            "jsonl.zst": json.bytes_per_sample(),
        }
        for peer in ("parquet", "jsonl.zst"):
            yield row("cpu-per-sample", nanoseconds["product"], "ns", peer, nanoseconds[peer])
            yield row("bytes-per-sample", sizes["product"], "B", peer, sizes[peer])
        begun = cpu_seconds()
        read = sum(
            item.values.size
            for item in Recording([product.path], Reporter(SystemClock())).items()
            if isinstance(item, ReadingBatch)
        )
        yield row("read-cpu-per-sample", (cpu_seconds() - begun) / read * 1e9, "ns")
