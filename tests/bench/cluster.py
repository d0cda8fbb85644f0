"""Three workers of a cluster and one daemon on the same fabric of 30,000 polled switch ports.

The simulated fabric answers SNMP from a process of its own; a host takes too little of its link
once both sides know what is usual. Both sides have to find the same incidents, or the benchmark
fails. Figures are CPU seconds a poll, polling included; peer is the one daemon. `PORTS=1000` makes
it small.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from support.cluster import SCENARIO, Cluster, NatsServer
from support.daemon import running
from support.snmp_load import cpu_of

from fabricmon.formats import interchange
from fabricmon.model.readings import ReadingBatch
from fabricmon.simulate.agents.snmp import SnmpAgents
from fabricmon.simulate.reading.reader import Reader
from fabricmon.simulate.run import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.daemon import RunningDaemon

PORTS = int(os.environ.get("PORTS", "30000"))
INTERVAL_S = float(os.environ.get("INTERVAL", "20"))
_HOSTS_TOO = 1.55
"""Ports of a fabric for each port of a switch."""
_CALM = 30
"""Polls before the fault: until every worker has its part, and both sides have a past."""
_MEASURED = 4
"""Polls over which CPU time is taken."""
_PATIENCE_S = 1200.0


async def _serve(folder: Path) -> None:
    """The fabric's switches, until killed."""
    scenario = folder / "scenario.yaml"
    scenario.write_text(SCENARIO.format(at=_CALM * INTERVAL_S))
    simulation = load(str(scenario), ports=round(PORTS * _HOSTS_TOO), poll=INTERVAL_S)
    reader = Reader(
        simulation.wiring,
        simulation.scenario.config.collector,
        simulation.seed,
        time.time_ns(),
    )

    def read(interval: Any) -> list[ReadingBatch]:
        return [item for item in reader.read(interval) if isinstance(item, ReadingBatch)]

    intervals = simulation.cycles()
    agents = SnmpAgents(simulation.topology, processes=2)
    addresses = await agents.start(read(next(intervals)))
    (folder / interchange.TOPOLOGY).write_bytes(interchange.write_topology(simulation.topology))
    groups = [{"targets": [a], "labels": {"name": name}} for name, a in addresses.items()]
    (folder / "snmp.json").write_text(json.dumps(groups))
    ends = [link.a for link in simulation.topology.links] + [
        link.b for link in simulation.topology.links
    ]
    print(sum(end.device in addresses for end in ends), flush=True)
    begun = time.monotonic()
    for polls, interval in enumerate(intervals, start=1):
        batches = read(interval)
        await asyncio.sleep(max(0.0, begun + polls * INTERVAL_S - time.monotonic()))
        await asyncio.to_thread(agents.update, batches)


@contextmanager
def _fabric(folder: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """The config that polls the switches, and how many ports they have."""
    command = [sys.executable, __file__, "serve", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        ports = int(process.stdout.readline())
        community = folder / "community"
        community.write_text("public\n")
        topology = {"from": ["file"], "file": str(folder / interchange.TOPOLOGY), "refresh": "5m"}
        yield (
            {
                "interval": f"{INTERVAL_S}s",
                "fabrics": [{"name": "sim", "technology": "roce", "topology": topology}],
                "credentials": {"ro": {"community": {"file": str(community)}}},
                "targets": [
                    {
                        "collector": "snmp",
                        "file_sd": [str(folder / "snmp.json")],
                        "credential": "ro",
                    }
                ],
            },
            ports,
        )
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def _found(daemon: RunningDaemon) -> set[tuple[str, str, str]]:
    """Kind, device and port of what a page shows."""
    found = map(dict, daemon.samples("fabricmon_incident_active", group="incidents"))
    return {(one["kind"], one["device"], one["port"]) for one in found}


def _rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def run() -> Iterator[dict[str, Any]]:
    """Rows for `run.py`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nats").mkdir()
        (folder / "alone").mkdir()
        server = NatsServer(folder / "nats")
        server.start()
        try:
            with _fabric(folder) as (base, ports):
                made = Cluster(folder, server, base)
                alone = {**base, "exporters": {"prometheus": {}}}
                with running(folder / "alone", json.dumps(alone)) as one:
                    yield from _compare(made, one, ports)
                made.close()
        finally:
            server.kill()


def _compare(made: Cluster, one: RunningDaemon, ports: int) -> Iterator[dict[str, Any]]:
    try:
        for worker in ("a", "b", "c"):
            made.start(worker, members=3, ttl=f"{INTERVAL_S}s", history="1h")
        made.wait(made.settled, _PATIENCE_S)
        kinds = lambda: {kind for kind, _, _ in _found(one)}  # noqa: E731
        made.wait(lambda: "slow-receiver" in kinds(), _PATIENCE_S)
        made.wait(lambda: _found(one) == set(made.incidents().values()), _PATIENCE_S)
        incidents = len(_found(one))
        pids = [worker.process.pid for worker in made.workers.values()]
        before = [cpu_of(pid) for pid in (one.process.pid, *pids)]
        time.sleep(_MEASURED * INTERVAL_S)
        after = [cpu_of(pid) for pid in (one.process.pid, *pids)]
        alone, *spent = [(b - a) / _MEASURED for a, b in zip(before, after, strict=True)]
        rows = [
            ("same-incidents", incidents, "incidents", incidents),
            ("busiest-worker-cpu", max(spent), "s/poll", alone),
            ("all-workers-cpu", sum(spent), "s/poll", alone),
            ("worker-rss", max(map(_rss_mib, pids)), "MiB", _rss_mib(one.process.pid)),
        ]
        for metric, value, unit, peer in rows:
            yield {
                "bench": "cluster",
                "metric": f"{metric}-{ports}",
                "value": round(value, 3),
                "unit": unit,
                "peer": "one daemon",
                "peer_value": round(peer, 3),
                "ratio": round(peer / value, 2),
            }
    finally:
        made.close()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[2])))
