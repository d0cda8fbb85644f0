"""From the agent to the frame: rates are right, and identity and history survive what agents do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.snmp_faulty import COMMUNITY, FaultyAgent, faulty, pdu, switch
from support.snmp_targets import credential, target

from fabricmon.api import Context
from fabricmon.collectors.snmp import SnmpCollector
from fabricmon.collectors.snmp.config import SnmpConfig
from fabricmon.formats.snmp.snmp import PduType
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import State
from fabricmon.normalize import Normalizer
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fabricmon.model.frame import Frame

pytestmark = pytest.mark.wire

NAMES = ("Ethernet1/1", "Ethernet1/2", "Ethernet1/3")
RATES = {name: 1e9 * (i + 1) for i, name in enumerate(NAMES)}
"""Bytes per second that each port receives."""


class Watched:
    """An agent on a clock of its own, polled and normalised; `refresh` seconds is its cache."""

    def __init__(self, agent: FaultyAgent, folder: Path, refresh: float, poll: float) -> None:
        self.agent, self.clock, self._refresh, self._poll = agent, ManualClock(), refresh, poll
        context = Context(self.clock, Reporter(self.clock))
        how = credential(folder, {"community": COMMUNITY})
        self.target = target(agent.address, how, "leaf1")
        config = SnmpConfig(timeout=0.2, retries=0)  # type: ignore[arg-type]
        self.snmp = SnmpCollector(config, [self.target], context)
        self.table = PortTable()
        self._normalizer = Normalizer(self.table, "f", context)
        self.now = self.booted = self.renewed = 0.0

    def _show(self) -> None:
        """Counters of the last refresh, and a live sysUpTime."""
        if self._refresh:
            self.renewed = max(self.booted, (self.now - 0.3) // self._refresh * self._refresh + 0.3)
        else:
            self.renewed = self.now
        up = self.renewed - self.booted
        ports = self.agent.content.switch.ports
        sampled = int(up * 100)
        self.agent.set(
            lambda slot: (
                sampled
                if slot.counter == "sampled"
                else round(RATES[ports[slot.port]] * up)
                if slot.counter == "rx_bytes"
                else 1
            )
        )
        self.agent.uptime_cs = int((self.now - self.booted) * 100)

    async def tick(self) -> Frame:
        """One poll later."""
        self._show()
        for batch in (await self.snmp.poll(self.target)).batches:
            self._normalizer.absorb(batch)
        frame = self._normalizer.tick(self.clock.now_ns(), self._poll)
        await self.clock.advance(self._poll)
        self.now += self._poll
        return frame

    async def ticks(self, count: int) -> list[Frame]:
        """So many polls."""
        return [await self.tick() for _ in range(count)]

    def of(self, frame: Frame, name: str) -> tuple[float, int, State]:
        """Rate, total and state of the bytes a port received."""
        row = self.table.ids.index(("leaf1", name))  # type: ignore[arg-type]
        k = frame.row("rx_bytes")
        return (
            float(frame.rate[k, row]),
            int(frame.total[k, row]),
            State(int(frame.state[k, row])),
        )


@contextlib.asynccontextmanager
async def watched(
    folder: Path, *, flavour: str = "nxos", refresh: float = 0.0, poll: float = 10.0
) -> AsyncIterator[Watched]:
    """A started one."""
    async with faulty(switch(NAMES), flavour) as agent:
        made = Watched(agent, folder, refresh, poll)
        await made.snmp.start()
        try:
            yield made
        finally:
            await made.snmp.stop()


@pytest.mark.parametrize(("refresh", "poll"), [(5.0, 1.0), (5.0, 2.0), (10.0, 4.0), (30.0, 10.0)])
async def test_a_caching_agent_that_is_polled_faster_than_its_refresh(
    tmp_path: Path, refresh: float, poll: float
) -> None:
    """Once two whole refreshes were seen, every rate of every port is within 2 %."""
    async with watched(tmp_path, flavour="sonic", refresh=refresh, poll=poll) as agent:
        known = int(2 * refresh / poll) + 2
        frames = await agent.ticks(known + int(8 * refresh / poll))
        for frame in frames[known:]:
            for name in NAMES:
                rate, _, state = agent.of(frame, name)
                assert rate == pytest.approx(RATES[name], rel=0.02)
                assert state in (State.OK, State.HELD)


async def test_an_agent_that_tells_when_it_sampled_needs_no_learning(tmp_path: Path) -> None:
    """With the hardware's sample time each renewal's rate is right from the first on."""
    async with watched(tmp_path, flavour="arista", refresh=7.0, poll=10.0) as agent:
        for frame in (await agent.ticks(12))[1:]:
            for name in NAMES:
                assert agent.of(frame, name)[0] == pytest.approx(RATES[name], rel=0.002)


async def test_a_restart_with_new_numbers_keeps_rows_and_totals(tmp_path: Path) -> None:
    """The agent restarts from zero and numbers its ports anew: same rows, totals go on."""
    async with watched(tmp_path) as agent:
        before = (await agent.ticks(4))[-1]
        rows = list(agent.table.ids)
        agent.agent.show(switch(NAMES[::-1]))
        agent.booted = agent.now - 4.0
        reset = await agent.tick()
        after = (await agent.ticks(3))[-1]
        assert list(agent.table.ids) == rows
        for name in NAMES:
            _, total, _ = agent.of(before, name)
            assert agent.of(reset, name)[2] == State.RESET
            rate, now, state = agent.of(after, name)
            assert (rate, state) == (pytest.approx(RATES[name]), State.OK)
            assert now - total == pytest.approx(3 * 10 * RATES[name])


async def test_a_row_that_goes_and_comes_back_keeps_its_total(tmp_path: Path) -> None:
    """A lost port is missing, the others never notice, and its rate is over the true time."""
    async with watched(tmp_path) as agent:
        await agent.ticks(3)
        agent.agent.show(switch(NAMES[:2]))
        gone = await agent.ticks(3)
        agent.agent.show(switch(NAMES))
        agent.snmp._devices["leaf1"].doubtful = True
        back = await agent.ticks(2)
        for frame in gone:
            assert np.isnan(agent.of(frame, NAMES[2])[0])
            assert agent.of(frame, NAMES[2])[2] == State.MISSING
        for frame in (*gone, *back):
            for name in NAMES[:2]:
                assert agent.of(frame, name)[0] == pytest.approx(RATES[name])
        for frame in back:
            assert agent.of(frame, NAMES[2])[0] == pytest.approx(RATES[NAMES[2]])
        assert agent.of(back[-1], NAMES[2])[1] == agent.of(back[-1], NAMES[0])[1] * 3


async def test_a_failed_name_walk_costs_no_rate(tmp_path: Path) -> None:
    """While names cannot be read, every port goes on under the name and row it had."""
    async with watched(tmp_path) as agent:
        await agent.ticks(2)
        agent.agent.fault = lambda request, reply: (
            [] if pdu(request).type == PduType.GETBULK and _asks_names(request) else [reply]
        )
        agent.snmp._devices["leaf1"].doubtful = True
        frames = await agent.ticks(3)
        assert len(agent.table) == len(NAMES)
        for frame in frames:
            for name in NAMES:
                assert agent.of(frame, name)[0] == pytest.approx(RATES[name])


def _asks_names(request: bytes) -> bool:
    """Whether a walk of the interface table or its names begins here."""
    asked = pdu(request).varbinds[0].oid
    return asked[:8] in ((1, 3, 6, 1, 2, 1, 2, 2), (1, 3, 6, 1, 2, 1, 31, 1)) and len(asked) < 12
