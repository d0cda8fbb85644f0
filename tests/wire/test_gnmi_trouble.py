"""Live gNMI when something goes wrong: restarts, silence, lateness, deletes, a full buffer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.gnmi_client import T0, Client, S, again, batch, values

from fabricmon.api import Context, Target
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.errors import PollError, Reason
from fabricmon.simulate.agents.gnmi import GnmiAgent

if TYPE_CHECKING:
    from fabricmon.testing import ManualClock

# One event loop for all: grpc keeps hold of the first it was used with.
pytestmark = [pytest.mark.wire, pytest.mark.asyncio(loop_scope="module")]


async def test_a_restart_is_survived(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """A server that goes (with a GOAWAY) and comes back: down at once, up again, no old value."""
    address = await agent.start()
    client = Client(address, context)
    await client.collector.start()
    await client.value(5000)
    await agent.stop()
    await client.failure(Reason.UNREACHABLE)
    await agent.start(address)
    agent.update([batch(30, 12)])
    await again(agent, clock)
    assert values(await client.value(12)) == [12]
    await client.collector.stop()


async def test_silence_is_noticed_and_ended(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """An open stream that says nothing is down after the silence, and is subscribed anew."""
    client = Client(await agent.start(), context, silence="30s")
    await client.collector.start()
    await client.value(5000)
    agent.silent = True
    await clock.advance(31)
    assert "silent" in str(await client.failure(Reason.NO_DATA))
    agent.silent = False
    agent.update([batch(60, 6000)])
    await again(agent, clock)
    await client.value(6000)
    await client.collector.stop()


async def test_silence_is_two_sample_intervals(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """It is told then and not before; a device that is merely slower than asked gets longer."""
    client = Client(await agent.start(), context, interval="10s")
    await client.collector.start()
    for second in (10, 20):
        await client.value(5000 if second == 10 else 5010)
        agent.update([batch(second, 5000 + second)])
    await client.value(5020)
    agent.silent = True
    await clock.advance(19.5)
    assert not (await client.poll()).batches
    await clock.advance(0.5)
    with pytest.raises(PollError, match="silent"):
        await client.poll()
    agent.silent = False
    agent.update([batch(60, 6000)])
    await again(agent, clock, 1.0)
    await client.value(6000)
    await clock.advance(20)
    await client.failure(Reason.NO_DATA)
    agent.update([batch(100, 7000)])
    async with asyncio.timeout(20):
        while agent.connections < 3:
            await clock.advance(1)
            await asyncio.sleep(0.02)
    await client.value(7000)
    await clock.advance(39.5)
    assert not (await client.poll()).batches
    await client.collector.stop()


async def test_who_is_sent_away_comes_back_unseen(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """A stream that ends after a while is begun anew at once, and a poll meanwhile waits for it."""
    client = Client(await agent.start(), context)
    await client.collector.start()
    await client.value(5000)
    await clock.advance(11)
    agent.update([batch(20, 6000)])
    await client.value(6000)
    for stream in list(agent._streams):
        stream.close()
    session = client.collector._session(client.target)
    for _ in range(500):
        if not session.synced:
            break
        await asyncio.sleep(0.02)
    agent.update([batch(30, 7000)])
    poll = asyncio.create_task(client.poll())
    for _ in range(500):
        if poll.done():
            break
        await clock.advance(1)
        await asyncio.sleep(0.02)
    assert values(await poll) == [7000]
    await client.collector.stop()


async def test_connected_is_not_synchronised(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """A device that accepts the stream and never ends its first answer is not up."""
    agent.silent = True
    client = Client(await agent.start(), context, sync_timeout="20s")
    await client.collector.start()
    poll = asyncio.create_task(client.poll())
    for _ in range(500):
        if agent.connections:
            break
        await asyncio.sleep(0.02)
    assert not poll.done()
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await clock.advance(21)
    session = client.collector._session(client.target)
    session._watch()
    error = await client.failure(Reason.NO_DATA)
    assert "not synchronised" in str(error)
    await client.collector.stop()


async def test_repeated_and_late_updates_change_nothing(agent: GnmiAgent, context: Context) -> None:
    """The same sample again, and an older one after a newer, are dropped: no wrong rate."""
    client = Client(await agent.start(), context)
    await client.collector.start()
    await client.value(5000)
    agent.update([batch(20, 9000)])
    await client.value(9000)
    agent.update([batch(20, 9000)])
    stream = next(iter(agent._streams))
    old = stream._notification([leaf for leaf in agent._leaves.values() if leaf.port == "swp1"])
    old.update.timestamp = T0 + 10 * S
    stream._queue.put_nowait(old)
    agent.update([batch(30, 9500)])
    poll = await client.value(9500)
    assert values(poll) == [9500]
    await client.collector.stop()


async def test_deletes_end_series(agent: GnmiAgent, context: Context) -> None:
    """After a delete a port is named no longer; a state that was not sent again stays."""
    client = Client(await agent.start(), context)
    await client.collector.start()
    await client.value(5000)
    agent.remove("swp1")
    agent.update([batch(20, 7000, ("swp2",))])
    poll = await client.until(
        lambda r: not isinstance(r, PollError) and 7000 in values(r, port="swp2")
    )
    assert not isinstance(poll, PollError)
    (one,) = poll.batches
    assert one.ports.port == ("swp2",)
    assert one.gauges.tolist() == [[1.0]]
    agent.update([batch(30, 8000)])
    poll = await client.value(8000)
    assert set(poll.batches[-1].ports.port) == {"swp1", "swp2"}
    await client.collector.stop()


async def test_a_full_buffer_drops_visibly(agent: GnmiAgent, context: Context) -> None:
    """What nobody polls is dropped from the old end, and the loss is counted."""
    client = Client(await agent.start(), context, buffer=1000, interval="1s")
    await client.collector.start()
    await client.value(5000)
    for i in range(600):
        agent.update([batch(10 + i, 6000 + i)])
        if i % 50 == 0:
            await asyncio.sleep(0.01)
    lost = 0
    session = client.collector._session(client.target)
    for _ in range(1000):
        if session.harvest._lost:
            break
        await asyncio.sleep(0.02)
    async with asyncio.timeout(20):
        while True:
            await asyncio.sleep(0.1)
            poll = await client.poll()
            lost += poll.lost.get(Reason.LIMIT, 0)
            if 6599 in values(poll):
                break
    assert lost > 0
    await client.collector.stop()


async def test_nobody_there(context: Context) -> None:
    """A refused connection says so at once, and the mapping's name is checked."""
    client = Client("127.0.0.1:1", context)
    await client.collector.start()
    error = await client.until(lambda r: isinstance(r, PollError))
    assert isinstance(error, PollError)
    assert error.reason in (Reason.REFUSED, Reason.UNREACHABLE)
    await client.collector.stop()
    bad = GnmiCollector(GnmiConfig(), [Target("f", "x", "h:1", mapping="nonsense")], context)
    with pytest.raises(PollError, match="nonsense"):
        await bad.poll(Target("f", "x", "h:1", mapping="nonsense"))
