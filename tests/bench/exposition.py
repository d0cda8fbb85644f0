"""A page of a million samples, rendered and gzipped, beside `prometheus_client` on the same values.

The peer is given a tenth of the ports, since it would take half a minute otherwise; its cost is
per sample, and the figure is for the same million.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
from _figures import row
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from support.snapshots import make_frame, make_snapshot, make_table

from fabricmon.api import Context
from fabricmon.clock import SystemClock, cpu_seconds
from fabricmon.selfmon import Reporter
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.model.frame import Frame
    from fabricmon.model.snapshot import Snapshot

_PORTS = 100_000
_PEER_PORTS = 10_000
_ROUNDS = 5
_SCRAPES = 50
_COUNTERS = ("rx_bytes", "tx_bytes", "tx_wait_ticks", "tx_discards", "rx_errors", "rx_discards")
_MORE = ("tx_errors", "rx_packets", "tx_packets")


def run() -> Iterator[dict[str, Any]]:
    """CPU of one page, and how long a scrape waits for the cached one."""
    names = [(f"leaf{i // 64:04d}", f"Ethernet{i % 64 + 1}/1") for i in range(_PORTS)]
    table = make_table(names)
    table.tick_bytes[:] = 4.0
    frames = [_frame(step) for step in range(1, _ROUNDS + 2)]
    snapshots = [
        make_snapshot(table, frame, tick=tick, anomaly=np.random.default_rng(tick).random(_PORTS))
        for tick, frame in enumerate(frames)
    ]
    clock = SystemClock()
    exporter = PrometheusExporter(PrometheusConfig(), Context(clock, Reporter(clock)))
    registry = CollectorRegistry()
    peer = Peer(names[:_PEER_PORTS], frames[0])
    registry.register(peer)
    exporter.publish(snapshots[0])
    samples = _samples(exporter)
    ours, theirs, theirs_packed = [], [], []
    for snapshot in snapshots[1:]:
        ours.append(_cpu(lambda one=snapshot: _page(exporter, one)))
        text: list[bytes] = []
        theirs.append(_cpu(lambda out=text: out.append(generate_latest(registry))))
        theirs_packed.append(_cpu(lambda body=text: gzip.compress(body[0])))
    scale = samples / peer.samples
    render, packed = min(theirs) * scale, (min(theirs) + min(theirs_packed)) * scale
    value = min(ours)
    yield row("samples on the page", samples, "samples")
    yield row("render and gzip", value, "CPU s", "prometheus_client, not gzipped", render)
    yield row("render and gzip", value, "CPU s", "prometheus_client, gzipped", packed)
    yield row("scrape of the cached page, p99", asyncio.run(_p99(exporter, clock)), "s")


def _frame(step: int) -> Frame:
    frame = make_frame(
        _PORTS, counters=(*_COUNTERS, *_MORE), queue_counters=(), queues=(), step=step
    )
    rng = np.random.default_rng(step)
    frame.total[:] += rng.integers(0, 2**50, frame.total.shape, np.uint64)
    frame.ratios.stall[:] = rng.random(_PORTS, np.float32)
    return frame


def _page(exporter: PrometheusExporter, snapshot: Snapshot) -> None:
    exporter.publish(snapshot)
    page = exporter.page({}, openmetrics=False)
    assert page.gzipped


def _samples(exporter: PrometheusExporter) -> int:
    body = exporter.page({}, openmetrics=False).body
    return body.count(b"\nfabricmon_port_")


class Peer:
    """The same values through `prometheus_client`'s own families, as a custom collector."""

    def __init__(self, names: list[tuple[str, str]], frame: Frame) -> None:
        self._names = names
        self._columns = [
            *((c.id, True, frame.total[k].tolist()) for k, c in enumerate(frame.counters)),
            ("stall", False, frame.ratios.stall.tolist()),
        ]
        self.samples = len(self._columns) * len(names)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Fresh families at each scrape, as exporters do."""
        for name, counts, values in self._columns:
            make = CounterMetricFamily if counts else GaugeMetricFamily
            family = make(f"fabricmon_port_{name}", name, labels=["device", "fabric", "port"])
            for (device, port), value in zip(self._names, values, strict=False):
                family.add_metric([device, "pod1", port], value)
            yield family


async def _p99(exporter: PrometheusExporter, clock: SystemClock) -> float:
    times = []
    for _ in range(_SCRAPES):
        begun = clock.monotonic()
        page = await asyncio.to_thread(exporter.page, {}, openmetrics=False)
        assert page.gzipped
        times.append(clock.monotonic() - begun)
    return float(np.percentile(times, 99))


def _cpu(work: Callable[[], object]) -> float:
    begun = cpu_seconds()
    work()
    return cpu_seconds() - begun
