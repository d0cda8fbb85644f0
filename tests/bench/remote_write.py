"""Remote write of a million samples: patched templates beside a writer of dicts and protobuf.

The peer builds the same request objects with the protobuf library from dicts of labels, a twentieth
of the series; both end in snappy. Encoding only: no network, no disk.
"""

from __future__ import annotations

import statistics
import tracemalloc
from typing import TYPE_CHECKING, Any

import cramjam
import numpy as np
from _figures import row
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from support.snapshots import make_frame, make_snapshot, make_table

from fabricmon.clock import cpu_seconds
from fabricmon_exporters.prometheus.families import FAMILIES
from fabricmon_exporters.prometheus.samples import Memory, Values
from fabricmon_exporters.remote_write.encode import FabricEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.model.snapshot import Snapshot

PORTS, PEER_PORTS, ROUNDS = 100_000, 5_000, 5
NAMES = (
    "fabricmon_port_receive_bytes_total",
    "fabricmon_port_transmit_bytes_total",
    "fabricmon_port_receive_packets_total",
    "fabricmon_port_transmit_packets_total",
    "fabricmon_port_receive_discards_total",
    "fabricmon_port_transmit_discards_total",
    "fabricmon_port_receive_errors_total",
    "fabricmon_port_transmit_errors_total",
    "fabricmon_port_anomaly_score",
    "fabricmon_port_transmit_stall_ratio",
)
COUNTERS = tuple(
    f"{side}_{what}" for side in ("rx", "tx") for what in ("bytes", "packets", "discards", "errors")
)


def messages() -> Any:
    """The message class of a write request, made from its description."""
    file = descriptor_pb2.FileDescriptorProto(name="rw.proto", package="rw", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in (
        ("Label", (("name", kinds.TYPE_STRING, ""), ("value", kinds.TYPE_STRING, ""))),
        ("Sample", (("value", kinds.TYPE_DOUBLE, ""), ("timestamp", kinds.TYPE_INT64, ""))),
        (
            "TimeSeries",
            (("labels", kinds.TYPE_MESSAGE, "Label"), ("samples", kinds.TYPE_MESSAGE, "Sample")),
        ),
        ("WriteRequest", (("timeseries", kinds.TYPE_MESSAGE, "TimeSeries"),)),
    ):
        message = file.message_type.add(name=name)
        for number, (field, kind, of) in enumerate(fields, 1):
            label = kinds.LABEL_REPEATED if of else kinds.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                added.type_name = f".rw.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("rw.WriteRequest"))


def snapshots(ports: int) -> list[Snapshot]:
    """Ticks of a fabric in which every value moves."""
    table = make_table([(f"leaf{i // 64:04d}", f"Ethernet{i % 64 + 1}/1") for i in range(ports)])
    made = []
    for step in range(1, ROUNDS + 2):
        frame = make_frame(
            ports,
            counters=COUNTERS,
            queue_counters=(),
            queues=(),
            step=step,
            time_ns=1_700_000_000_000_000_000 + step * 10_000_000_000,
        )
        frame.total[:] += np.random.default_rng(step).integers(
            0, 2**50, frame.total.shape, np.uint64
        )
        made.append(make_snapshot(table, frame, tick=step))
    return made


def ours(encoder: FabricEncoder, snapshot: Snapshot) -> tuple[float, int, int]:
    """CPU seconds, samples, and bytes on the wire."""
    begun, samples, size = cpu_seconds(), 0, 0
    for request in encoder.requests(snapshot):
        size += len(cramjam.snappy.compress_raw(request.body))
        samples += request.samples
    return cpu_seconds() - begun, samples, size


def kept(encoder: FabricEncoder, snapshot: Snapshot) -> float:
    """Bytes a series that an encoder keeps from its first tick on."""
    tracemalloc.start()
    _, samples, _ = ours(encoder, snapshot)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / samples


def theirs(request_class: Any, snapshot: Snapshot) -> tuple[float, int]:
    """CPU seconds and samples of the usual way: a dict a series, a message a dict."""
    values = Values(snapshot, Memory())
    families = [family for family in FAMILIES if family.name in NAMES]
    begun, samples = cpu_seconds(), 0
    time_ms = snapshot.frame.time_ns // 1_000_000
    request = request_class()
    for family in families:
        found = family.read(values)
        assert found is not None
        for port, value in zip(snapshot.table.ids, found.values.tolist(), strict=True):
            labels = {
                "__name__": family.name,
                "fabric": snapshot.fabric,
                "device": port.device,
                "port": port.port,
            }
            series = request.timeseries.add()
            for key in sorted(labels):
                series.labels.add(name=key, value=labels[key])
            series.samples.add(value=value, timestamp=time_ms)
            samples += 1
    cramjam.snappy.compress_raw(request.SerializeToString())
    return cpu_seconds() - begun, samples


def run() -> Iterator[dict[str, Any]]:
    """Rows of the benchmark."""
    families = [family for family in FAMILIES if family.name in NAMES]
    large, small = snapshots(PORTS), snapshots(PEER_PORTS)
    encoder, request_class = FabricEncoder("pod1", families, {}), messages()
    first, _, _ = ours(encoder, large[0])
    cost: list[float] = []
    peer: list[float] = []
    bytes_each = 0.0
    for mine, other in zip(large[1:], small[1:], strict=True):
        seconds, samples, size = ours(encoder, mine)
        cost.append(seconds / samples * 1e9)
        bytes_each = size / samples
        seconds, samples = theirs(request_class, other)
        peer.append(seconds / samples * 1e9)
    value, other_value = statistics.median(cost), statistics.median(peer)
    yield row("cpu-per-sample", value, "ns", "dicts and protobuf", other_value)
    yield row("bytes-per-sample", bytes_each, "B")
    yield row("first-tick-cpu", first, "s")
    yield row("memory-per-series", kept(FabricEncoder("pod1", families, {}), small[0]), "B")
