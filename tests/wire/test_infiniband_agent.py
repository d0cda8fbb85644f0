"""Our own server of ibsim's protocol: unmodified tools and our collector read it alike."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import require, samples

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.formats import ibnetdiscover, ibqueryerrors, perfquery
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.model.topology import Link, Node, PortId, Technology, Topology
from fabricmon.selfmon import Event, Reporter
from fabricmon.simulate.agents.ibsim import IbsimAgent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fabricmon.formats.ibfabric import IbFabric
    from fabricmon.model.readings import Poll

pytestmark = pytest.mark.wire
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


@pytest.fixture
def agent() -> Iterator[IbsimAgent]:
    """The topology, served."""
    require("ibsim-run")
    with IbsimAgent(topology()) as running:
        yield running


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


def test_unmodified_tools_read_the_served_fabric(agent: IbsimAgent, tmp_path: Path) -> None:
    """ibnetdiscover, perfquery and ibqueryerrors see the nodes, cables and 64-bit counters."""
    fed = reading(1, narrow=True)
    agent.update([fed])
    bad: list[object] = []
    net = ibnetdiscover.read(
        client(agent, tmp_path, "ibnetdiscover").splitlines(), bad.append, "net"
    )
    assert bad == []
    assert Counter(node.kind for node in net.nodes.values()) == {"host": 9, "switch": 4}
    leaf = next(node for node in net.nodes.values() if node.description == "leaf-1")
    text = client(agent, tmp_path, "perfquery", "-x", str(leaf.lid), "1-4")
    blocks = {b.port: b.values for b in perfquery.read(text.splitlines(), bad.append)}
    want = expected(fed)
    for port in (1, 2, 3, 4):
        words = blocks[port]["PortXmitData"]
        assert words is not None
        assert words * 4 == want["leaf-1", str(port), "tx_bytes"]
    text = client(agent, tmp_path, "perfquery", str(leaf.lid), "1-4")
    waits = {
        b.port: b.values["PortXmitWait"] for b in perfquery.read(text.splitlines(), bad.append)
    }
    assert waits == {p: want["leaf-1", str(p), "tx_wait_ticks"] for p in (1, 2, 3, 4)}
    sweep = client(agent, tmp_path, "ibqueryerrors", "--skip-sl", "--counters")
    told = list(ibqueryerrors.read(sweep.splitlines(), bad.append))
    assert bad == []
    words_of = {(b.guid, b.port): b.values.get("PortRcvData") for b in told}
    received = words_of[leaf.guid, 2]
    assert received is not None
    assert received * 4 == want["leaf-1", "2", "rx_bytes"]
    # With its own look-up of service levels, which asks subnet administration for paths.
    assert "## Summary: 13 nodes checked" in client(agent, tmp_path, "ibqueryerrors")


@pytest.mark.parametrize("latency", [0.0, 0.001])
async def test_our_datagrams_read_every_port_exactly(agent: IbsimAgent, latency: float) -> None:
    """Counters move between polls and arrive exactly, with and without latency on the wire."""
    agent.set_wire(latency)
    collector, _ = make(agent, groups=["PortXmitDiscardDetails"])
    try:
        for seed in (1, 2):
            fed = reading(seed)
            agent.update([fed])
            poll = await collector.poll(TARGET)
            got = good(poll)
            assert poll.lost == {}
            want = expected(fed, optional=True)
            assert {key: got.get(key) for key in want} == want
        shape = await collector.discover(TARGET)
    finally:
        await collector.stop()
    assert shape is not None
    cables = {frozenset((link.a, link.b)): link.speed_bps for link in shape.links}
    assert cables == {frozenset((link.a, link.b)): link.speed_bps for link in topology().links}
    assert {p.tick_bytes for p in shape.ports} == {8.0}
    assert {p.rail for p in shape.ports if p.id.device == "gpu0"} == {"mlx5_0", "mlx5_1"}


async def test_libibumad_reads_the_same_as_our_own_client(agent: IbsimAgent) -> None:
    """Through the C library and ibsim's shim, which cuts datagrams short, nothing differs."""
    fed = reading(2, narrow=True)
    agent.update([fed])
    collector, _ = make(agent, shim=True)
    try:
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    got, want = good(poll), expected(fed)
    assert poll.lost == {}
    assert {key: got.get(key) for key in want} == want
    bits = {c.bits for b in poll.batches for c in b.columns if c.counter.id == "tx_wait_ticks"}
    assert bits == {32}


