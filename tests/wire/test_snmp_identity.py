"""Agents that restart, renumber, rename: every value stays under the name of its port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.snmp_faulty import MANY, assert_whole, faulty, here, is_bulk, pdu, switch
from support.snmp_targets import collector

from fabricmon.errors import Reason
from fabricmon.model.readings import State
from fabricmon.simulate.agents.snmp.content import Switch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.wire


async def test_a_restart_and_new_numbers_keep_identity(tmp_path: Path) -> None:
    """After a restart the ports have other numbers: the same set, each value under its own name."""
    async with (
        faulty(switch(("Ethernet1/1", "Ethernet1/2"))) as agent,
        collector(here(agent, tmp_path)) as snmp,
    ):
        before = (await snmp.poll(here(agent, tmp_path))).batches[0]
        agent.show(switch(("Ethernet1/0", "Ethernet1/1", "Ethernet1/2")))
        agent.uptime_cs = 500
        poll = await snmp.poll(here(agent, tmp_path))
        assert poll.batches[0].discontinuity
        assert_whole(agent, poll)
        assert set(before.ports.port) < set(poll.batches[0].ports.port)
        agent.show(switch(("Ethernet1/2", "Ethernet1/0", "Ethernet1/1")))
        agent.uptime_cs = 400
        again = await snmp.poll(here(agent, tmp_path))
        assert again.batches[0].ports is poll.batches[0].ports
        assert_whole(agent, again)


async def test_sysuptime_that_wraps_is_no_restart(tmp_path: Path) -> None:
    """After 497 days sysUpTime begins again at zero; counters did not."""
    async with faulty() as agent, collector(here(agent, tmp_path)) as snmp:
        agent.uptime_cs = 2**32 - 5
        await snmp.poll(here(agent, tmp_path))
        agent.uptime_cs = 3
        assert not (await snmp.poll(here(agent, tmp_path))).batches[0].discontinuity


async def test_rows_that_vanish_are_missing_and_looked_at_again(tmp_path: Path) -> None:
    """A port that goes away is missing in that poll, and gone after the next look."""
    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        await snmp.poll(here(agent, tmp_path))
        device = snmp._devices["leaf1"]
        device.surveyed_at -= 3600
        device.renewal = None
        agent.show(switch(MANY[:40]))
        snmp._config = snmp._config.model_copy(update={"enrich_interval": 1e9})
        poll = await snmp.poll(here(agent, tmp_path))
        assert poll.lost[Reason.UNEXPECTED] > 0
        assert (poll.batches[0].state[:, 40:] == State.MISSING).all()
        assert (poll.batches[0].state[:, :40] == State.OK).all()
        assert len((await snmp.poll(here(agent, tmp_path))).batches[0].ports) == 40


async def test_a_failed_name_walk_keeps_the_old_names(tmp_path: Path) -> None:
    """When names cannot be read again, polling goes on under the names that were known."""
    async with faulty() as agent, collector(here(agent, tmp_path), timeout=0.1, retries=0) as snmp:
        first = (await snmp.poll(here(agent, tmp_path))).batches[0]
        snmp._devices["leaf1"].doubtful = True
        root = (1, 3, 6, 1, 2, 1)

        def fault(request: bytes, reply: bytes) -> list[bytes]:
            asked = pdu(request).varbinds[0].oid
            return [] if is_bulk(request) and len(asked) < 12 and asked[:6] == root else [reply]

        agent.fault = fault
        poll = await snmp.poll(here(agent, tmp_path))
        assert poll.batches[0].ports is first.ports


async def test_equal_system_names_are_told_apart(tmp_path: Path) -> None:
    """Two devices of one sysName both get the end of their chassis id, and keep their values."""
    async with faulty(switch(name="same")) as one, faulty(switch(name="same")) as two:
        a, b = here(one, tmp_path, "a"), here(two, tmp_path, "b")
        async with collector(a, b) as snmp:
            await snmp.poll(a)
            await snmp.poll(b)
            names = {(await snmp.poll(each)).batches[0].ports.device[0] for each in (a, b)}
            assert all(name.startswith("same@") for name in names)


async def test_a_renewal_that_finds_the_same_changes_nothing(tmp_path: Path) -> None:
    """What is read stays laid out as it was, until an instance or a setting is another one."""
    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        await snmp.poll(here(agent, tmp_path))
        device = snmp._devices["leaf1"]
        laid, survey = device.laid, device.survey
        for shown in (switch(MANY), switch(MANY[:-1]), switch(MANY[:-1])):
            agent.show(shown)
            device.doubtful = True
            assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
            assert (device.laid is laid) == (len(device.grid.ports) == len(laid.grid.ports))
            assert device.survey is not survey
            laid, survey = device.laid, device.survey
        speeds = Switch("leaf1", MANY[:-1], (800e9,) * 63, (None,) * 63)
        agent.show(speeds)
        device.doubtful = True
        poll = await snmp.poll(here(agent, tmp_path))
        assert device.laid is not laid
        assert 800e9 in poll.batches[0].gauges
