"""Dead, slow and lying agents beside good ones: nobody waits for them, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support.snmp_faulty import COMMUNITY, COUNTED, FaultyAgent, faulty, pdu, rewrite, switch
from support.snmp_targets import collector, credential, target

from fabricmon.collectors.snmp import session
from fabricmon.errors import PollError
from fabricmon.formats.snmp import ber
from fabricmon.formats.snmp.snmp import Varbind
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from fabricmon.api import Credential, Target
    from fabricmon.collectors.snmp import SnmpCollector

    Fault = Callable[[bytes, bytes], list[bytes]]

pytestmark = pytest.mark.wire

PORTS = tuple(f"Ethernet1/{i}" for i in range(1, 33))
INTERVAL_S = 30.0
"""A tenth of it is what a good agent's poll may be delayed by; it is a hundred times what it takes,
so that a busy machine does not fail the test."""


class SlowAgent(FaultyAgent):
    """Right, but every answer takes `latency_s`."""

    latency_s = 1.0

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Later."""
        answer = super().datagram_received
        asyncio.get_running_loop().call_later(self.latency_s, self._late, answer, data, addr)

    def _late(self, answer: Callable[[bytes, Any], None], data: bytes, addr: Any) -> None:
        if self.transport is not None and not self.transport.is_closing():
            answer(data, addr)


def endless() -> Fault:
    """Whatever is walked goes on and on."""
    made: set[ber.Oid] = set()

    def fault(request: bytes, reply: bytes) -> list[bytes]:
        asked = pdu(request).varbinds[0].oid
        if len(pdu(request).varbinds) > 1:
            return [reply]
        stem, first = (asked[:-1], asked[-1] + 1) if asked in made else (asked, 1)
        found = [Varbind((*stem, first + i), ber.INTEGER, 6) for i in range(50)]
        made.add(found[-1].oid)
        return [rewrite(reply, found)]

    return fault


def garbage() -> Fault:
    """Right ids, wrong octets."""
    rng = random.Random(7)

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        at = rng.randrange(30, len(reply))
        return [reply[:at] + rng.randbytes(len(reply) - at)]

    return fault


def behind() -> Fault:
    """Always the answer to the question before."""
    held = [b"0"]

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        held.append(reply)
        return [held.pop(0)]

    return fault


LIARS: dict[str, Fault] = {
    "endless": endless(),
    "garbage": garbage(),
    "flood": lambda _request, reply: [reply] * 50,
    "repeats itself": lambda _q, reply: [rewrite(reply, [*pdu(reply).varbinds[:3]] * 2)],
    "too big": lambda _q, reply: [rewrite(reply, (), status=1)],
    "late by a reply": behind(),
}


@contextlib.asynccontextmanager
async def company(how: Credential, dead: int, slow: int) -> AsyncIterator[list[Target]]:
    """Targets of all the bad kinds."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for i in range(dead):
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.bind(("127.0.0.1", 0))
            found.append(target(f"127.0.0.1:{sock.getsockname()[1]}", how, f"dead{i}"))
        for name, fault in LIARS.items():
            liar = await stack.enter_async_context(faulty(switch(PORTS, name)))
            liar.fault = fault
            found.append(target(liar.address, how, name))
        for i in range(slow):
            transport, agent = await loop.create_datagram_endpoint(
                partial(SlowAgent, switch(PORTS, f"slow{i}"), "nxos", COUNTED),
                local_addr=("127.0.0.1", 0),
            )
            stack.callback(transport.close)
            found.append(target(agent.address, how, f"slow{i}"))
        yield found


async def polled(snmp: SnmpCollector, one: Target) -> float:
    """Seconds that a good agent's whole poll took."""
    begun = asyncio.get_running_loop().time()
    poll = await snmp.poll(one)
    assert poll.lost == {}
    assert (poll.batches[0].state == State.OK).all()
    return asyncio.get_running_loop().time() - begun


async def try_poll(snmp: SnmpCollector, one: Target) -> None:
    """A bad agent's poll, under a deadline as the guard sets it."""
    with contextlib.suppress(PollError, TimeoutError):
        async with asyncio.timeout(2.0):
            await snmp.poll(one)


