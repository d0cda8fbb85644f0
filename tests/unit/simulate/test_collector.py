"""The embedded fabric behind the collector's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fabricmon.api import Context, Target
from fabricmon.errors import PollError
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology
from fabricmon.simulate import SimulatedCollector, SimulatedConfig
from fabricmon.testing import ManualClock, check_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TARGET = Target("demo", "fabric", "simulated")


@pytest.fixture
async def collector(context: Context) -> AsyncIterator[SimulatedCollector]:
    """A started one."""
    made = SimulatedCollector(SimulatedConfig(warmup=20.0), [TARGET], context)
    await made.start()
    yield made
    await made.stop()


async def test_it_keeps_a_collectors_promises(context: Context) -> None:
    """Lifecycle, cancellation, and polls that carry the target's name."""
    await check_collector(
        lambda: SimulatedCollector(SimulatedConfig(warmup=5.0), [TARGET], context), TARGET
    )


async def test_the_warm_up_ends_now(collector: SimulatedCollector, clock: ManualClock) -> None:
    """Its ticks lead up to the present, one a second."""
    items = list(collector.warmup_items())
    assert isinstance(items[0], Topology)
    ticks = [item.time_ns for item in items if isinstance(item, Tick)]
    assert len(ticks) == 20
    assert ticks[-1] == clock.now_ns()


async def test_a_poll_gives_the_latest_of_every_device(
    collector: SimulatedCollector, clock: ManualClock
) -> None:
    """Each poll covers switches and hosts, sampled just now; none is due twice in a second."""
    list(collector.warmup_items())
    await clock.advance(3.0)
    poll = await collector.poll(TARGET)
    assert len({device for batch in poll.batches for device in batch.ports.device}) == 40
    assert {batch.target for batch in poll.batches} == {"fabric"}
    assert abs(int(poll.batches[0].time_ns[0]) - clock.now_ns()) < 100_000_000
    with pytest.raises(PollError, match="no new reading yet"):
        await collector.poll(TARGET)
    topology = await collector.discover(TARGET)
    assert topology is not None
    assert len(topology.jobs) == 2


async def test_faults_come_again(context: Context, clock: ManualClock) -> None:
    """After the last fault of the file the first one comes round, well inside a minute at start."""
    collector = SimulatedCollector(SimulatedConfig(), [TARGET], context)
    await collector.start()
    list(collector.warmup_items())
    first = collector._simulation.scenario.config.events[0]  # type: ignore[union-attr]
    assert first.at - 300.0 <= 20.0, "an incident is active within 60 s"
    await clock.advance(700.0)
    poll = await collector.poll(TARGET)
    assert poll.batches
    await collector.stop()


async def test_a_first_poll_without_a_warm_up_of_its_own_gives_its_last_reading(
    collector: SimulatedCollector,
) -> None:
    """Asked at once after the start, as `once` does, it tells the time just before; only once."""
    poll = await collector.poll(TARGET)
    assert len({device for batch in poll.batches for device in batch.ports.device}) == 40
    with pytest.raises(PollError, match="no new reading yet"):
        await collector.poll(TARGET)
