"""A shape of the fabric that a poll found changed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.pipelines import batch, make_pipeline, ports

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.guard import Guard
from fabricmon.model.maintenance import Maintenance
from fabricmon.model.readings import Poll
from fabricmon.model.topology import Link, Node, PortId, Topology
from fabricmon.runtime.assembly import Assembly, FabricPlan
from fabricmon.runtime.daemon import Daemon
from fabricmon.selfmon import Reporter
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_INTERVAL_S = 0.05


def _shape(peer: str) -> Topology:
    """One cable of a leaf."""
    link = Link(PortId("leaf", "p1"), PortId(peer, "p1"), 400e9)
    return Topology((Node("leaf", "switch"), Node(peer, "switch")), (link,))


class _Moving:
    """A collector that finds its cable somewhere else at the third poll, and is asked by nobody."""

    def __init__(self) -> None:
        self.polls = 0
        self._polled = asyncio.Event()

    async def next_poll(self) -> None:
        """Returns once it was polled from now on."""
        self._polled.clear()
        await self._polled.wait()

    async def start(self) -> None:
        """Nothing."""

    async def stop(self) -> None:
        """Nothing."""

    async def discover(self, _target: Target) -> None:
        """Knows nothing of its own accord."""

    async def poll(self, target: Target) -> Poll:
        """A count of one port, and the new shape once."""
        self.polls += 1
        self._polled.set()
        counts = (batch(target.name, ports("leaf", "p1"), self.polls, self.polls),)
        return Poll(counts, topology=_shape("spine-2") if self.polls == 3 else None)


@asynccontextmanager
async def _running(
    *sources: Callable[[], Topology | None] | None,
) -> AsyncIterator[tuple[_Moving, FabricPlan]]:
    clock = SystemClock()
    context = Context(clock, Reporter(clock))
    collector = _Moving()
    guard = Guard("moving", collector, Settings(), [Target("pod", "leaf", "")], context, 1.0)
    plan = FabricPlan(make_pipeline(context, "pod"), [guard], _INTERVAL_S, 600.0, sources)

    async def probe(*_: Any) -> Any:
        raise NotImplementedError

    assembly = Assembly({"pod": plan}, {}, {}, Maintenance(), probe)
    daemon = Daemon(assembly, lambda: assembly, context)
    await daemon.start()
    try:
        yield collector, plan
    finally:
        await daemon.stop()


def _ends(plan: FabricPlan) -> set[PortId]:
    return {end for link in plan.pipeline.topology.links for end in (link.a, link.b)}


@pytest.mark.parametrize(
    ("sources", "peer"),
    [
        ((None,), "spine-2"),
        ((lambda: _shape("spine-1"), None), "spine-2"),
        ((None, lambda: _shape("spine-1")), "spine-1"),
        ((lambda: _shape("spine-1"),), "spine-1"),
    ],
    ids=["devices", "devices last", "file last", "file alone"],
)
async def test_a_changed_shape_is_taken_in_the_order_of_the_config(
    sources: tuple[Callable[[], Topology | None] | None, ...], peer: str
) -> None:
    """The source that stands last wins; devices that the config does not ask are not believed."""
    want = {PortId("leaf", "p1"), PortId(peer, "p1")}
    async with _running(*sources) as (collector, plan), asyncio.timeout(20):
        while collector.polls < 6 or _ends(plan) != want:
            await collector.next_poll()
