"""Our own server of ibsim's protocol: unmodified tools and our collector read it alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import require, samples
from support.ibsim_agent import PORTS, TARGET, client, expected, good, make, reading, topology

from fabricmon.formats.infiniband.tools import ibnetdiscover, ibqueryerrors, perfquery
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.simulate.agents.ibsim import IbsimAgent

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.formats.infiniband.ibfabric import IbFabric

pytestmark = pytest.mark.wire


def test_unmodified_tools_read_the_served_fabric(served: IbsimAgent, tmp_path: Path) -> None:
    """ibnetdiscover, perfquery and ibqueryerrors see the nodes, cables and 64-bit counters."""
    fed = reading(1, narrow=True)
    served.update([fed])
    bad: list[object] = []
    net = ibnetdiscover.read(
        client(served, tmp_path, "ibnetdiscover").splitlines(), bad.append, "net"
    )
    assert bad == []
    assert Counter(node.kind for node in net.nodes.values()) == {"host": 9, "switch": 4}
    leaf = next(node for node in net.nodes.values() if node.description == "leaf-1")
    text = client(served, tmp_path, "perfquery", "-x", str(leaf.lid), "1-4")
    blocks = {b.port: b.values for b in perfquery.read(text.splitlines(), bad.append)}
    want = expected(fed)
    for port in (1, 2, 3, 4):
        words = blocks[port]["PortXmitData"]
        assert words is not None
        assert words * 4 == want["leaf-1", str(port), "tx_bytes"]
    text = client(served, tmp_path, "perfquery", str(leaf.lid), "1-4")
    waits = {
        b.port: b.values["PortXmitWait"] for b in perfquery.read(text.splitlines(), bad.append)
    }
    assert waits == {p: want["leaf-1", str(p), "tx_wait_ticks"] for p in (1, 2, 3, 4)}
    sweep = client(served, tmp_path, "ibqueryerrors", "--skip-sl", "--counters")
    told = list(ibqueryerrors.read(sweep.splitlines(), bad.append))
    assert bad == []
    words_of = {(b.guid, b.port): b.values.get("PortRcvData") for b in told}
    received = words_of[leaf.guid, 2]
    assert received is not None
    assert received * 4 == want["leaf-1", "2", "rx_bytes"]
    # With its own look-up of service levels, which asks subnet administration for paths.
    assert "## Summary: 13 nodes checked" in client(served, tmp_path, "ibqueryerrors")


@pytest.mark.parametrize("latency", [0.0, 0.001])
async def test_our_datagrams_read_every_port_exactly(served: IbsimAgent, latency: float) -> None:
    """Counters move between polls and arrive exactly, with and without latency on the wire."""
    served.set_wire(latency)
    collector, _ = make(served, groups=["PortXmitDiscardDetails"])
    try:
        for seed in (1, 2):
            fed = reading(seed)
            served.update([fed])
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


async def test_libibumad_reads_the_same_as_our_own_client(served: IbsimAgent) -> None:
    """Through the C library and ibsim's shim, which cuts datagrams short, nothing differs."""
    fed = reading(2, narrow=True)
    served.update([fed])
    collector, _ = make(served, shim=True)
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
    served: IbsimAgent,
) -> None:
    """Waits by VL come as queues; congestion counters, which nobody has here, cost one poll."""
    served.update([reading(2)])
    collector, _ = make(served, groups=["PortVLXmitWaitCounters", "PortRcvConCtrl"])
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
