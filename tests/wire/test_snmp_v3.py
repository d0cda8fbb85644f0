"""Version 3 over time: engines whose clock jumps, stands or runs on, and engines that change."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import TYPE_CHECKING

import pytest
from support.snmp_faulty import COMMUNITY, FaultyAgent, faulty, switch
from support.snmp_targets import credential, target

from fabricmon.api import Context
from fabricmon.collectors.snmp import SnmpCollector
from fabricmon.collectors.snmp.config import SnmpConfig
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import State
from fabricmon.selfmon import Reporter
from fabricmon.simulate.agents.snmp.v3 import UsmResponder, V3User
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from fabricmon.model.readings import Poll

pytestmark = pytest.mark.wire

USER = V3User()
PORTS = tuple(f"Ethernet1/{i}" for i in range(1, 65))


class Polled:
    """An agent of version 3 and its collector, on a clock that stands unless it is advanced."""

    def __init__(self, agent: FaultyAgent, folder: Path) -> None:
        self.agent, self.clock = agent, ManualClock()
        self.plain = agent.responder
        self.serve("leaf1", lambda: int(self.clock.monotonic()))
        keys = {"auth_key": USER.auth_key, "priv_key": USER.priv_key}
        self.target = target(agent.address, credential(folder, keys, user=USER.name))
        context = Context(self.clock, Reporter(self.clock))
        self.snmp = SnmpCollector(SnmpConfig(timeout=2.0), [self.target], context)

    def serve(self, engine: str, now_s: Callable[[], int]) -> None:
        """Answer as this engine."""
        self.usm = UsmResponder(self.plain, COMMUNITY.encode(), engine, USER, now_s)
        self.agent.responder = self.usm  # type: ignore[assignment]

    async def poll(self) -> Poll:
        """One poll, which must be whole."""
        poll = await self.snmp.poll(self.target)
        assert poll.lost == {}
        assert (poll.batches[0].state == State.OK).all()
        return poll


@contextlib.asynccontextmanager
async def polled(folder: Path) -> AsyncIterator[Polled]:
    """A started one that was polled once."""
    async with faulty(switch(PORTS)) as agent:
        made = Polled(agent, folder)
        await made.snmp.start()
        try:
            await made.poll()
            yield made
        finally:
            await made.snmp.stop()


async def test_the_engines_clock_is_kept_between_polls(tmp_path: Path) -> None:
    """An hour later the request carries the engine's time of then: no report is needed."""
    async with polled(tmp_path) as agent:
        problems = agent.usm._problems
        await agent.clock.advance(3_600.0)
        await agent.poll()
        assert agent.usm._problems == problems


async def test_a_clock_that_jumped_is_followed_within_the_poll(tmp_path: Path) -> None:
    """A report of not being in the window is answered by one re-sync, and the poll is whole."""
    async with polled(tmp_path) as agent:
        agent.serve("leaf1", lambda: 1_000_000)
        await agent.poll()
        assert agent.usm._problems > 0
        again = agent.usm._problems
        await agent.poll()
        assert agent.usm._problems == again


async def test_a_clock_that_cannot_be_followed_is_an_authentication_failure(
    tmp_path: Path,
) -> None:
    """One re-sync a request: an engine that is late every time is given up, and said to be."""
    async with polled(tmp_path) as agent:
        times = count(1_000_000, 1_000)
        agent.serve("leaf1", lambda: next(times))
        with pytest.raises(PollError, match="clock cannot be followed") as caught:
            await agent.snmp.poll(agent.target)
        assert caught.value.reason is Reason.AUTHENTICATION
        agent.serve("leaf1", lambda: 9_000_000)
        await agent.poll()


async def test_another_engine_is_discovered_within_the_poll(tmp_path: Path) -> None:
    """A device that comes back under another engine id costs no poll and keeps its ports."""
    async with polled(tmp_path) as agent:
        before = (await agent.poll()).batches[0].ports
        agent.serve("leaf1-replaced", lambda: 5)
        assert (await agent.poll()).batches[0].ports is before
