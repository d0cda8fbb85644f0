"""InfiniBand: datagrams a second, and what one costs beside the tools that people run today.

Product and peers take turns and read the same attribute groups of the same ports (PortCounters and
PortCountersExtended); a datagram is what leaves the client. Each figure is the best of the rounds,
wall and client CPU (with all children) side by side, for

* `libibumad`: as on a real port, through the C library and ibsim's shim, like the peers;
* `datagrams`: without the shim, many in one system call, as the daemon reads a simulated subnet.

Three subnets: real `ibsim` with `opensm` (2,240 switch ports), which answers at once and one by
one, so that what it needs for an answer bounds the wall (told in a row of its own); our own server
without latency; and with a millisecond of it, which a client that waits for each answer pays in
full. Last, 100,000 ports.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _figures import row
from support import ibsim, require

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.formats.infiniband.ibfabric import IbFabric
from fabricmon.selfmon import Reporter
from fabricmon.simulate.agents.ibsim import IbsimAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.model.readings import Poll

_TARGET = Target("pod", "subnet", "")
_ROUNDS = 5
_LEAVES, _HOSTS, _SPINES = 32, 16, 24
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_SWEEP = "ibqueryerrors"
_SINGLE = "perfquery per switch"


@dataclass
class Cost:
    """Wall and CPU seconds, and datagrams, of each round; ports read in each."""

    ports: int = 0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    mads: list[int] = field(default_factory=list)

    @property
    def per_port(self) -> float:
        """Wall microseconds a port."""
        return min(self.wall) / self.ports * 1e6

    def per_mad(self, times: list[float]) -> float:
        """Microseconds a datagram."""
        return min(t / m * 1e6 for t, m in zip(times, self.mads, strict=True))


@contextmanager
def _collector(environment: dict[str, str], prefix: list[str]) -> Iterator[InfinibandCollector]:
    clock = SystemClock()
    # Sweeps only where they are asked for.
    settings = InfinibandCollector.Config(
        read="native", command_prefix=prefix, environment=environment, rediscover=3600, timeout=2
    )
    made = InfinibandCollector(settings, [_TARGET], Context(clock, Reporter(clock)))
    try:
        yield made
    finally:
        asyncio.run(made.stop())


def _cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def _cpu(collector: InfinibandCollector) -> float:
    """CPU seconds of this process and its datagram worker."""
    way: Any = collector._ways.get(_TARGET.name)
    started = way is not None and way._pump._process is not None
    return time.process_time() + (_cpu_of(way._pump._process.pid) if started else 0.0)


def _poll(collector: InfinibandCollector, into: Cost | None = None) -> Poll:
    cpu, begun = _cpu(collector), time.perf_counter()
    poll = asyncio.run(_one(collector))
    wall = time.perf_counter() - begun
    if into is not None:
        into.wall.append(wall)
        into.cpu.append(_cpu(collector) - cpu)
        way: Any = collector._ways[_TARGET.name]
        into.mads.append(len(way._counters._plan.requests.mads))
        into.ports = sum(len(batch.ports) for batch in poll.batches)
    assert not poll.lost, poll.lost
    return poll


async def _one(collector: InfinibandCollector) -> Poll:
    way: Any = collector._ways.get(_TARGET.name)
    if way is not None:
        way.lock = asyncio.Lock()  # each poll of the benchmark is a loop of its own
    return await collector.poll(_TARGET)


def _sent(collector: InfinibandCollector) -> int:
    """Packets that left the client's port so far."""
    (batch,) = _poll(collector).batches
    port = (ibsim.host_name(0, 0).split()[0], "mlx5_0/1")
    row = list(zip(batch.ports.device, batch.ports.port, strict=True)).index(port)
    k = next(i for i, c in enumerate(batch.columns) if c.counter.id == "tx_packets")
    return int(batch.values[k, row])


def _tool(environment: dict[str, str], *commands: tuple[str, ...]) -> tuple[float, float]:
    """Wall and CPU seconds of tools run one after the other inside the subnet."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        for command in commands:
            done = subprocess.run(
                [require("ibsim-run"), require(command[0]), *command[1:]],
                cwd=scratch,
                env={**os.environ, **environment},
                timeout=120,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode in {0, 1}, done.stdout[-300:] + done.stderr[-300:]
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _peers(lid: int) -> dict[str, tuple[tuple[str, ...], ...]]:
    """What people run for both attribute groups: of the whole subnet, and of one switch."""
    one = (str(lid), "1-40")
    return {
        _SWEEP: (("ibqueryerrors", "--skip-sl"),),
        _SINGLE: (("perfquery", "-x", *one), ("perfquery", *one)),
    }


def _turns(
    where: str,
    environment: dict[str, str],
    collectors: dict[str, InfinibandCollector],
    sent: Callable[[], int],
    server: int,
) -> Iterator[dict[str, object]]:
    """Product and peers, round by round, with what the server's own process needs beside them."""
    products = {name: Cost() for name in collectors}
    peers = {_SWEEP: Cost(), _SINGLE: Cost()}
    serving: list[float] = []
    first = next(iter(collectors.values()))
    for collector in collectors.values():
        _poll(collector)
    way: Any = first._ways[_TARGET.name]
    lid = way.known.fabric.nodes[ibsim.leaf_guid(0)].lid
    overhead = -sent() + sent()  # datagrams that counting takes
    for _ in range(_ROUNDS):
        for name, collector in collectors.items():
            before = _cpu_of(server)
            _poll(collector, products[name])
            serving.append((_cpu_of(server) - before) / products[name].mads[-1] * 1e6)
        for name, commands in _peers(lid).items():
            before_it = sent()
            wall, cpu = _tool(environment, *commands)
            peers[name].wall.append(wall)
            peers[name].cpu.append(cpu)
            peers[name].mads.append(sent() - before_it - overhead)
            peers[name].ports = 40 if name == _SINGLE else products[next(iter(products))].ports
    ports = next(iter(products.values())).ports
    yield row(f"{where}: ports read a poll", ports, "ports")
    yield row(f"{where}: the server's own CPU per datagram", min(serving), "µs")
    for name, cost in products.items():
        yield from _compared(f"{where}, {name}", cost, peers)


