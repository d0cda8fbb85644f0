"""Whatever a reply holds: the fast way and the plain way take the same from it, and count the rest.

Replies are made by pysnmp, so that what is valid is not our own opinion.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.codec.ber import encoder
from pysnmp.proto import rfc1902, rfc1905
from pysnmp.proto.api import v2c

from fabricmon.api import Context, Credential
from fabricmon.collectors.snmp.config import Access, SnmpConfig
from fabricmon.collectors.snmp.fast_path.asks import Reading, land
from fabricmon.collectors.snmp.fast_path.security import Community
from fabricmon.collectors.snmp.fast_path.session import FastSession
from fabricmon.collectors.snmp.fast_path.wire import Wire
from fabricmon.collectors.snmp.plan import compile_plan
from fabricmon.formats.snmp import snmp
from fabricmon.mappings.snmp_grid import Instances
from fabricmon.model.readings import State
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.collectors.snmp.plan import Plan

COLUMN = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6)
WANTED = [(*COLUMN, index) for index in (1, 2, 3, 7, 8, 130, 131, 20_000, 2**31, 2**32 - 1)]
TYPES = (
    rfc1902.Integer32, rfc1902.Counter32, rfc1902.Gauge32, rfc1902.TimeTicks, rfc1902.Counter64,
)  # fmt: skip
WIDTH = {rfc1902.Integer32: 31, rfc1902.Counter64: 64}

numbers = st.sampled_from(TYPES).flatmap(
    lambda kind: st.integers(0, 2 ** WIDTH.get(kind, 32) - 1).map(kind)
)
others = st.one_of(
    st.binary(max_size=200).map(rfc1902.OctetString),
    st.integers(-(2**31), -1).map(rfc1902.Integer32),
    st.just(rfc1902.ObjectIdentifier(COLUMN)),
    st.sampled_from((rfc1905.noSuchObject, rfc1905.noSuchInstance, rfc1905.endOfMibView)),
)
strangers = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4).map(
    lambda tail: (*COLUMN[:9], *tail)
)
varbinds = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(WANTED), strangers),
        st.one_of(numbers, numbers, numbers, others),
    ),
    max_size=14,
)


def plan_of(oids: Sequence[tuple[int, ...]]) -> Plan:
    """A plan that reads these ascending instances into cells 0, 1, 2 and so on."""
    together = np.array([i > 0 for i in range(len(oids))])
    return compile_plan(
        Instances(list(oids), np.arange(len(oids), dtype=np.int32), together), len(oids), ()
    )


def reply(found: Sequence[tuple[tuple[int, ...], object]]) -> bytes:
    """What pysnmp makes of these varbinds."""
    pdu = v2c.GetResponsePDU()
    v2c.apiPDU.set_defaults(pdu)
    v2c.apiPDU.set_request_id(pdu, snmp.MIN_REQUEST_ID)
    v2c.apiPDU.set_varbinds(pdu, list(found))
    message = v2c.Message()
    v2c.apiMessage.set_defaults(message)
    v2c.apiMessage.set_community(message, b"public")
    v2c.apiMessage.set_pdu(message, pdu)
    return bytes(encoder.encode(message))


class Landed:
    """What one reply left behind: values, states, losses, and how much is asked again."""

    def __init__(self, reading: Reading, refused: float) -> None:
        self.values = reading.flat.tolist()
        state = np.full(len(self.values), State.MISSING, np.uint8)
        reading.settle(state)
        self.state = state.tolist()
        self.lost, self.again, self.refused = dict(reading.lost), reading.outstanding, refused

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Landed) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def landed(data: bytes, at: int, *, together: int) -> Landed:
    """Land a reply `together` times at once: few go the plain way, more the fast one."""

    async def go() -> Landed:
        clock = ManualClock()
        context, config = Context(clock, Reporter(clock)), SnmpConfig()
        wire = Wire(config, context)
        access = Access(Credential("ro", {}, {}), 2, "", "none", "none", "", "fast")
        session = FastSession(
            "leaf1", socket.AF_INET, ("127.0.0.1", 9), access, Community(b"public"), config, wire
        )
        plan = plan_of(WANTED)
        asks, readings = [], []
        for _ in range(together):
            done = asyncio.get_running_loop().create_future()
            reading = Reading(plan, np.zeros(len(WANTED), np.uint64), done, 1, 1)
            ask = session._plan_ask(plan, 0, len(WANTED), is_run=True)
            ask.renew(reading)
            asks.append(ask)
            readings.append(reading)
        land([(ask, data, at) for ask in asks])
        refused = context.report.metrics.replies_refused.labels("snmp", "malformed")._value.get()
        found = [Landed(reading, refused / together) for reading in readings]
        assert all(one == found[0] for one in found)
        wire.close()
        return found[0]

    return asyncio.run(go())


def accounted(result: Landed) -> bool:
    """Nothing is lost in silence: a hole, and another question, has its reason."""
    holes = result.state.count(State.MISSING)
    return (not holes and not result.again) or bool(result.lost or result.refused or result.again)


@given(numbers.flatmap(lambda _: st.lists(numbers, min_size=len(WANTED), max_size=len(WANTED))))
def test_what_pysnmp_says_is_what_lands(values: list[object]) -> None:
    """A whole reply of any numeric types and sizes: every value, nothing lost, either way."""
    data = reply(list(zip(WANTED, values, strict=True)))
    at = snmp.pdu_of(data)[1]
    for together in (1, 5):
        result = landed(data, at, together=together)
        assert result.values == [int(value) for value in values]  # type: ignore[call-overload]
        assert set(result.state) == {State.OK}
        assert (result.lost, result.again, result.refused) == ({}, 0, 0)


@given(varbinds)
def test_both_ways_take_the_same_from_any_valid_reply(
    found: list[tuple[tuple[int, ...], object]],
) -> None:
    """Short, long, reordered, foreign, with exceptions and text: one result, nothing in silence."""
    data = reply(found)
    at = snmp.pdu_of(data)[1]
    plain, fast = (landed(data, at, together=together) for together in (1, 5))
    assert plain == fast
    assert accounted(plain)
    for oid, value, state in zip(WANTED, plain.values, plain.state, strict=True):
        if state == State.OK and not plain.again:
            assert value in [int(v) for o, v in found if o == oid and type(v) in TYPES]  # type: ignore[call-overload]


@given(varbinds, st.data())
def test_both_ways_survive_any_change_of_octets(
    found: list[tuple[tuple[int, ...], object]], data: st.DataObject
) -> None:
    """Octets changed, cut off or added: nothing raises, and nothing is lost in silence."""
    message = bytearray(reply(found))
    at = snmp.pdu_of(bytes(message))[1]
    for _ in range(data.draw(st.integers(1, 5))):
        message[data.draw(st.integers(at, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(at, len(message)))
    broken = bytes(message[:cut]) + data.draw(st.binary(max_size=20))
    for together in (1, 5):
        assert accounted(landed(broken, at, together=together))
