"""One fault, seen by switches over gNMI and by hosts over sysfs at once, is one incident."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fabricmon import app
from fabricmon.api import Context, Target
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.collectors.host import HostCollector, HostConfig
from fabricmon.model.incident import IncidentKind
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.model.topology import PortId, Topology
from fabricmon.selfmon import Reporter
from fabricmon.simulate import load
from fabricmon.simulate.agents.gnmi import GnmiFabric
from fabricmon.simulate.agents.host import HostTrees
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fabricmon.model.snapshot import Snapshot

pytestmark = pytest.mark.wire

FIRST, LAST = 112, 128
"""Ticks that are read: a few before the fault, and enough after it."""
SEEN_HOSTS = ("host9", "host5", "host1")


class Readers:
    """The fabric served, and the collectors that read it."""

    def __init__(self, topology: Topology, folder: Path, context: Context) -> None:
        """Nothing listens yet."""
        self.fabric = GnmiFabric(topology)
        self.trees = HostTrees(folder, topology)
        self.context = context
        self.hosts = [Target("f", h, str(self.trees.folder(h))) for h in SEEN_HOSTS]
        self.host_collector = HostCollector(HostConfig(), self.hosts, context)

    async def start(self, batches: list[ReadingBatch]) -> None:
        """Serve these readings, and connect."""
        addresses = await self.fabric.start()
        self.fabric.update(batches)
        self.switches = [
            Target("f", name, address, None, "cumulus", {"insecure": True})
            for name, address in addresses.items()
        ]
        config = GnmiConfig(interval=1.0, silence=1e6)
        self.gnmi = GnmiCollector(config, self.switches, self.context)
        await self.gnmi.start()

    async def read(self, batches: list[ReadingBatch]) -> Iterable[ReadingBatch]:
        """One reading of everything."""
        own = [b for b in batches if b.ports.device[0] in SEEN_HOSTS]
        self.trees.update(own)
        self.fabric.update(batches)
        due = {b.ports.device[0]: int(b.time_ns.max()) for b in batches}
        found = []
        for target in self.switches:
            async with asyncio.timeout(20):
                newest = 0
                while newest < due[target.name]:
                    for batch in (await self.gnmi.poll(target)).batches:
                        found.append(batch)
                        newest = max(newest, int(batch.time_ns.max()))
                    await asyncio.sleep(0.005)
        for target in self.hosts:
            found += (await self.host_collector.poll(target)).batches
        return found

    async def stop(self) -> None:
        """Close everything."""
        await self.gnmi.stop()
        await self.fabric.stop()


async def test_a_slow_receiver_seen_from_both_ends(tmp_path: Path) -> None:
    """The host that takes too little is named, once, and both ends of its link are known."""
    clock = ManualClock()
    context = Context(clock, Reporter(clock))
    pipeline = app.make_pipeline("f", context)
    readers: Readers | None = None
    batches: list[ReadingBatch] = []
    ticks = 0
    snapshot: Snapshot | None = None
    for item in load("slow-receiver", seed=1).items():
        if isinstance(item, Topology) and readers is None:
            pipeline.feed(item)
            readers = Readers(item, tmp_path, context)
        elif isinstance(item, ReadingBatch):
            batches.append(item)
        elif isinstance(item, Tick):
            ticks += 1
            assert readers is not None
            if ticks >= FIRST:
                clock.step_wall((item.time_ns - clock.now_ns()) / 1e9)
                if ticks == FIRST:
                    await readers.start(batches)
                for batch in await readers.read(batches):
                    pipeline.feed(batch)
                snapshot = pipeline.feed(item)
            batches = []
            if ticks == LAST:
                break
    assert readers is not None
    assert snapshot is not None
    await readers.stop()
    (incident,) = [i for i in snapshot.incidents if i.kind is IncidentKind.SLOW_RECEIVER]
    cause = incident.cause
    assert cause is not None
    ends = {(cause.device, cause.port), (cause.peer_device, cause.peer_port)}
    assert ends == {("host9", "eth0"), ("leaf1", "Ethernet2")}
    devices = {evidence.device for evidence in incident.evidence}
    assert "leaf1" in devices
    assert devices & set(SEEN_HOSTS)
    press = snapshot.frame.ratios.press
    row = snapshot.table.row(PortId("host9", "eth0"))
    assert row is not None
    assert press[row] > 0.3
