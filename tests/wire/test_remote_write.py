"""Remote write against the receivers people run: Prometheus and VictoriaMetrics."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.parse
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support import require
from support.promserver import free_port
from support.selfmon import metric
from support.servers import fetch, running
from support.snapshots import make_frame, make_snapshot, make_table

from fabricmon.clock import SystemClock
from fabricmon_exporters.remote_write import RemoteWriteConfig, RemoteWriteExporter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = pytest.mark.wire
PORTS = [("leaf1", f"Ethernet{i}") for i in range(40)] + [('od"d\\name', "swp1\nx")]


@contextmanager
def prometheus(folder: Path) -> Iterator[tuple[str, str]]:
    """A real Prometheus that takes remote write: (write URL, query URL)."""
    url = f"http://127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    command = [
        require("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--web.enable-remote-write-receiver",
        "--log.level=warn",
    ]
    with running(command, f"{url}/-/ready", folder / "log"):
        yield f"{url}/api/v1/write", f"{url}/api/v1/query"


@contextmanager
def victoria(folder: Path) -> Iterator[tuple[str, str]]:
    """A real VictoriaMetrics: (write URL, query URL)."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        require("victoria-metrics"),
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr={url.removeprefix('http://')}",
        "-search.latencyOffset=0s",
        "-memory.allowedBytes=64MB",
        "-loggerLevel=ERROR",
    ]
    with running(command, f"{url}/health", folder / "log"):
        yield f"{url}/api/v1/write", f"{url}/api/v1/query"


@pytest.mark.parametrize("receiver", [prometheus, victoria])
async def test_values_arrive_exactly_and_ended_series_are_gone(
    receiver: Any, tmp_path: Path, context: Context
) -> None:
    """Every counter of every port reads back equal, odd names included; a gone port is stale."""
    table = make_table(PORTS)
    # Receivers refuse what is far from their own clock, so these ticks are of now.
    now_ns = SystemClock().now_ns() // 1_000_000_000 * 1_000_000_000
    frame = make_frame(len(PORTS), time_ns=now_ns - 10_000_000_000)
    frame.total[:, 0] = (1 << 53) - 1
    second = make_frame(len(PORTS), time_ns=now_ns, step=5)
    present = [True] * len(PORTS)
    present[1] = False
    with receiver(tmp_path) as (write, query):
        config = RemoteWriteConfig(url=write, path=tmp_path / "queue")
        exporter = RemoteWriteExporter(config, context)
        await exporter.start()
        await asyncio.to_thread(exporter.publish, make_snapshot(table, frame))
        await asyncio.to_thread(
            exporter.publish, make_snapshot(table, second, tick=2, present=present)
        )
        for _ in range(1200):
            if not list((tmp_path / "queue").iterdir()):
                break
            await asyncio.sleep(0.05)
        await exporter.stop()

        def at(seconds: int) -> dict[tuple[str, str], float]:
            asked = {"query": "fabricmon_port_receive_bytes_total", "time": str(seconds)}
            answer = json.loads(fetch(f"{query}?{urllib.parse.urlencode(asked)}"))
            return {
                (row["metric"]["device"], row["metric"]["port"]): float(row["value"][1])
                for row in answer["data"]["result"]
            }

        found = await asyncio.to_thread(_eventually, lambda: at(now_ns // 10**9 - 5), len(PORTS))
        k = [counter.id for counter in frame.counters].index("rx_bytes")
        assert found == dict(zip(PORTS, frame.total[k].astype(float).tolist(), strict=True))
        later = await asyncio.to_thread(lambda: at(now_ns // 10**9))
        assert set(later) == set(PORTS) - {PORTS[1]}
    own = {"exporter": "remote_write", "outcome": "refused"}
    assert metric(context, "fabricmon_export_samples_total", **own) == 0


def _eventually(ask: Any, size: int) -> Any:
    """What is asked, once it has that many entries: receivers index a little later."""
    for _ in range(600):
        found = ask()
        if len(found) >= size:
            return found
        time.sleep(0.1)
    return found
