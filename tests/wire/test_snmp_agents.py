"""The simulated fabric's SNMP agents, read by other people's programs and by the collector."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner
from support.snmp_exporter import exporter
from support.snmp_targets import collector, credential, target
from support.snmpd import Snmpd

from fabricmon.cli.once import command as once
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.model.topology import Link, Node, PortFacts, PortId, Topology
from fabricmon.simulate.agents.snmp import SnmpAgents, V3User

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.wire

LEAVES, SPINES = ("leaf1", "leaf2"), ("spine1",)
PORTS = tuple(f"Ethernet{i}" for i in range(4))
COUNTERS = {
    "rx_bytes": (-1,), "tx_bytes": (-1,), "rx_packets": (-1,), "tx_packets": (-1,),
    "rx_discards": (-1,), "tx_discards": (-1,), "rx_pause_frames": (-1,), "tx_wait_ns": (-1,),
    "rx_pfc_frames": (0, 3), "tx_pfc_frames": (0, 3), "rx_pfc_ns": (3,), "tx_pfc_ns": (3,),
    "ecn_marked_packets": (3,), "queue_discards": (0, 3), "queue_tx_bytes": (0, 3),
}  # fmt: skip


def topology() -> Topology:
    """Two leaves with two hosts each, below one spine."""
    nodes = [Node(name, "switch") for name in (*LEAVES, *SPINES)]
    nodes += [Node(f"host{i}", "host") for i in range(4)]
    links = [
        Link(PortId(leaf, PORTS[i]), PortId(f"host{2 * n + i}", "mlx5_0/1"), 400e9)
        for n, leaf in enumerate(LEAVES)
        for i in range(2)
    ]
    links += [
        Link(PortId(leaf, PORTS[2]), PortId("spine1", PORTS[n]), 800e9)
        for n, leaf in enumerate(LEAVES)
    ]
    facts = [PortFacts(PortId(name, port), 400e9) for name in (*LEAVES, *SPINES) for port in PORTS]
    return Topology(tuple(nodes), tuple(links), tuple(facts))


def batch(seed: int) -> ReadingBatch:
    """Values of everything, large enough to show every width."""
    devices = [name for name in (*LEAVES, *SPINES) for _ in PORTS]
    ports = PortSet(tuple(devices), PORTS * 3)
    columns = tuple(Column(BY_ID[c], q) for c, queues in COUNTERS.items() for q in queues)
    values = np.random.default_rng(seed).integers(0, 1 << 50, (len(columns), 12), np.uint64)
    values -= values % np.uint64(1_000_000)  # whole milliseconds survive the agents' units
    gauges = (Column(BY_ID["oper_up"]),)
    up = np.ones((1, 12))
    up[0, 3] = 0
    return ReadingBatch(
        "fabric", ports, columns, values, np.zeros(values.shape, np.uint8),
        np.zeros(12, np.int64), gauges, up,
    )  # fmt: skip


def assert_same(read: ReadingBatch, sent: ReadingBatch, has: Sequence[str]) -> None:
    """What was read is what was sent, in catalogue units and at the source's width."""
    found = {(c.counter.id, c.queue): k for k, c in enumerate(read.columns)}
    assert {counter for counter, _ in found} >= set(has)
    rows = [
        i
        for i, place in enumerate(zip(sent.ports.device, sent.ports.port, strict=True))
        if place[0] == read.ports.device[0]
    ]
    for k, column in enumerate(sent.columns):
        if column.counter.id not in has:
            continue
        own = read.columns[found[column.counter.id, column.queue]]
        row = found[column.counter.id, column.queue]
        assert (read.state[row] == State.OK).all()
        mask = np.uint64(min((1 << own.bits) - 1, 2**64 - 1))
        expected = (sent.values[k, rows] // np.uint64(own.scale)) & mask
        assert (read.values[row] == expected).all(), column.counter.id


@pytest.mark.parametrize(
    ("flavour", "has"),
    [
        ("sonic", ["rx_bytes", "rx_packets", "rx_pfc_frames", "tx_pfc_frames", "queue_discards"]),
        ("nxos", ["tx_bytes", "tx_packets", "rx_pfc_frames", "queue_discards", "queue_tx_bytes"]),
        ("arista", ["rx_bytes", "tx_pfc_frames", "queue_discards", "ecn_marked_packets"]),
        ("onyx", ["tx_wait_ns", "rx_pfc_ns", "tx_pfc_ns", "rx_pfc_frames", "rx_pause_frames"]),
        ("cumulus", ["rx_pfc_frames", "tx_pfc_frames", "rx_pause_frames", "tx_discards"]),
    ],
)
async def test_the_collector_reads_what_the_fabric_counts(
    tmp_path: Path, flavour: str, has: list[str]
) -> None:
    """Each flavour is recognised as itself, and new values are read after an update."""
    agents = SnmpAgents(topology(), flavour=flavour)
    sent = batch(1)
    addresses = await agents.start([sent])
    try:
        how = credential(tmp_path, {"community": "public"})
        targets = [target(address, how, name) for name, address in addresses.items()]
        async with collector(*targets) as snmp:
            for each in targets:
                assert_same((await snmp.poll(each)).batches[0], sent, has)
                assert snmp.mapping(each) == flavour
            moved = batch(2)
            agents.update([moved])
            for each in targets:
                poll = await snmp.poll(each)
                assert poll.lost == {}
                assert_same(poll.batches[0], moved, has)
            first = poll.batches[0]
            assert first.gauge_columns[0].counter.id == "oper_up"
    finally:
        await agents.stop()


async def test_the_fabric_is_found_by_lldp(tmp_path: Path) -> None:
    """Discovery over all switches gives every cable, hosts included, with its speed."""
    agents = SnmpAgents(topology(), flavour="nxos", processes=2)
    addresses = await agents.start([batch(1)])
    try:
        how = credential(tmp_path, {"community": "public"})
        targets = [target(address, how, f"t-{name}") for name, address in addresses.items()]
        async with collector(*targets) as snmp:
            await asyncio.gather(*map(snmp.poll, targets))
            found = Topology()
            for each in targets:
                seen = await snmp.discover(each)
                assert seen is not None
                found = found.merged(seen)
    finally:
        await agents.stop()
    ends = {frozenset((link.a, link.b)) for link in found.links}
    assert ends == {frozenset((link.a, link.b)) for link in topology().links}
    kinds = {node.name: node.kind for node in found.nodes}
    assert kinds == {node.name: node.kind for node in topology().nodes}
    assert {facts.speed_bps for facts in found.ports} == {400e9}


async def test_snmpbulkwalk_and_the_exporter_read_the_agents(tmp_path: Path) -> None:
    """Unmodified Net-SNMP and Prometheus programs read the same numbers, and they move."""
    agents = SnmpAgents(topology(), flavour="sonic")
    sent = batch(1)
    addresses = await agents.start([sent])
    try:
        address = addresses["leaf1"]
        walker = Snmpd(int(address.rpartition(":")[2]), None)  # type: ignore[arg-type]
        options = ("-v2c", "-c", "public")
        column = "1.3.6.1.2.1.31.1.1.1.6"
        walk = await asyncio.to_thread(walker.bulkwalk, column, *options)
        assert [int(value) for value in walk.values()] == sent.values[0, :4].tolist()
        names = await asyncio.to_thread(walker.bulkwalk, "1.0.8802.1.1.2.1.4.1.1.9", *options)
        assert [name.strip('"') for name in names.values()] == ["host0", "host1", "spine1"]
        whole = await asyncio.to_thread(walker.bulkwalk, "1.3.6.1", *options)
        assert len(whole) > 100
        counters = ("rx_bytes", "rx_pfc_frames")
        with exporter(tmp_path, "sonic", counters, "public") as peer:
            samples = await asyncio.to_thread(peer.scrape, address)
            pfc = next(k for k, c in enumerate(sent.columns) if c.counter.id == "rx_pfc_frames")
            assert samples['rx_pfc_frames{port="1",queue="0"}'] == float(sent.values[pfc, 0])
            agents.update([batch(2)])
            moved = await asyncio.to_thread(peer.scrape, address)
            assert moved['rx_bytes{port="1"}'] == float(batch(2).values[0, 0])
    finally:
        await agents.stop()


@pytest.mark.parametrize(("auth", "priv"), [("sha256", "aes128"), ("sha1", "aes256c")])
async def test_version_3_is_served_to_the_collector_and_to_net_snmp(
    tmp_path: Path, auth: str, priv: str
) -> None:
    """Net-SNMP and both ways of the collector read the same values over authPriv."""
    user = V3User("joe", auth, "auth-key-of-joe", priv, "priv-key-of-joe")
    agents = SnmpAgents(topology(), flavour="sonic", user=user)
    sent = batch(1)
    addresses = await agents.start([sent])
    keys = {"auth_key": user.auth_key, "priv_key": user.priv_key}
    try:
        for engine in ("fast", "pysnmp"):
            how = credential(tmp_path, keys, user="joe", auth=auth, priv=priv, engine=engine)
            here = target(addresses["leaf1"], how)
            async with collector(here) as snmp:
                assert_same((await snmp.poll(here)).batches[0], sent, ["rx_bytes", "rx_pfc_frames"])
        walker = Snmpd(int(addresses["leaf1"].rpartition(":")[2]), None)  # type: ignore[arg-type]
        options = (
            "-v3", "-l", "authPriv", "-u", "joe", "-a", {"sha256": "SHA-256", "sha1": "SHA"}[auth],
            "-A", user.auth_key, "-x", {"aes128": "AES", "aes256c": "AES-256-C"}[priv],
            "-X", user.priv_key,
        )  # fmt: skip
        walk = await asyncio.to_thread(walker.bulkwalk, "1.3.6.1.2.1.31.1.1.1.6", *options)
        assert [int(value) for value in walk.values()] == sent.values[0, :4].tolist()
    finally:
        await agents.stop()


async def test_once_says_what_a_device_lacks(tmp_path: Path) -> None:
    """Of two switches only the wanted one is polled; what its kind counts and it does not is named.

    Text has one line for each such counter, JSON a row for each port, without a value.
    """
    agents = SnmpAgents(topology(), flavour="nxos")
    addresses = await agents.start([batch(1)])
    (tmp_path / "community").write_text("public", encoding="utf-8")
    config = tmp_path / "c.yaml"
    config.write_text(
        "fabrics: [{name: f}]\n"
        f"credentials: {{ro: {{community: {{file: {tmp_path}/community}}}}}}\n"
        "targets:\n"
        f"- {{collector: snmp, name: t-leaf1, address: '{addresses['leaf1']}', credential: ro}}\n"
        f"- {{collector: snmp, name: t-leaf2, address: '{addresses['leaf2']}', credential: ro}}\n",
        encoding="utf-8",
    )
    asked = ["-c", str(config), "--target", "t-leaf2"]
    try:
        text = await asyncio.to_thread(CliRunner().invoke, once, asked)
        rows = await asyncio.to_thread(CliRunner().invoke, once, [*asked, "-o", "json"])
    finally:
        await agents.stop()
    assert (text.exit_code, rows.exit_code) == (0, 0), text.output + rows.output
    assert "  lacks pfc_watchdog_storms: the device does not answer for it\n" in text.stdout
    assert "lacks rx_pfc_frames" not in text.stdout
    assert "leaf1" not in text.stdout
    lacking = [row for row in json.loads(rows.stdout) if row["counter"] == "pfc_watchdog_storms"]
    assert [(row["device"], row["port"]) for row in lacking] == [("leaf2", port) for port in PORTS]
    assert {(row["value"], row["state"]) for row in lacking} == {(None, "unsupported")}


async def test_latency_and_loss_are_added(tmp_path: Path) -> None:
    """Slow and lossy agents are still read whole, only later."""
    agents = SnmpAgents(topology(), flavour="nxos", latency_s=0.05, loss=0.1)
    addresses = await agents.start([batch(1)])
    try:
        how = credential(tmp_path, {"community": "public"})
        here = target(addresses["leaf1"], how)
        async with collector(here, timeout=0.5, retries=8) as snmp:
            begun = snmp._context.clock.monotonic()
            poll = await snmp.poll(here)
            assert snmp._context.clock.monotonic() - begun > 0.1
            assert_same(poll.batches[0], batch(1), ["rx_bytes", "rx_pfc_frames"])
    finally:
        await agents.stop()


async def test_the_agents_leave_nothing_behind() -> None:
    """Stopped twice, or never started: no process, no file."""
    agents = SnmpAgents(topology())
    await agents.stop()
    await agents.start([batch(1)])
    folder = agents._folder.name  # type: ignore[union-attr]
    assert os.path.exists(folder)  # noqa: ASYNC240, PTH110 - a look at a local folder
    await agents.stop()
    await agents.stop()
    assert not os.path.exists(folder)  # noqa: ASYNC240, PTH110 - as above
