"""What one whole tick costs: readings in, frame, scores, incidents, and the scrape page out.

The real pipeline and the real page at 1,000, 10,000 and 100,000 ports x 40 counters, each in a
process of its own, on a leaf-spine fabric that is read in targets of 64 ports and has one incast.
Polling and decoding are not in it (see the benchmarks of the collectors). Peer: a dict per series
and `prometheus_client` on a thousand ports, times the ports; it detects and diagnoses nothing.
`python tests/bench/tick.py PORTS` prints the profile of one tick.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from _figures import row
from exposition import Peer
from normalise import COLUMNS, dict_loop
from prometheus_client import CollectorRegistry, generate_latest
from support.fabrics import leaf_spine

from fabricmon import app, config, yamlfile
from fabricmon.api import Context
from fabricmon.clock import cpu_seconds
from fabricmon.model.readings import PortSet, ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Intent, Job, PortId
from fabricmon.record.state import write_state
from fabricmon.selfmon import Reporter, keep_compact
from fabricmon.testing import ManualClock
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.topology import Topology

_SIZES = (1_000, 10_000) if os.environ.get("QUICK") else (1_000, 10_000, 100_000)
_LEARN = 12
_TICKS = 9
_RADIX = 64
_SECOND = 10**9
_START = 1_700_000_000 * _SECOND
_CONFIG = f"detect: {{learn_polls: {_LEARN}}}\nlimits: {{ports: 200000}}\n"
_STAGES = ("absorb", "normalize", "detect", "diagnose", "publish")
_MOVES = {
    "rx_bytes": 2e11, "tx_bytes": 2e11, "rx_packets": 5e7, "tx_packets": 5e7, "fec_corrected": 1e3,
}  # fmt: skip
"""What a counter moves in ten seconds; the others stand still."""
_QUEUE_MOVES = {"rx_pfc_frames": 40.0, "tx_pfc_frames": 40.0, "ecn_marked_packets": 4e3}
"""The same for queue 3."""
_STORM = 4e6
"""Pause frames in ten seconds of a port that is held most of the time."""


class CpuClock(ManualClock):
    """Paces by CPU time, so that the pipeline's own stage metric tells CPU seconds."""

    def monotonic(self) -> float:
        """CPU seconds of this process."""
        return cpu_seconds()


