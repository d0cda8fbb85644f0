"""Every way in which a reply can be wrong has a counted reason, and none outlives its poll."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.snmp_faulty import COMMUNITY, FaultyAgent, faulty, pdu, rewrite, switch
from support.snmp_targets import collector, credential, target

from fabricmon.collectors.snmp.fast_path.wire import Refused
from fabricmon.errors import PollError, Reason
from fabricmon.formats.snmp import ber, snmp
from fabricmon.formats.snmp.snmp import Varbind
from fabricmon.model.readings import State
from fabricmon.simulate.agents.snmp.v3 import UsmResponder, V3User

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fabricmon.collectors.snmp import SnmpCollector

    Fault = Callable[[bytes, bytes], Sequence[bytes]]

pytestmark = pytest.mark.wire

PORTS = tuple(f"Ethernet1/{i}" for i in range(1, 33))


def changed(make: Callable[[Varbind], Varbind]) -> Fault:
    """The reply with each varbind replaced."""
    return lambda _request, reply: [rewrite(reply, [make(v) for v in pdu(reply).varbinds])]


def with_body(body: Callable[[bytes], bytes]) -> Fault:
    """The reply around other octets where each of its varbinds was."""

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        encoded = b"".join(body(snmp.encode_varbind(v)) for v in pdu(reply).varbinds)
        made = snmp.response(pdu(reply).request_id, encoded)
        return [snmp.message(COMMUNITY.encode(), made)]

    return fault


def first_octets(octets: bytes) -> Fault:
    """The reply with other octets in front."""
    return lambda _request, reply: [octets + reply[len(octets) :]]


def _renamed(old: bytes, new: bytes) -> Fault:
    return lambda _request, reply: [reply.replace(old, new, 1)]


def _kind(kind: int) -> Fault:
    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        body = b"".join(map(snmp.encode_varbind, pdu(reply).varbinds))
        made = snmp.response(pdu(reply).request_id, body, kind=kind)
        return [snmp.message(COMMUNITY.encode(), made)]

    return fault


def _other_id(_request: bytes, reply: bytes) -> list[bytes]:
    body = b"".join(map(snmp.encode_varbind, pdu(reply).varbinds))
    return [snmp.message(COMMUNITY.encode(), snmp.response(pdu(reply).request_id ^ 1, body))]


def _long_oid(encoded: bytes) -> bytes:
    _, start, _ = ber.header(encoded, 0, len(encoded))
    tag, at, stop = ber.header(encoded, start, len(encoded))
    return ber.tlv(ber.SEQUENCE, ber.tlv(tag, encoded[at:stop] + b"\xff" * 5 + b"\x01") + b"\x05\0")


def _with_value(value: bytes) -> Callable[[bytes], bytes]:
    """The varbind with this element for its value."""

    def body(encoded: bytes) -> bytes:
        _, start, _ = ber.header(encoded, 0, len(encoded))
        _, _, stop = ber.header(encoded, start, len(encoded))
        return ber.tlv(ber.SEQUENCE, encoded[start:stop] + value)

    return body


def status(number: int) -> Fault:
    """An error instead of values."""
    return lambda _request, reply: [rewrite(reply, (), status=number)]


def _backwards(_request: bytes, reply: bytes) -> list[bytes]:
    return [rewrite(reply, pdu(reply).varbinds[::-1])]


WRONG: dict[str, tuple[Fault, Reason | Refused]] = {
    "one octet": (lambda _q, _r: [b"0"], Refused.MALFORMED),
    "something else": (lambda _q, _r: [b"HTTP/1.1 400 Bad Request\r\n"], Refused.MALFORMED),
    "zeros": (lambda _q, _r: [bytes(100)], Refused.LATE),
    "cut in the middle": (lambda _q, r: [r[: len(r) // 2]], Refused.MALFORMED),
    "cut before the PDU": (lambda _q, r: [r[:14]], Refused.MALFORMED),
    "another version": (_renamed(b"\x02\x01\x01\x04", b"\x02\x01\x00\x04"), Refused.UNTRUSTED),
    "another community": (_renamed(b"public", b"secret"), Refused.UNTRUSTED),
    "another request": (_other_id, Refused.LATE),
    "a request instead": (_kind(0xA0), Refused.MALFORMED),
    "a notification": (_kind(0xA7), Refused.MALFORMED),
    "an unknown kind": (_kind(0x30), Refused.MALFORMED),
    "a value of unknown type": (with_body(_with_value(b"\x47\x01\x07")), Refused.MALFORMED),
    "a counter of ten octets": (
        with_body(_with_value(b"\x46\x0a" + bytes(10))),
        Refused.MALFORMED,
    ),
    "a counter of 72 bits": (
        with_body(_with_value(b"\x46\x09" + b"\x7f" * 9)),
        Refused.MALFORMED,
    ),
    "a counter without octets": (with_body(_with_value(b"\x46\x00")), Refused.MALFORMED),
    "an endless length": (with_body(_with_value(b"\x46\x84\xff\xff\xff\xff")), Refused.MALFORMED),
    "an indefinite length": (with_body(_with_value(b"\x46\x80\x00\x00")), Refused.MALFORMED),
    "two values": (with_body(_with_value(b"\x46\x01\x07\x46\x01\x07")), Refused.MALFORMED),
    "no value": (with_body(_with_value(b"")), Refused.MALFORMED),
    "an object id of huge numbers": (with_body(_long_oid), Refused.MALFORMED),
    "no varbinds": (lambda _q, r: [rewrite(r, ())], Reason.TRUNCATED),
    "other objects": (changed(lambda v: v._replace(oid=(1, 3, 9, *v.oid[-2:]))), Reason.UNEXPECTED),
    "objects that do not increase": (_backwards, Reason.MALFORMED),
    "text for a number": (
        changed(lambda v: v._replace(tag=ber.OCTETS, value=b"many")),
        Reason.UNEXPECTED,
    ),
    "numbers below zero": (
        changed(lambda v: v._replace(tag=ber.INTEGER, value=-5)),
        Reason.UNEXPECTED,
    ),
    "no such instance": (changed(lambda v: v._replace(tag=0x81, value=None)), Reason.UNEXPECTED),
    "the end of everything": (
        changed(lambda v: v._replace(tag=0x82, value=None)),
        Reason.UNEXPECTED,
    ),
    "too big, whatever is asked": (status(1), Reason.LIMIT),
    "general error": (status(5), Reason.UNEXPECTED),
    "an error nobody knows": (status(99), Reason.UNEXPECTED),
}


async def counted(snmp: SnmpCollector, here: object) -> Counter[str]:
    """What two polls lost and refused, by reason."""
    found: Counter[str] = Counter()
    for _ in range(2):
        try:
            poll = await asyncio.wait_for(snmp.poll(here), 30)  # type: ignore[arg-type]
        except PollError as error:
            found[error.reason] += 1
        else:
            found.update(poll.lost)
    refused = snmp._context.report.metrics.replies_refused
    for reason in Refused:
        found[f"refused {reason}"] += int(refused.labels("snmp", reason.value)._value.get())
    return found


async def assert_heals(snmp: SnmpCollector, agent: FaultyAgent, here: object) -> None:
    """Once the agent is right again, so is the next poll."""
    agent.fault = lambda _request, reply: [reply]
    for device in snmp._devices.values():
        device.doubtful = True
    poll = await snmp.poll(here)  # type: ignore[arg-type]
    assert poll.lost == {}
    assert (poll.batches[0].state == State.OK).all()


@pytest.mark.parametrize("name", WRONG)
async def test_each_wrong_reply_has_its_reason(tmp_path: Path, name: str) -> None:
    """What is wrong with a reply is counted under one reason, and nothing of it is taken."""
    fault, reason = WRONG[name]
    how = credential(tmp_path, {"community": COMMUNITY})
    async with faulty(switch(PORTS)) as agent:
        here = target(agent.address, how)
        async with collector(here, timeout=0.05, retries=1, max_repetitions=50) as snmp:
            await snmp.poll(here)
            agent.fault = fault
            found = await counted(snmp, here)
            key = f"refused {reason}" if isinstance(reason, Refused) else reason
            assert found[key] > 0, dict(found)
            await assert_heals(snmp, agent, here)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a changed octet", Refused.UNTRUSTED),
        ("a cut end", Refused.UNTRUSTED),
        ("no signature", Refused.UNTRUSTED),
        ("an old reply", Refused.LATE),
        ("zeros", Refused.LATE),
    ],
)
async def test_each_wrong_v3_reply_has_its_reason(
    tmp_path: Path, name: str, reason: Refused
) -> None:
    """A v3 reply that is not whole, not signed or not of now is not used, and counted."""
    rng, old = random.Random(3), []
    user = V3User()

    def fault(_request: bytes, reply: bytes) -> list[bytes]:
        old.append(reply)
        if name == "a changed octet":
            at = rng.randrange(len(reply) // 2, len(reply))
            return [reply[:at] + bytes((reply[at] ^ 0x55,)) + reply[at + 1 :]]
        if name == "a cut end":
            return [reply[: len(reply) - 9]]
        if name == "no signature":
            return [reply.replace(b"\x04\x01\x03\x02\x01\x03", b"\x04\x01\x00\x02\x01\x03", 1)]
        return [old[0]] if name == "an old reply" else [bytes(100)]

    how = credential(
        tmp_path, {"auth_key": user.auth_key, "priv_key": user.priv_key}, user=user.name
    )
    async with faulty(switch(PORTS)) as agent:
        inner = agent.responder
        agent.responder = UsmResponder(inner, COMMUNITY.encode(), "leaf1", user, lambda: 1_000)  # type: ignore[assignment]
        here = target(agent.address, how)
        async with collector(here, timeout=0.05, retries=1) as snmp:
            await snmp.poll(here)
            agent.fault = fault
            assert (await counted(snmp, here))[f"refused {reason}"] > 0
            await assert_heals(snmp, agent, here)


async def test_a_walk_of_wrong_replies_ends(tmp_path: Path) -> None:
    """An agent that is wrong from the first reply on is a failed poll each time, and no more."""
    how = credential(tmp_path, {"community": COMMUNITY})
    for name in ("cut in the middle", "no varbinds", "objects that do not increase", "one octet"):
        async with faulty(switch(PORTS)) as agent:
            agent.fault = WRONG[name][0]
            here = target(agent.address, how)
            async with collector(here, timeout=0.05, retries=0) as snmp:
                with contextlib.suppress(PollError):
                    poll = await asyncio.wait_for(snmp.poll(here), 30)
                    assert poll.lost
