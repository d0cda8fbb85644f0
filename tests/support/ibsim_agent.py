"""A served subnet of two leaves and two spines: what it counts, and who reads it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.topology import Link, Node, PortId, Technology, Topology
from fabricmon.selfmon import Reporter
from fabricmon.simulate.agents.ibsim import IbsimAgent
from support import require

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.model.readings import Poll

TARGET = Target("pod", "subnet", "")
COUNTERS = ("tx_bytes", "rx_bytes", "tx_wait_ticks", "tx_discards", "hoq_discards")


def topology() -> Topology:
    """Two leaves of four hosts each, two spines, one host with two adapters; NDR and XDR."""
    ib = Technology.INFINIBAND
    leaves, spines = ("leaf-1", "leaf-2"), ("spine-1", "spine-2")
    hosts = [f"gpu{i}" for i in range(8)]
    links = [
        Link(PortId(host, "mlx5_0/1"), PortId(leaves[i // 4], str(i % 4 + 1)), 400e9)
        for i, host in enumerate(hosts)
    ]
    links.append(Link(PortId("gpu0", "mlx5_1/1"), PortId("leaf-2", "9"), 400e9))
    links += [
        Link(PortId(leaf, str(s + 11)), PortId(spine, str(i + 1)), 800e9)
        for i, leaf in enumerate(leaves)
        for s, spine in enumerate(spines)
    ]
    nodes = [Node(name, "host", technology=ib) for name in hosts]
    nodes += [Node(name, "switch", technology=ib) for name in leaves + spines]
    return Topology(tuple(nodes), tuple(links))


PORTS = tuple(dict.fromkeys(end for link in topology().links for end in (link.a, link.b)))


def reading(seed: int, *, narrow: bool = False) -> ReadingBatch:
    """Random 48-bit counts of every port of the topology; `narrow`: waits and errors that fit."""
    ports = PortSet(tuple(p.device for p in PORTS), tuple(p.port for p in PORTS))
    values = np.random.default_rng(seed).integers(0, 1 << 48, (len(COUNTERS), len(ports)))
    values[:2] *= 4  # traffic is counted in words of four bytes
    values[4] %= 60_000  # 16 bits on the wire
    if narrow:
        values[2] %= 4_000_000_000
        values[3] %= 60_000
    return ReadingBatch(
        "sim",
        ports,
        tuple(Column(BY_ID[name], saturates=True) for name in COUNTERS),
        values.astype(np.uint64),
        np.zeros(values.shape, np.uint8),
        np.zeros(len(ports), np.int64),
    )


def client(agent: IbsimAgent, scratch: Path, *command: str) -> str:
    """What an unmodified tool prints."""
    done = subprocess.run(
        [require("ibsim-run"), require(command[0]), *command[1:]],
        cwd=scratch,
        env={**os.environ, **agent.environment},
        timeout=30,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def make(
    agent: IbsimAgent, *, shim: bool = False, **config: object
) -> tuple[InfinibandCollector, Context]:
    """A collector that works inside the served subnet, through libibumad where `shim`."""
    clock = SystemClock()
    context = Context(clock, Reporter(clock))
    options = {"read": "native", "rediscover": 0.001, "timeout": 0.3, **config}
    prefix = [require("ibsim-run")] if shim else []
    settings = InfinibandCollector.Config(
        command_prefix=prefix, environment=agent.environment, **options
    )
    return InfinibandCollector(settings, [TARGET], context), context


def good(poll: Poll) -> dict[tuple[str, str, str], int]:
    """{(device, port, counter): value in catalogue units}, good values only."""
    return {
        (device, port, column.counter.id): int(batch.values[k, i]) * column.scale
        for batch in poll.batches
        for k, column in enumerate(batch.columns)
        for i, (device, port) in enumerate(zip(batch.ports.device, batch.ports.port, strict=True))
        if batch.state[k, i] == 0
    }


def expected(batch: ReadingBatch, *, optional: bool = False) -> dict[tuple[str, str, str], int]:
    """The same of what was fed to the agent."""
    return {
        (device, port, column.counter.id): int(batch.values[k, i])
        for k, column in enumerate(batch.columns)
        for i, (device, port) in enumerate(zip(batch.ports.device, batch.ports.port, strict=True))
        if optional or column.counter.id != "hoq_discards"
    }