@pytest.mark.parametrize("receive_buffer", [4 << 20, 2048])
async def test_bad_agents_delay_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receive_buffer: int
) -> None:
    """Among 30 dead, two slow and six lying agents, polls of good ones take a tenth longer at most.

    A tenth of the interval, that is, also where the kernel grants next to no receive buffer.
    """
    monkeypatch.setattr(session, "MAX_WALK", 5_000)
    how = credential(tmp_path, {"community": COMMUNITY})
    async with (
        faulty(switch(PORTS, "good0")) as one,
        faulty(switch(PORTS, "good1")) as two,
        company(how, dead=30, slow=2) as bad,
    ):
        good = [target(agent.address, how, f"good{i}") for i, agent in enumerate((one, two))]
        settings = {"timeout": 0.5, "retries": 1, "receive_buffer": receive_buffer}
        async with collector(*good, *bad, **settings) as snmp:
            alone = max([await polled(snmp, each) for each in good * 2])
            for _ in range(3):
                beside = [asyncio.create_task(try_poll(snmp, each)) for each in bad]
                await asyncio.sleep(0)
                took = [await polled(snmp, each) for each in good]
                assert max(took) < alone + INTERVAL_S / 10
                await asyncio.wait(beside)


async def test_long_walks_do_not_hold_up_a_first_poll(tmp_path: Path) -> None:
    """Twenty agents that take a second for each answer are walked; a good one need not wait."""
    how = credential(tmp_path, {"community": COMMUNITY})
    async with faulty(switch(PORTS, "good")) as agent, company(how, dead=0, slow=20) as bad:
        slow = [each for each in bad if each.name.startswith("slow")]
        good = target(agent.address, how, "good")
        async with collector(good, *slow, timeout=5.0) as snmp:
            walks = [asyncio.create_task(snmp.poll(each)) for each in slow]
            await asyncio.sleep(1.5)  # their first answers: all of them want to walk now
            await polled(snmp, good)
            assert not any(walk.done() for walk in walks)
            for walk in walks:
                walk.cancel()
            await asyncio.wait(walks)


def left_behind() -> tuple[int, int, int, int]:
    """Descriptors, threads, tasks and objects of this process."""
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is wanted
    tasks = len(asyncio.all_tasks())
    return descriptors, threading.active_count(), tasks, len(gc.get_objects())


async def test_ten_thousand_polls_with_half_time_outs_leave_nothing(tmp_path: Path) -> None:
    """A hundred targets, half of them dead, a hundred polls each: as it was after the tenth."""
    how = credential(tmp_path, {"community": COMMUNITY})
    async with faulty(switch(PORTS[:4])) as agent, company(how, dead=50, slow=0) as bad:
        dead = [each for each in bad if each.name.startswith("dead")]
        live = [target(agent.address, how, f"live{i}") for i in range(50)]
        failed = 0
        async with collector(*live, *dead, timeout=0.02, retries=0) as snmp:
            for polls in range(100):
                results = await asyncio.gather(
                    *map(snmp.poll, (*live, *dead)), return_exceptions=True
                )
                failed += sum(isinstance(result, PollError) for result in results)
                del results
                if polls == 10:
                    before = left_behind()
            after = left_behind()
        assert failed >= 5_000
        assert after[:3] == before[:3]
        assert after[3] - before[3] < 1_000


async def test_a_stop_in_the_middle_leaves_no_socket(tmp_path: Path) -> None:
    """Stopped while agents are walked and polled: everybody who waits is told, nothing reopens."""
    how = credential(tmp_path, {"community": COMMUNITY})
    async with faulty(switch(PORTS)) as agent, company(how, dead=5, slow=2) as bad:
        await asyncio.sleep(0)
        before = left_behind()[:2]
        async with collector(target(agent.address, how, "good"), *bad, pace=50) as snmp:
            polls = [asyncio.create_task(snmp.poll(each.target)) for each in snmp._devices.values()]
            await asyncio.sleep(0.3)
        _, waiting = await asyncio.wait(polls, timeout=5.0)
        assert not waiting
        await asyncio.sleep(0.3)
        assert left_behind()[0] == before[0]
        assert snmp._wire._sockets == {}