async def test_optional_groups_are_read_where_devices_have_them_and_not_asked_for_again(
    agent: IbsimAgent,
) -> None:
    """Waits by VL come as queues; congestion counters, which nobody has here, cost one poll."""
    agent.update([reading(2)])
    collector, _ = make(agent, groups=["PortVLXmitWaitCounters", "PortRcvConCtrl"])
    try:
        first = await collector.poll(TARGET)
        second = await collector.poll(TARGET)
    finally:
        await collector.stop()
    for poll, asked in ((first, True), (second, False)):
        assert poll.lost == {}
        (batch,) = poll.batches
        columns = {(c.counter.id, c.queue) for c in batch.columns}
        assert {("queue_tx_wait_ticks", vl) for vl in range(16)} <= columns
        assert (("ecn_marked_received", -1) in columns) is asked
    k = next(k for k, c in enumerate(first.batches[0].columns) if c.counter.id[:3] == "ecn")
    assert set(first.batches[0].state[k].tolist()) == {State.UNSUPPORTED}


OPTIONAL = {
    "hoq_discards": "PortXmitDiscardDetails",
    "rx_physical_errors": "PortRcvErrorDetails",
    "rx_malformed": "PortRcvErrorDetails",
    "rx_discards": "PortRcvErrorDetails",
    "fec_corrected": "PortExtendedSpeedsCounters",
    "fec_uncorrected": "PortExtendedSpeedsCounters",
    "ecn_marked_received": "PortRcvConCtrl",
    "cnp_handled": "PortRcvConCtrl",
    "tx_congested_ticks": "PortXmitConCtrl",
}


async def test_every_optional_group_is_read_exactly() -> None:
    """Discards and receive errors by cause, FEC, congestion control: each value as it was fed."""
    require("ibsim-run")
    ports = PortSet(tuple(p.device for p in PORTS), tuple(p.port for p in PORTS))
    values = np.random.default_rng(9).integers(1, 60_000, (len(OPTIONAL), len(ports)))
    columns = tuple(Column(BY_ID[name], saturates=True) for name in OPTIONAL)
    state, times = np.zeros(values.shape, np.uint8), np.zeros(len(ports), np.int64)
    fed = ReadingBatch("sim", ports, columns, values.astype(np.uint64), state, times)
    groups = sorted(set(OPTIONAL.values()))
    with IbsimAgent(topology(), groups=[g for g in groups if "Details" not in g]) as agent:
        agent.update([fed])
        collector, _ = make(agent, groups=groups)
        try:
            poll = await collector.poll(TARGET)
        finally:
            await collector.stop()
    got, want = good(poll), expected(fed, optional=True)
    assert {key: got.get(key) for key in want} == want


async def test_lost_datagrams_are_sent_again(agent: IbsimAgent) -> None:
    """One reply in twenty is lost, and still every port is read."""
    fed = reading(3)
    agent.update([fed])
    collector, _ = make(agent, retries=6)
    try:
        await collector.discover(TARGET)
        agent.set_wire(loss=0.05, timeout_s=0.01)
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    got, want = good(poll), expected(fed)
    assert {key: got.get(key) for key in want} == want


async def test_a_new_subnet_manager_and_new_names_change_no_identity(agent: IbsimAgent) -> None:
    """All LIDs move and a leaf is renamed: within two polls every port is back under its name."""
    fed = reading(4)
    agent.update([fed])
    collector, _ = make(agent)
    try:
        await collector.poll(TARGET)
        agent.rename(next(iter(agent.fabric.nodes)), "another name")
        agent.restart_manager(first_lid=7)
        between = good(await collector.poll(TARGET))
        after = await collector.poll(TARGET)
        shape = await collector.discover(TARGET)
    finally:
        await collector.stop()
    want = expected(fed)
    # While LIDs are in flux a value may be missing, but it is never somebody else's.
    assert {key: value for key, value in between.items() if key in want}.items() <= want.items()
    got = good(after)
    assert {key: got.get(key) for key in want} == want
    assert after.lost == {}
    assert shape is not None
    assert {node.name for node in shape.nodes} == {node.name for node in topology().nodes}


