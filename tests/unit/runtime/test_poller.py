"""The poller: who is waited for, what is late, and what a fault costs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.pipelines import batch, make_pipeline, ports
from support.selfmon import events

from fabricmon.api import Context, Target
from fabricmon.collectors.guard import Guard
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import Poll
from fabricmon.model.stream import ClockStep, PollFailure, Tick
from fabricmon.model.topology import Node, Topology
from fabricmon.runtime.poller import FabricPoller
from fabricmon.selfmon import Reporter
from fabricmon.settings import Settings
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item

_S = 10**9


class _Source:
    """Each target does what `does` says of it: answer, fail, or wait for its event."""

    Config = Settings

    def __init__(self, does: dict[str, Any]) -> None:
        self.does = does
        self.polls = 0

    async def start(self) -> None:
        """Nothing."""

    async def stop(self) -> None:
        """Nothing."""

    async def discover(self, target: Target) -> Topology | None:
        """A node of the target's name."""
        if isinstance(self.does[target.name], Exception):
            raise self.does[target.name]
        return Topology((Node(target.name, "switch"),))

    async def poll(self, target: Target) -> Poll:
        """One port, whose counter counts the polls."""
        does = self.does[target.name]
        if isinstance(does, Exception):
            raise does
        if isinstance(does, asyncio.Event):
            await does.wait()
        self.polls += 1
        stamp = self.polls * _S
        return Poll((batch(target.name, ports(target.name, "1"), self.polls, stamp),))


@asynccontextmanager
async def _poller(
    context: Context, interval_s: float = 10.0, **does: Any
) -> AsyncIterator[tuple[FabricPoller, list[Item], list[Snapshot]]]:
    """A started poller, what its pipeline was fed, and what it published."""
    fed: list[Item] = []
    published: list[Snapshot] = []
    source = _Source(does)
    targets = [Target("pod", name, name) for name in does]
    guard = Guard("piece", source, Settings(), targets, context, 5.0)
    pipeline = make_pipeline(context, taps=[fed.append])
    poller = FabricPoller(pipeline, [guard], context, interval_s, published.append)
    await poller.start()
    try:
        yield poller, fed, published
    finally:
        await poller.stop()


def _heard(fed: list[Item]) -> list[str]:
    """Targets and ticks in the order they came."""
    return [
        "tick" if isinstance(item, Tick) else getattr(item, "target", type(item).__name__)
        for item in fed
    ]


async def test_a_tick_judges_what_answered_and_failures_beside_it(context: Context) -> None:
    """Every due target is polled before the tick; one that fails is told of, and costs no other."""
    refused = PollError(Reason.REFUSED, "no")
    async with _poller(context, good=None, bad=refused) as (poller, fed, published):
        assert not poller.ready
        await poller.tick()
        assert poller.ready
        assert sorted(_heard(fed)[:-1]) == ["bad", "good"]
        assert _heard(fed)[-1] == "tick"
        assert [type(item) for item in fed if getattr(item, "target", "") == "bad"] == [PollFailure]
        assert [snapshot.tick for snapshot in published] == [1]
        assert {status.target: status.up for status in published[0].targets} == {
            "good": True, "bad": False,
        }  # fmt: skip


async def test_one_that_hangs_is_waited_for_so_long_and_comes_with_the_next_tick(
    context: Context,
) -> None:
    """The tick does not wait for ever; what comes late is judged by the next one, and once."""
    slow = asyncio.Event()
    async with _poller(context, 0.05, good=None, slow=slow) as (poller, fed, published):
        await poller.tick()
        assert _heard(fed) == ["good", "tick"]
        slow.set()
        await poller.settle(5)
        await poller.tick()
        assert sorted(_heard(fed)[2:-1]) == ["good", "slow", "slow"]
        assert len(published) == 2


async def test_a_batch_that_breaks_the_pipeline_costs_only_itself(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the pipeline is counted, and the other target's batch is judged."""
    async with _poller(context, good=None, evil=None) as (poller, _, published):
        feed: Callable[[Item], Snapshot | None] = poller.pipeline.feed

        def fragile(item: Item) -> Snapshot | None:
            if getattr(item, "target", "") == "evil":
                raise ZeroDivisionError
            return feed(item)

        monkeypatch.setattr(poller.pipeline, "feed", fragile)
        await poller.tick()
    assert events(context, "component_failed") == 1
    assert [port.device for port in published[0].table.ids] == ["good"]


async def test_every_target_tells_the_shape_it_knows(context: Context) -> None:
    """One that cannot be asked leaves out its part only."""
    lost = PollError(Reason.TIMEOUT, "no")
    async with _poller(context, a=None, b=lost, c=None) as (poller, _, published):
        await poller.discover()
        await poller.read(lambda: Topology((Node("file", "switch"),)))
        await poller.read(lambda: None)
        await poller.tick()
    assert {node.name for node in published[0].topology.nodes} == {"a", "c", "file"}


class _Stepping(ManualClock):
    """A clock whose wall time can be set apart from the monotonic one."""

    ahead_ns = 0

    def now_ns(self) -> int:
        """Wall time, stepped."""
        return super().now_ns() + self.ahead_ns


@pytest.mark.parametrize("step_s", [-3600, 0.05, 86_400])
async def test_a_step_of_the_clock_is_told_before_the_polls(step_s: float) -> None:
    """Once, and by how much; what a clock is slewed by is no step."""
    clock = _Stepping()
    context = Context(clock, Reporter(clock))
    async with _poller(context, good=None) as (poller, fed, _):
        await poller.tick()
        await clock.advance(10)
        clock.ahead_ns += round(step_s * _S)
        await poller.tick()
        await clock.advance(10)
        await poller.tick()
    steps = [(i, item.step_ns) for i, item in enumerate(fed) if isinstance(item, ClockStep)]
    expected = [(2, round(step_s * _S))] if abs(step_s) > 1 else []
    assert steps == expected


async def test_nothing_is_published_after_the_stop(context: Context) -> None:
    """A tick on its way when its fabric is dropped comes out first, and not into the void after."""
    pipeline, inside, on = make_pipeline(context), threading.Event(), threading.Event()
    published: list[Snapshot] = []

    class Slow:
        """The pipeline, whose ticks wait for us."""

        def __getattr__(self, name: str) -> Any:
            return getattr(pipeline, name)

        def feed(self, item: Item) -> Snapshot | None:
            inside.set()
            assert on.wait(10)
            return pipeline.feed(item)

    poller = FabricPoller(Slow(), [], context, 1.0, published.append)  # type: ignore[arg-type] # as one
    await poller.start()
    tick = asyncio.create_task(poller.tick())
    await asyncio.to_thread(inside.wait, 10)
    stop = asyncio.create_task(poller.stop())
    await asyncio.sleep(0.05)
    assert not stop.done()
    on.set()
    await stop
    assert len(published) == 1
    await asyncio.wait({tick})
