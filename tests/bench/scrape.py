"""How long a scrape of a million samples takes over HTTP, gzipped, while ticks run.

The real web server and exporter stand on the real pipeline of 100,000 ports, which ticks every ten
seconds in a thread; another process scrapes all the time, so that some scrapes meet a tick and the
first one after it pays for the rendering. Peer: `prometheus_client`'s own server in a process of
its own, with as many samples that never change, scraped by the same client in the same run.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from _figures import row
from exposition import Peer
from prometheus_client import CollectorRegistry, start_http_server
from support.snapshots import make_frame
from tick import Bench

from fabricmon.api import Context
from fabricmon.clock import SystemClock
from fabricmon.selfmon import Reporter, keep_compact
from fabricmon.web.config import WebConfig
from fabricmon.web.server import WebServer
from fabricmon.web.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

_PORTS = 10_000 if os.environ.get("QUICK") else 100_000
_TICKS, _INTERVAL_S = 4, 10.0
_PAUSE_S = 0.2
_PEER_SCRAPES = 3
_COLUMNS = ("rx_bytes", "tx_bytes", "tx_wait_ticks", "tx_discards", "rx_errors", "rx_discards")
_MORE = ("tx_errors", "rx_packets", "tx_packets")


def _scrape(port: int) -> tuple[float, int]:
    """Seconds and octets of one scrape."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        size = len(answer.read())
    finally:
        connection.close()
    assert (answer.status, answer.headers["Content-Encoding"]) == (200, "gzip")
    return time.monotonic() - begun, size


def _client(port: int) -> None:
    """Scrape until killed; print what each took."""
    while True:
        print(json.dumps(_scrape(port)), flush=True)
        time.sleep(_PAUSE_S)


def _peer() -> None:
    """Serve until killed; print the port and how many samples there are."""
    names = [(f"leaf{i // 64:04d}", f"Ethernet{i % 64 + 1}/1") for i in range(_PORTS)]
    frame = make_frame(_PORTS, counters=(*_COLUMNS, *_MORE), queue_counters=(), queues=())
    registry, peer = CollectorRegistry(), Peer(names, frame)
    registry.register(peer)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    print(json.dumps((server.server_port, peer.samples)), flush=True)
    thread.join()


@contextmanager
def _beside(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """This file as a process of its own."""
    command = [sys.executable, __file__, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _peer_seconds() -> tuple[list[float], int]:
    """What scrapes of the peer took, and its samples."""
    with _beside("peer") as process:
        assert process.stdout is not None
        port, samples = json.loads(process.stdout.readline())
        return [_scrape(port)[0] for _ in range(_PEER_SCRAPES)], samples


async def _scraped(bench: Bench) -> list[tuple[float, int]]:
    """What scrapes of the real server took while it ticked."""
    clock = SystemClock()
    state = Shown(bench.pipeline.window)
    context = Context(clock, Reporter(clock))
    config = WebConfig(listen_address="127.0.0.1:0")
    server = WebServer(config, context, state, bench.exporter)
    await server.start()
    try:
        with _beside("client", str(server.port)) as client:
            for _ in range(_TICKS):
                begun = time.monotonic()
                snapshot = await asyncio.to_thread(bench.publish)
                state.see(snapshot)
                await asyncio.to_thread(server.publish, snapshot)
                await asyncio.sleep(max(0.0, begun + _INTERVAL_S - time.monotonic()))
            client.kill()
            lines, _ = client.communicate()
    finally:
        await server.stop()
    return [tuple(json.loads(line)) for line in lines.splitlines()]


def run() -> Iterator[dict[str, Any]]:
    """Rows for `run.py`."""
    keep_compact()
    bench = Bench(_PORTS)
    bench.learn()
    bench.publish()
    samples = bench.exporter.page({}, openmetrics=False).body.count(b"\nfabricmon_")
    ours = asyncio.run(_scraped(bench))
    theirs, their_samples = _peer_seconds()
    times = np.array([seconds for seconds, _ in ours])
    scale = samples / their_samples
    yield row(f"samples-{_PORTS}", samples, "samples on the page")
    yield row(f"scrapes-{_PORTS}", len(times), "scrapes")
    yield row(f"gzipped-{_PORTS}", ours[-1][1] / 2**20, "MiB on the wire")
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        mine, other = float(np.quantile(times, share)), float(np.quantile(theirs, share)) * scale
        yield row(f"{name}-{_PORTS}", mine, "s a scrape", "prometheus_client", other)


if __name__ == "__main__":
    if sys.argv[1] == "client":
        _client(int(sys.argv[2]))
    _peer()