async def test_silent_nodes_are_counted_and_the_others_are_read(agent: IbsimAgent) -> None:
    """A spine that stops answering costs its own ports, and the poll says how many."""
    fed = reading(5)
    agent.update([fed])
    spine = next(g for g, n in agent.fabric.nodes.items() if n.description == "spine-1")
    collector, _ = make(agent, retries=0)
    try:
        await collector.poll(TARGET)
        agent.silence(spine)
        poll = await collector.poll(TARGET)
        await collector.poll(TARGET)
        later = await collector.poll(TARGET)
        shape = await collector.discover(TARGET)
    finally:
        await collector.stop()
    want = {key: v for key, v in expected(fed).items() if key[0] != "spine-1"}
    for result in (poll, later):
        got = good(result)
        assert {key: got.get(key) for key in want} == want
        assert sum(result.lost.values()) == agent.fabric.nodes[spine].port_count
    assert shape is not None
    assert "spine-1" in {node.name for node in shape.nodes}


async def test_a_cable_that_is_pulled_shows_as_down_on_both_ends(agent: IbsimAgent) -> None:
    """After the next sweep both ports of the cable are down, and all counters are still read."""
    agent.update([reading(6)])
    leaf = next(n for n in agent.fabric.nodes.values() if n.description == "leaf-1")
    collector, _ = make(agent)
    try:
        await collector.poll(TARGET)
        agent.cut(leaf.guid, 11)
        await collector.discover(TARGET)
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    (batch,) = poll.batches
    names = list(zip(batch.ports.device, batch.ports.port, strict=True))
    up = dict(zip(names, batch.gauges[0].tolist(), strict=True))
    assert up["leaf-1", "11"] == up["spine-1", "1"] == 0.0
    assert up["leaf-1", "12"] == 1.0
    assert poll.lost == {}


async def test_a_dead_worker_is_replaced(agent: IbsimAgent) -> None:
    """Killing the datagram worker costs at most one poll."""
    agent.update([reading(7)])
    collector, _ = make(agent)
    try:
        await collector.poll(TARGET)
        pump = collector._ways[TARGET.name]._pump  # type: ignore[attr-defined]
        pump._process.kill()
        pump._process.wait()
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    assert poll.lost == {}


async def test_without_libibumad_the_tools_are_used_and_it_says_why(
    agent: IbsimAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where datagrams of our own cannot be sent, perfquery is used and the event is reported."""
    broken = tmp_path / "worker.py"
    broken.write_text('print(\'{"reason": "permission", "message": "cannot open mlx5_0"}\')\n')
    monkeypatch.setattr("fabricmon.collectors.infiniband.native.pump.worker.__file__", str(broken))
    fed = reading(8, narrow=True)
    agent.update([fed])
    collector, context = make(agent, shim=True, read="auto")
    try:
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    got, want = good(poll), expected(fed)
    assert {key: got.get(key) for key in want} == want
    fallback = context.report.metrics.events.labels(Event.FALLBACK.label)
    assert fallback._value.get() == 1


async def test_the_gb200_fabric_is_discovered_and_polled() -> None:
    """40 switches and 582 adapters: every node, link, speed and port of the public dump."""
    require("ibsim-run")
    bad: list[object] = []
    path = samples("infiniband", "public", "topograph", "example.out")
    fabric: IbFabric = ibnetdiscover.read(path.read_text("latin-1").splitlines(), bad.append)
    cables = {
        frozenset(((node.guid, port.number), port.peer))
        for node in fabric.nodes.values()
        for port in node.ports.values()
    }
    with IbsimAgent(fabric) as agent:
        collector, _ = make(agent)
        try:
            shape = await collector.discover(TARGET)
            poll = await collector.poll(TARGET)
            known = collector._ways[TARGET.name].known
        finally:
            await collector.stop()
    assert shape is not None
    # Nodes of the dump that hang on nothing are not part of the subnet the server walks.
    linked = {guid for guid, node in fabric.nodes.items() if node.ports}
    assert set(known.fabric.nodes) == linked
    assert len(shape.links) == len(cables)
    assert {link.speed_bps for link in shape.links} == {400e9}
    assert poll.lost == {}
    switches = [node for node in fabric.nodes.values() if node.kind == "switch"]
    hosts = [node for node in fabric.nodes.values() if node.kind == "host"]
    ports = sum(node.port_count for node in switches) + sum(len(node.ports) for node in hosts)
    assert sum(len(batch.ports) for batch in poll.batches) == ports