def _compared(where: str, product: Cost, peers: dict[str, Cost]) -> Iterator[dict[str, object]]:
    rate = max(m / t for m, t in zip(product.mads, product.wall, strict=True))
    yield row(f"{where}: datagrams a second", rate, "MAD/s")
    for name, cost in peers.items():
        yield row(f"{where}: wall per port", product.per_port, "µs", name, cost.per_port)
        for what, own, other in (
            ("wall", product.wall, cost.wall),
            ("client CPU", product.cpu, cost.cpu),
        ):
            metric = f"{where}: {what} per datagram"
            yield row(metric, product.per_mad(own), "µs", name, cost.per_mad(other))


@contextmanager
def _both(environment: dict[str, str]) -> Iterator[dict[str, InfinibandCollector]]:
    """The product through the shim, as a real port is used, and without it."""
    with (
        _collector(environment, [require("ibsim-run")]) as shim,
        _collector(environment, []) as own,
    ):
        yield {"libibumad": shim, "datagrams": own}


def _against_ibsim() -> Iterator[dict[str, object]]:
    """Real ibsim: the client's own port counts the datagrams it sends."""
    net = ibsim.net_text(_LEAVES, _HOSTS, _SPINES)
    host = f"H-{ibsim.host_guid(0, 0):016x}"
    yield row("ibsim: switch ports", (_LEAVES + _SPINES) * 40, "ports")
    with (
        tempfile.TemporaryDirectory() as scratch,
        ibsim.subnet(net, Path(scratch), host) as world,
        _both(world.environment) as collectors,
    ):
        counting = collectors["libibumad"]
        yield from _turns(
            "ibsim", world.environment, collectors, lambda: _sent(counting), world.server
        )


def _tree(switches: int, ports: int) -> IbFabric:
    """Switches in a tree and one host to ask from; every port counts, linked or not."""
    fabric = IbFabric()
    guids = [ibsim.leaf_guid(i) for i in range(switches)]
    for i, guid in enumerate(guids):
        node = fabric.node(guid, "switch")
        node.description, node.port_count, node.device_id = f"switch-{i}", ports, 0xD2F2
    waiting = iter(guids[1:])
    for guid in guids:
        for port, below in zip(range(2, ports + 1), waiting, strict=False):
            fabric.connect((guid, port), (below, 1))
    host = fabric.node(ibsim.host_guid(0, 0), "host")
    host.description, host.port_count = ibsim.host_name(0, 0), 1
    fabric.connect((host.guid, 1), (guids[0], 1))
    for node in fabric.nodes.values():
        for port in node.ports.values():
            port.width, port.speed = "4x", "NDR"
    fabric.give_lids()
    return fabric


def _against_own(latency_s: float) -> Iterator[dict[str, object]]:
    """Our own server: every answer takes as long as it may on a real subnet."""
    where = f"own server, {latency_s * 1e3:g} ms latency"
    with (
        IbsimAgent(_tree(56, 40), wide=False) as agent,
        _both(agent.environment) as collectors,
    ):
        agent.set_wire(latency_s, timeout_s=2.0)
        yield from _turns(where, agent.environment, collectors, lambda: agent.received, agent.pid)


def _whole_site(switches: int = 2500) -> Iterator[dict[str, object]]:
    """Our own server with 100,000 ports, 64-bit counters in one attribute."""
    where, cost = "own server, 100,000 ports", Cost()
    with IbsimAgent(_tree(switches, 40)) as agent, _collector(agent.environment, []) as collector:
        _poll(collector)
        for _ in range(3):
            poll = _poll(collector, cost)
    yield row(f"{where}: ports read a poll", sum(len(b.ports) for b in poll.batches), "ports")
    yield row(f"{where}: wall of a poll", min(cost.wall), "s")
    yield row(f"{where}: client CPU of a poll", min(cost.cpu), "s")
    yield from _compared(where, cost, {})


def run() -> Iterator[dict[str, object]]:
    """Every row."""
    yield from _against_ibsim()
    yield from _against_own(0.0)
    yield from _against_own(0.001)
    yield from _whole_site()