class LiveFabric:
    """Leaves with 32 hosts and 32 spines each: 128 ports a leaf, both ends of each cable."""

    def __init__(self, ports: int) -> None:
        """At least so many ports."""
        leaves = -(-ports // 128)
        jobs = tuple(
            Job(f"job{k}", tuple(f"h{leaf}-{h}" for leaf in range(k, k + 4) for h in range(32)))
            for k in range(0, leaves - 3, 4)
        )
        intent = Intent(lossless_queues=(3,))
        self.topology: Topology = leaf_spine(
            leaves, 32, 32, speed_bps=4e11, jobs=jobs, intent=intent
        )
        ends = {end for link in self.topology.links for end in (link.a, link.b)}
        self.names = sorted(ends)
        self._sets = [
            PortSet(*map(tuple, zip(*self.names[at : at + _RADIX], strict=True)))
            for at in range(0, len(self.names), _RADIX)
        ]
        self._generator = np.random.default_rng(7)
        shape = len(COLUMNS), len(self.names)
        self.values = self._generator.integers(0, 1 << 40, shape, np.uint64)
        self._moves = np.zeros(shape)
        for k, column in enumerate(COLUMNS):
            if column.queue in {-1, 3}:
                usual = {**_MOVES, **_QUEUE_MOVES}.get(column.counter.id, 0.0)
                self._moves[k] = usual * self._generator.uniform(0.7, 1.3, shape[1])

    def incast(self) -> None:
        """From now on everybody sends to one host, and what leads there is held back."""
        row = {name: i for i, name in enumerate(self.names)}
        paused = next(
            k for k, c in enumerate(COLUMNS) if (c.counter.id, c.queue) == ("rx_pfc_frames", 3)
        )
        sending = next(k for k, c in enumerate(COLUMNS) if c.counter.id == "tx_bytes")
        self._moves[sending, row[PortId("leaf0", "d0")]] = 4.9e11
        leaves = min(40, sum(node.name.startswith("leaf") for node in self.topology.nodes))
        for spine in range(32):
            self._moves[paused, row[PortId(f"spine{spine}", "p0")]] = _STORM
            for leaf in range(1, leaves):
                self._moves[paused, row[PortId(f"leaf{leaf}", f"u{spine}")]] = _STORM

    def poll(self, now_ns: int) -> list[ReadingBatch]:
        """One reading of every target."""
        jitter = self._generator.uniform(0.9, 1.1, (len(COLUMNS), 1))
        self.values = self.values + (self._moves * jitter).astype(np.uint64)
        batches = []
        for i, ports in enumerate(self._sets):
            part = self.values[:, i * _RADIX : i * _RADIX + len(ports)]
            values, time_ns = np.ascontiguousarray(part), np.full(len(ports), now_ns, np.int64)
            state = np.zeros(values.shape, np.uint8)
            batches.append(ReadingBatch(f"t{i}", ports, COLUMNS, values, state, time_ns))
        return batches


class Bench:
    """A pipeline and a page, and what each tick of them cost."""

    def __init__(self, ports: int) -> None:
        """The topology is known before the first poll."""
        self.fabric = LiveFabric(ports)
        clock = CpuClock()
        self.context = Context(clock, Reporter(clock))
        loaded = config.accept(yamlfile.loads(_CONFIG, file="bench.yaml"))
        self.pipeline = app.make_pipeline("bench", self.context, loaded)
        self.exporter = PrometheusExporter(PrometheusConfig(), self.context)
        self._now = _START
        before = cpu_seconds()
        self.pipeline.feed(self.fabric.topology)
        self.adopt = cpu_seconds() - before

    def tick(self) -> dict[str, float]:
        """CPU seconds of one tick, by stage."""
        self._now += 10 * _SECOND
        batches = self.fabric.poll(self._now)
        before, begun = self._stages(), cpu_seconds()
        for batch in batches:
            self.pipeline.feed(batch)
        absorbed = cpu_seconds()
        snapshot = self.pipeline.feed(Tick(self._now, 10.0))
        assert snapshot is not None
        ticked = cpu_seconds()
        self.exporter.publish(snapshot)
        page = self.exporter.page({}, openmetrics=False)
        assert page.gzipped
        done, after = cpu_seconds(), self._stages()
        cost = {stage: after[stage] - before[stage] for stage in after}
        cost |= {"absorb": absorbed - begun, "publish": done - ticked, "total": done - begun}
        return cost

    def publish(self) -> Snapshot:
        """One tick up to the exporter, as the daemon does it: the first scrape renders the page."""
        self._now += 10 * _SECOND
        for batch in self.fabric.poll(self._now):
            self.pipeline.feed(batch)
        snapshot = self.pipeline.feed(Tick(self._now, 10.0))
        assert snapshot is not None
        self.exporter.publish(snapshot)
        return snapshot

    def save(self) -> dict[str, float]:
        """CPU seconds to save the state, and its MiB."""
        with TemporaryDirectory() as folder:
            path, begun = Path(folder) / "state.npz", cpu_seconds()
            write_state(path, self.pipeline.save())
            return {"save": cpu_seconds() - begun, "state": path.stat().st_size / 2**20}

    def scrapes(self) -> float:
        """CPU seconds of the 99th of a hundred scrapes of one tick, the rendering among them."""
        costs = []
        for scrape in range(100):
            if scrape == 0 and self.pipeline.latest is not None:
                self.exporter.publish(self.pipeline.latest)
            begun = cpu_seconds()
            assert self.exporter.page({}, openmetrics=False).gzipped
            costs.append(cpu_seconds() - begun)
        return sorted(costs)[98]

    def learn(self) -> list[dict[str, float]]:
        """Ticks until every kind of port has a forest, and what each cost."""
        costs = [self.tick()]
        while self.pipeline.latest is None or self.pipeline.latest.scores.learning:
            assert len(costs) < 10 * _LEARN, "the detector learns"
            costs.append(self.tick())
        return costs

    def _stages(self) -> dict[str, float]:
        registry = self.context.report.metrics.registry
        name = "fabricmon_tick_stage_duration_seconds_sum"
        return {
            stage: registry.get_sample_value(name, {"fabric": "bench", "stage": stage}) or 0.0
            for stage in ("normalize", "detect", "diagnose")
        }


def measure(ports: int) -> dict[str, float]:
    """Medians of what the ticks cost with forests in use and an incast going on; MiB at the end."""
    keep_compact()  # as the daemon does
    bench = Bench(ports)
    learning = bench.learn()
    bench.fabric.incast()
    costs = [bench.tick() for _ in range(_TICKS)]
    assert bench.pipeline.latest is not None
    assert bench.pipeline.latest.incidents, "the incast was found"
    found = {stage: median(cost[stage] for cost in costs) for stage in (*_STAGES, "total")}
    found |= {"ports": float(len(bench.pipeline.table)), "worst": max(c["total"] for c in costs)}
    found |= bench.save() | {"page": bench.scrapes()}
    body = bench.exporter.page({}, openmetrics=False).body
    found["samples"] = float(body.count(b"\nfabricmon_"))
    found |= {"first": learning[0]["total"], "adopt": bench.adopt}
    found |= {"refit": max(c["detect"] for c in learning) - found["detect"], "rss": _peak_mib()}
    return found


def _peak_mib() -> float:
    """The most memory this process has ever held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def peer(ports: int = 1_000) -> float:
    """CPU seconds a port and tick: a dict per series, and `prometheus_client`."""
    bench = Bench(ports)
    bench.tick()
    bench.tick()
    assert bench.pipeline.latest is not None
    registry = CollectorRegistry()
    names = [(name.device, name.port) for name in bench.fabric.names]
    registry.register(Peer(names, bench.pipeline.latest.frame))
    memory: dict[tuple[int, int], tuple[int, int]] = {}
    costs = []
    for tick in range(4):
        bench.fabric.poll(tick)
        values = bench.fabric.values.tolist()
        begun = cpu_seconds()
        dict_loop(memory, values, tick * 10 * _SECOND)
        generate_latest(registry)
        costs.append(cpu_seconds() - begun)
    return median(costs[1:]) / len(bench.fabric.names)


def _apart(work: Any, *arguments: Any) -> Any:
    """The result of `work` in a fresh process: its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def run() -> Iterator[dict[str, Any]]:
    """Cost, stage split and memory at each size, and how they grow."""
    before: dict[str, float] | None = None
    for size in _SIZES:
        cost, beside = _apart(measure, size), _apart(peer)
        ports, name = cost["ports"], "dict loop and prometheus_client"
        yield row(f"ports-{size}", ports, "ports")
        yield row(f"samples-{size}", cost["samples"], "samples on the page")
        yield row(f"total-cpu-{size}", cost["total"], "cpu-s", name, beside * ports)
        if size == 100_000:
            yield row("budget-cpu-100000", cost["total"], "cpu-s", "budget", 2.2)
            yield row("budget-rss-mib-100000", cost["rss"], "MiB", "budget", 2000.0)
        for stage in _STAGES:
            yield row(f"{stage}-cpu-{size}", cost[stage], "cpu-s")
        yield row(f"worst-cpu-{size}", cost["worst"], "cpu-s")
        yield row(f"adopt-cpu-{size}", cost["adopt"], "cpu-s")
        yield row(f"first-tick-cpu-{size}", cost["first"], "cpu-s")
        yield row(f"refit-cpu-{size}", cost["refit"], "cpu-s")
        yield row(f"rss-mib-{size}", cost["rss"], "MiB")
        yield row(f"page-p99-{size}", cost["page"], "cpu-s a scrape")
        yield row(f"state-save-cpu-{size}", cost["save"], "cpu-s")
        yield row(f"state-mib-{size}", cost["state"], "MiB on disk")
        if before is not None:
            for stage in (*_STAGES, "total"):
                grown = cost[stage] / before[stage] / (ports / before["ports"])
                yield row(f"{stage}-growth-{size}", grown, "cost a port, 1 = linear")
        before = cost


def profile(ports: int) -> None:
    """Where the CPU of a tick goes."""
    bench = Bench(ports)
    first = cProfile.Profile()
    print(first.runcall(bench.tick))
    pstats.Stats(first).sort_stats("tottime").print_stats(25)
    bench.learn()
    bench.fabric.incast()
    print(bench.tick(), bench.tick())
    later = cProfile.Profile()
    print(later.runcall(bench.tick))
    pstats.Stats(later).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    profile(int(sys.argv[1]))
