"""Agents that are slow, lying, restarted or broken: each costs only itself, and is counted."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.snmp_faulty import (
    COMMUNITY,
    MANY,
    assert_whole,
    faulty,
    here,
    is_bulk,
    pdu,
    rewrite,
    switch,
)
from support.snmp_targets import collector, credential, target

from fabricmon.collectors.snmp.fast_path.wire import Refused
from fabricmon.errors import PollError, Reason
from fabricmon.formats.snmp.snmp import ErrorStatus, PduType
from fabricmon.model.readings import Poll, State

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.collectors.snmp import SnmpCollector

pytestmark = pytest.mark.wire


def refused(snmp: SnmpCollector, *reasons: str) -> float:
    """How many replies were not used, for these reasons or for any."""
    counter = snmp._context.report.metrics.replies_refused
    return sum(counter.labels("snmp", reason)._value.get() for reason in reasons or list(Refused))


async def test_every_value_arrives(tmp_path: Path) -> None:
    """Without faults, all counters of all ports and queues are those of the agent."""
    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        for _ in range(3):
            assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        assert refused(snmp) == 0


async def test_other_queues_are_read_now_and_then(tmp_path: Path) -> None:
    """With lossless queue 3, it comes in every poll, by GET since it stands scattered.

    The others come in the first poll and when they are due again; never where that is wanted.
    """
    async with (
        faulty(switch(MANY)) as agent,
        collector(here(agent, tmp_path), queues=[3]) as snmp,
        collector(here(agent, tmp_path), queues=[3], other_queues_every=0) as never,
    ):
        first = await snmp.poll(here(agent, tmp_path))
        assert [{c.queue for c in batch.columns} for batch in first.batches] == [{-1, 3}, {0, 4}]
        assert first.batches[1].ports is first.batches[0].ports
        snmp._devices["leaf1"].other_in = 3
        seen: list[int] = []
        agent.fault = lambda request, reply: (seen.append(pdu(request).type), [reply])[1]
        poll = await snmp.poll(here(agent, tmp_path))
        assert_whole(agent, poll)
        assert [{c.queue for c in batch.columns} for batch in poll.batches] == [{-1, 3}]
        assert PduType.GET in seen
        snmp._devices["leaf1"].other_in = 0
        poll = await snmp.poll(here(agent, tmp_path))
        assert [{c.queue for c in batch.columns} for batch in poll.batches] == [{-1, 3}, {0, 4}]
        assert_whole(agent, Poll(poll.batches[1:]))
        assert len((await never.poll(here(agent, tmp_path))).batches) == 1


async def test_other_queues_that_do_not_answer_cost_themselves(tmp_path: Path) -> None:
    """When only the priorities that are read now and then fail, the rest of the poll is whole."""
    pfc = (1, 3, 6, 1, 4, 1, 9, 9, 813, 1, 2, 1)

    def fault(request: bytes, reply: bytes) -> list[bytes]:
        asked = pdu(request).varbinds
        return [] if any(v.oid[:12] == pfc and v.oid[-1] != 3 for v in asked) else [reply]

    async with (
        faulty(switch(MANY)) as agent,
        collector(here(agent, tmp_path), queues=[3], timeout=0.1, retries=0) as snmp,
    ):
        await snmp.poll(here(agent, tmp_path))
        agent.fault = fault
        snmp._devices["leaf1"].other_in = 0
        poll = await snmp.poll(here(agent, tmp_path))
        assert_whole(agent, Poll(poll.batches[:1]))
        assert (poll.batches[1].state == State.MISSING).all()
        assert poll.lost[Reason.TIMEOUT] == 64 * 2 * 2


@pytest.mark.parametrize("limit", [1, 7, 10])
async def test_short_replies_are_followed_up(tmp_path: Path, limit: int) -> None:
    """An agent that answers fewer values than asked is asked on, and for less from then on."""
    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        agent.responder._max_varbinds = limit
        assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        before = agent.requests
        assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        values = 64 * (4 + 2 * 3)
        assert agent.requests - before <= values // max(1, limit - 3) + 10


async def test_too_big_is_asked_for_in_halves(tmp_path: Path) -> None:
    """An agent that says tooBig is asked for less until it can answer."""

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        if len(reply) > 300:
            return [rewrite(reply, (), status=ErrorStatus.TOO_BIG)]
        return [reply]

    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        agent.fault = fault
        assert_whole(agent, await snmp.poll(here(agent, tmp_path)))


async def test_a_row_that_makes_the_agent_fail_costs_itself(tmp_path: Path) -> None:
    """GenErr for one instance: that one is missing and counted, all others are read."""
    bad = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, 436207616 + 512 * 20)

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        if bad in [varbind.oid for varbind in pdu(reply).varbinds]:
            return [rewrite(reply, (), status=ErrorStatus.GEN_ERR)]
        return [reply]

    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        await snmp.poll(here(agent, tmp_path))
        agent.fault = fault
        poll = await snmp.poll(here(agent, tmp_path))
        batch = poll.batches[0]
        assert poll.lost == {Reason.UNEXPECTED: 1}
        assert (batch.state == State.MISSING).sum() == 1
        assert batch.state[0, 20] == State.MISSING


async def test_oids_that_do_not_increase_end_the_walk(tmp_path: Path) -> None:
    """An agent that repeats itself is not followed for ever; what it gave is kept."""

    def fault(request: bytes, reply: bytes) -> list[bytes]:
        varbinds = pdu(reply).varbinds
        if is_bulk(request) and len(varbinds) > 4:
            return [rewrite(reply, [*varbinds[:4], *varbinds[:4]])]
        return [reply]

    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        agent.fault = fault
        poll = await asyncio.wait_for(snmp.poll(here(agent, tmp_path)), 10)
        assert poll.lost[Reason.MALFORMED] > 0
        assert (poll.batches[0].state == State.OK).any()


async def test_double_and_late_replies_are_counted_and_harmless(tmp_path: Path) -> None:
    """Every reply sent twice, and once more a poll later: values stay right."""
    old: list[bytes] = []

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        old.append(reply)
        return [reply, reply, old[0]]

    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path)) as snmp:
        await snmp.poll(here(agent, tmp_path))
        agent.fault = fault
        for _ in range(2):
            assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        assert refused(snmp, "late") > 2


async def test_forged_replies_are_refused(tmp_path: Path) -> None:
    """A reply with the right id from another address, or with another community, is not used."""
    forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    async with faulty() as agent, collector(here(agent, tmp_path)) as snmp:
        await snmp.poll(here(agent, tmp_path))
        own = next(iter(snmp._wire._sockets.values())).getsockname()[1]

        def fault(_request: bytes, reply: bytes) -> list[bytes]:
            wrong = [
                v._replace(value=7) if isinstance(v.value, int) else v for v in pdu(reply).varbinds
            ]
            forger.sendto(rewrite(reply, wrong), ("127.0.0.1", own))
            return [rewrite(reply, wrong).replace(b"public", b"secret"), reply]

        agent.fault = fault
        assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        assert refused(snmp, "forged") > 0
        assert refused(snmp, "untrusted") > 0
    forger.close()


@pytest.mark.parametrize("any_source", [True, False])
async def test_an_agent_with_several_addresses_is_read_where_that_is_allowed(
    tmp_path: Path, *, any_source: bool
) -> None:
    """Replies from another address are refused, unless the config says that agents do so."""
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    settings = {"any_source": any_source, "timeout": 0.1, "retries": 0}
    async with faulty() as agent, collector(here(agent, tmp_path), **settings) as snmp:
        await snmp.poll(here(agent, tmp_path))
        own = next(iter(snmp._wire._sockets.values())).getsockname()[1]

        def fault(_request: bytes, reply: bytes) -> list[bytes]:
            other.sendto(reply, ("127.0.0.1", own))
            return []

        agent.fault = fault
        if any_source:
            assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        else:
            with pytest.raises(PollError):
                await snmp.poll(here(agent, tmp_path))
            assert refused(snmp, "forged") > 0
    other.close()


async def test_garbled_replies_are_asked_for_again(tmp_path: Path) -> None:
    """Replies with random octets changed never raise, never hang, and are counted."""
    rng = random.Random(5)

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        broken = bytearray(reply)
        for _ in range(3):
            broken[rng.randrange(20, len(broken))] = rng.randrange(256)
        return [bytes(broken)]

    async with (
        faulty(switch(MANY)) as agent,
        collector(here(agent, tmp_path), timeout=0.1, retries=1) as snmp,
    ):
        await snmp.poll(here(agent, tmp_path))
        agent.fault = fault
        for _ in range(5):
            with contextlib.suppress(PollError):
                poll = await asyncio.wait_for(snmp.poll(here(agent, tmp_path)), 20)
                assert sum(poll.lost.values()) > 0
        assert refused(snmp, "malformed", "untrusted", "late") > 5
        agent.fault = lambda _request, reply: [reply]
        for device in snmp._devices.values():
            device.doubtful = True
        assert_whole(agent, await snmp.poll(here(agent, tmp_path)))


async def test_lost_datagrams_are_asked_for_again(tmp_path: Path) -> None:
    """With a third of the replies lost, a poll is still whole."""
    rng = random.Random(1)
    async with faulty(switch(MANY)) as agent, collector(here(agent, tmp_path), retries=5) as snmp:
        agent.fault = lambda _request, reply: [reply] if rng.random() > 0.33 else []
        for _ in range(2):
            assert_whole(agent, await snmp.poll(here(agent, tmp_path)))


async def test_an_agent_that_dies_in_between_gives_a_partial_poll(tmp_path: Path) -> None:
    """What came before is kept; the rest is missing, and the loss is counted."""
    async with (
        faulty(switch(MANY)) as agent,
        collector(here(agent, tmp_path), timeout=0.1, retries=1, max_repetitions=10) as snmp,
    ):
        await snmp.poll(here(agent, tmp_path))
        left = 20

        def fault(_request: bytes, reply: bytes) -> list[bytes]:
            nonlocal left
            left -= 1
            return [reply] if left > 0 else []

        agent.fault = fault
        poll = await snmp.poll(here(agent, tmp_path))
        state = poll.batches[0].state
        assert 0 < (state == State.MISSING).sum() < state.size
        assert poll.lost[Reason.TIMEOUT] >= (state == State.MISSING).sum()


async def test_a_dead_agent_does_not_delay_another(tmp_path: Path) -> None:
    """Fifty silent targets are polled together with a live one, which is done at once."""
    async with faulty() as agent:
        live = here(agent, tmp_path)
        how = credential(tmp_path, {"community": COMMUNITY})
        silent = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(50)]
        for sock in silent:
            sock.bind(("127.0.0.1", 0))
        dead = [
            target(f"127.0.0.1:{s.getsockname()[1]}", how, f"dead{i}") for i, s in enumerate(silent)
        ]
        async with collector(live, *dead, timeout=5.0, retries=0) as snmp:
            lost = [asyncio.create_task(snmp.poll(one)) for one in dead]
            await asyncio.sleep(0)
            for _ in range(3):
                assert_whole(agent, await asyncio.wait_for(snmp.poll(live), 4))
            assert not any(task.done() for task in lost)
            for task in lost:
                task.cancel()
            await asyncio.wait(lost)
        for sock in silent:
            sock.close()


async def test_the_hardware_sample_time_is_used(tmp_path: Path) -> None:
    """Where the agent says when it read the hardware, that is the time of the row."""
    async with faulty(switch(), "arista") as agent, collector(here(agent, tmp_path)) as snmp:
        agent.uptime_cs = 50_000
        agent.set(lambda slot: 49_600 if slot.counter == "sampled" else 1)
        await snmp.poll(here(agent, tmp_path))
        before = snmp._context.clock.now_ns()
        batch = (await snmp.poll(here(agent, tmp_path))).batches[0]
        age = before - batch.time_ns
        assert (np.abs(age - 4e9) < 0.5e9).all()


async def test_half_time_outs_leave_nothing_behind(tmp_path: Path) -> None:
    """Hundreds of polls, half timed out or cancelled: no task, no ask, no socket is left."""
    async with faulty() as agent, collector(here(agent, tmp_path), timeout=0.01, retries=0) as snmp:
        await snmp.poll(here(agent, tmp_path))
        for i in range(200):
            agent.fault = (lambda _q, _r: []) if i % 2 else (lambda _q, reply: [reply])
            try:
                async with asyncio.timeout(0.001 if i % 4 == 3 else 5):
                    await snmp.poll(here(agent, tmp_path))
            except (PollError, TimeoutError):
                pass
        agent.fault = lambda _q, reply: [reply]
        await asyncio.sleep(0.1)
        assert_whole(agent, await snmp.poll(here(agent, tmp_path)))
        session = snmp._devices["leaf1"].session
        assert (session.in_flight, session.has_more) == (0, False)
        assert snmp._wire._pending == {}
        assert len(snmp._wire._sockets) == 1
        assert len(asyncio.all_tasks()) == 1
