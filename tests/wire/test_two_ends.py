"""One fault, seen by switches over the network and by hosts in sysfs at once, is one incident."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import pytest
from support.snmp_targets import credential, target

from fabricmon import app
from fabricmon.api import Context, Target
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.collectors.host import HostCollector, HostConfig
from fabricmon.collectors.snmp import SnmpCollector
from fabricmon.collectors.snmp.config import SnmpConfig
from fabricmon.model.incident import IncidentKind
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.model.topology import PortId, Topology
from fabricmon.selfmon import Reporter
from fabricmon.simulate import load
from fabricmon.simulate.agents.gnmi import GnmiFabric
from fabricmon.simulate.agents.host import HostTrees
from fabricmon.simulate.agents.snmp import SnmpAgents
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fabricmon.model.snapshot import Snapshot

pytestmark = pytest.mark.wire

FIRST, LAST = 112, 128
"""Ticks that are read: a few before the fault, and enough after it."""
SEEN_HOSTS = ("host9", "host5", "host1")


class Switches(Protocol):
    """The switches, served by a protocol, and the collector that reads them."""

    async def start(self, batches: list[ReadingBatch]) -> None:
        """Serve these readings, and connect."""

    async def read(self, batches: list[ReadingBatch]) -> list[ReadingBatch]:
        """Serve the next ones, and read them."""

    async def stop(self) -> None:
        """Close everything."""


class ByGnmi:
    """gNMI, Cumulus' paths."""

    def __init__(self, topology: Topology, context: Context, _folder: Path) -> None:
        """Nothing listens yet."""
        self._fabric = GnmiFabric(topology)
        self._context = context

    async def start(self, batches: list[ReadingBatch]) -> None:
        """Serve these readings, and connect."""
        addresses = await self._fabric.start()
        self._fabric.update(batches)
        self._targets = [
            Target("f", name, address, None, "cumulus", {"insecure": True})
            for name, address in addresses.items()
        ]
        config = GnmiConfig(interval=1.0, silence=1e6)
        self._collector = GnmiCollector(config, self._targets, self._context)
        await self._collector.start()

    async def read(self, batches: list[ReadingBatch]) -> list[ReadingBatch]:
        """Until every switch has sent what it was given."""
        self._fabric.update(batches)
        due = {b.ports.device[0]: int(b.time_ns.max()) for b in batches}
        found: list[ReadingBatch] = []
        for one in self._targets:
            newest = 0
            while newest < due[one.name]:
                for batch in (await self._collector.poll(one)).batches:
                    found.append(batch)
                    newest = max(newest, int(batch.time_ns.max()))
                await asyncio.sleep(0.005)
        return found

    async def stop(self) -> None:
        """Close everything."""
        await self._collector.stop()
        await self._fabric.stop()


class BySnmp:
    """SNMP, Onyx' tables."""

    def __init__(self, topology: Topology, context: Context, folder: Path) -> None:
        """Nothing listens yet."""
        self._agents = SnmpAgents(topology, flavour="onyx")
        self._context, self._folder = context, folder

    async def start(self, batches: list[ReadingBatch]) -> None:
        """Serve these readings."""
        addresses = await self._agents.start(batches)
        how = credential(self._folder, {"community": "public"})
        self._targets = [target(address, how, name) for name, address in addresses.items()]
        self._collector = SnmpCollector(SnmpConfig(), self._targets, self._context)
        await self._collector.start()

    async def read(self, batches: list[ReadingBatch]) -> list[ReadingBatch]:
        """One poll of each."""
        self._agents.update(batches)
        polls = [await self._collector.poll(one) for one in self._targets]
        return [batch for poll in polls for batch in poll.batches]

    async def stop(self) -> None:
        """Close everything."""
        await self._collector.stop()
        await self._agents.stop()


def ticks() -> Iterator[tuple[Topology, list[ReadingBatch], Tick]]:
    """The ticks that are read, with what is counted at each."""
    topology, batches, count = Topology(), [], 0
    for item in load("slow-receiver", seed=1).items():
        if isinstance(item, Topology):
            topology = item
        elif isinstance(item, ReadingBatch):
            batches.append(item)
        elif isinstance(item, Tick):
            count += 1
            if count >= FIRST:
                yield topology, batches, item
            batches = []
            if count == LAST:
                return


@pytest.mark.parametrize("how", [ByGnmi, BySnmp])
async def test_a_slow_receiver_seen_from_both_ends(
    how: type[ByGnmi | BySnmp], tmp_path: Path
) -> None:
    """The host that takes too little is named, once, and both ends of its link are known."""
    clock = ManualClock()
    context = Context(clock, Reporter(clock))
    pipeline = app.make_pipeline("f", context)
    switches: Switches | None = None
    snapshot: Snapshot | None = None
    hosts: HostCollector | None = None
    async with asyncio.timeout(80):
        for topology, batches, tick in ticks():
            clock.step_wall((tick.time_ns - clock.now_ns()) / 1e9)
            if switches is None or hosts is None:
                pipeline.feed(topology)
                switches = how(topology, context, tmp_path)
                await switches.start(batches)
                trees = HostTrees(tmp_path, topology)
                named = [Target("f", h, str(trees.folder(h))) for h in SEEN_HOSTS]
                hosts = HostCollector(HostConfig(), named, context)
            trees.update(b for b in batches if b.ports.device[0] in SEEN_HOSTS)
            for batch in await switches.read(batches):
                pipeline.feed(batch)
            for one in named:
                for batch in (await hosts.poll(one)).batches:
                    pipeline.feed(batch)
            snapshot = pipeline.feed(tick)
    assert switches is not None
    await switches.stop()
    assert snapshot is not None
    (incident,) = [i for i in snapshot.incidents if i.kind is IncidentKind.SLOW_RECEIVER]
    cause = incident.cause
    assert cause is not None
    ends = {(cause.device, cause.port), (cause.peer_device, cause.peer_port)}
    assert ends == {("host9", "eth0"), ("leaf1", "Ethernet2")}
    devices = {evidence.device for evidence in incident.evidence}
    assert "leaf1" in devices
    assert devices & set(SEEN_HOSTS)
    own = [e for e in incident.evidence if (e.device, e.port) == ("host9", "eth0")]
    assert any(e.counter == "press" and e.source for e in own)
    there = [e for e in incident.evidence if (e.device, e.port) == ("leaf1", "Ethernet2")]
    assert any(raw.counter == "tx_bytes" and raw.source for e in there for raw in e.raw)
    row = snapshot.table.row(PortId("host9", "eth0"))
    assert row is not None
    assert snapshot.frame.ratios.press[row] > 0.3
