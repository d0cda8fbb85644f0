"""The fast decoder against the plain one, and both against pysnmp; and no input hurts either."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.collectors.snmp.fast_path.wire import message_key
from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber, snmp, snmp_usm
from fabricmon.formats.snmp import snmp_lockstep as lockstep
from fabricmon.formats.snmp.snmp import Varbind

PREFIX = (1, 3, 6, 1, 4, 1)
NUMBERS = {
    ber.INTEGER: st.integers(0, 2**31 - 1),
    ber.COUNTER32: st.integers(0, 2**32 - 1),
    ber.GAUGE32: st.integers(0, 2**32 - 1),
    ber.TIMETICKS: st.integers(0, 2**32 - 1),
    ber.COUNTER64: st.integers(0, 2**64 - 1),
}

oids = st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=12).map(
    lambda tail: (*PREFIX, *tail)
)
number_binds = st.sampled_from(sorted(NUMBERS)).flatmap(
    lambda tag: st.builds(Varbind, oids, st.just(tag), NUMBERS[tag])
)
other_binds = st.one_of(
    st.builds(Varbind, oids, st.just(ber.OCTETS), st.binary(max_size=300)),
    st.builds(Varbind, oids, st.just(ber.OID), oids),
    st.builds(Varbind, oids, st.sampled_from([0x80, 0x81, 0x82]), st.none()),
    st.builds(Varbind, oids, st.just(ber.INTEGER), st.integers(-(2**31), -1)),
)
replies = st.lists(number_binds, min_size=1, max_size=20)


def encode(varbinds: list[Varbind], number: int = snmp.MIN_REQUEST_ID) -> tuple[bytes, int]:
    """A message and the offset of its PDU."""
    body = b"".join(map(snmp.encode_varbind, varbinds))
    data = snmp.message(b"public", snmp.response(number, body))
    return data, snmp.pdu_of(data)[1]


def expected(varbinds: list[Varbind], longest: int, words: int) -> np.ndarray:
    """The expectation of one reply, padded."""
    encoded = [ber.encode_oid(varbind.oid) for varbind in varbinds]
    out = np.zeros((longest, 1 + words), np.int64)
    out[: len(encoded)] = lockstep.expectation(encoded, words)
    return out


def lockstep_decode(batch: list[list[Varbind]], data: list[tuple[bytes, int]]) -> lockstep.Decoded:
    """Decode replies that are expected to be `batch`."""
    longest = max(map(len, batch))
    words = max(lockstep.words_for([ber.encode_oid(v.oid) for v in reply]) for reply in batch)
    wanted = np.stack([expected(reply, longest, words) for reply in batch])
    return lockstep.decode([d for d, _ in data], [at for _, at in data], wanted)


def plain_varbinds(data: bytes, at: int, count: int) -> list[Varbind]:
    """The first varbinds as the plain reader sees them, whatever the lengths around them say."""
    at += 2 + (data[at + 1] & 0x7F if data[at + 1] & 0x80 else 0)
    for _ in range(3):
        _, at = ber.decode_integer(data, at, len(data))
    at += 2 + (data[at + 1] & 0x7F if data[at + 1] & 0x80 else 0)
    found = []
    for _ in range(count):
        varbind, at = snmp._varbind(data, at, len(data))
        found.append(varbind)
    return found


@given(st.lists(replies, min_size=1, max_size=12))
def test_lockstep_reads_what_was_written(batch: list[list[Varbind]]) -> None:
    """Replies of any lengths and OIDs, decoded together, give every value; none is odd."""
    decoded = lockstep_decode(batch, [encode(reply) for reply in batch])
    assert not decoded.odd.any()
    for row, reply in enumerate(batch):
        assert decoded.values[: len(reply), row].tolist() == [v.value for v in reply]


@given(replies, st.lists(st.one_of(number_binds, other_binds), max_size=20))
def test_lockstep_never_takes_what_was_not_expected(
    wanted: list[Varbind], sent: list[Varbind]
) -> None:
    """Whatever an agent sends instead, a reply that is not odd holds exactly what was asked for."""
    decoded = lockstep_decode([wanted], [encode(sent)])
    if not decoded.odd[0]:
        assert [v.oid for v in sent[: len(wanted)]] == [v.oid for v in wanted]
        for j, varbind in enumerate(sent[: len(wanted)]):
            if varbind.exists:
                assert decoded.values[j, 0] == varbind.value
            else:
                assert decoded.gone[j, 0]


@given(replies, st.data())
def test_lockstep_survives_any_change_of_octets(wanted: list[Varbind], data: st.DataObject) -> None:
    """A reply with octets changed, cut or added is odd, or says the same as the plain reader."""
    message, at = encode(wanted)
    changed = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(at, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(changed)), st.integers(at, len(changed))))
    decoded = lockstep_decode([wanted, wanted], [(bytes(changed[:cut]), at), (message, at)])
    assert not decoded.odd[1]
    if not decoded.odd[0]:
        found = plain_varbinds(bytes(changed[:cut]), at, len(wanted))
        assert [v.oid for v in found] == [v.oid for v in wanted]
        for j, varbind in enumerate(found):
            if varbind.exists:
                assert int(varbind.value) % 2**64 == decoded.values[j, 0]  # type: ignore[arg-type]


@given(st.binary(max_size=400))
def test_no_octets_hurt_the_readers(data: bytes) -> None:
    """Any datagram is decoded or refused as a format error, in every reader."""
    for read in (snmp.decode, snmp.pdu_of, snmp_usm.message_id_of):
        with contextlib.suppress(FormatError):
            read(data)
    with contextlib.suppress(FormatError):
        snmp_usm.open_message(data, None)
    with contextlib.suppress(IndexError):
        assert len(message_key(data)) <= 4
    wanted = np.stack([expected([Varbind((*PREFIX, 1, 2, 3), 2, 1)], 1, 2)])
    lockstep.decode([data], [0], wanted)


@given(st.lists(st.one_of(number_binds, other_binds), min_size=1, max_size=8))
def test_pysnmp_reads_the_same(varbinds: list[Varbind]) -> None:
    """What we encode, pysnmp decodes to the same OIDs, types and values."""
    from pyasn1.codec.ber import decoder
    from pysnmp.proto.api import v2c

    data, _ = encode(varbinds)
    message, rest = decoder.decode(data, asn1Spec=v2c.Message())
    assert not rest
    pdu = v2c.apiMessage.get_pdu(message)
    assert int(v2c.apiPDU.get_request_id(pdu)) == snmp.MIN_REQUEST_ID
    for varbind, (oid, value) in zip(varbinds, v2c.apiPDU.get_varbinds(pdu), strict=True):
        assert tuple(oid) == varbind.oid
        tag = value.tagSet[-1]
        assert tag.tagClass | tag.tagId == varbind.tag
        if isinstance(varbind.value, int):
            assert int(value) == varbind.value
        elif isinstance(varbind.value, bytes):
            assert value.asOctets() == varbind.value


@given(st.lists(st.one_of(number_binds, other_binds), min_size=1, max_size=8))
def test_what_pysnmp_writes_reads_the_same(varbinds: list[Varbind]) -> None:
    """What pysnmp encodes, the plain reader decodes to the same varbinds."""
    from pyasn1.codec.ber import encoder
    from pysnmp.proto import rfc1902, rfc1905
    from pysnmp.proto.api import v2c

    types = {
        ber.INTEGER: rfc1902.Integer32, ber.COUNTER32: rfc1902.Counter32,
        ber.GAUGE32: rfc1902.Gauge32, ber.TIMETICKS: rfc1902.TimeTicks,
        ber.COUNTER64: rfc1902.Counter64, ber.OCTETS: rfc1902.OctetString,
        ber.OID: rfc1902.ObjectIdentifier,
    }  # fmt: skip
    gone = {0x80: rfc1905.noSuchObject, 0x81: rfc1905.noSuchInstance, 0x82: rfc1905.endOfMibView}
    pdu = v2c.GetResponsePDU()
    v2c.apiPDU.set_defaults(pdu)
    v2c.apiPDU.set_varbinds(
        pdu,
        [(v.oid, types[v.tag](v.value) if v.exists else gone[v.tag]) for v in varbinds],
    )
    message = v2c.Message()
    v2c.apiMessage.set_defaults(message)
    v2c.apiMessage.set_community(message, b"public")
    v2c.apiMessage.set_pdu(message, pdu)
    data = encoder.encode(message)
    assert snmp.decode(data, snmp.pdu_of(data)[1]).varbinds == tuple(varbinds)


@pytest.mark.parametrize("rows", [1, 3, 300])
def test_batches_of_any_size_are_alike(rows: int) -> None:
    """One reply or more than one block of them: the same values."""
    reply = [Varbind((*PREFIX, 9, 9, i), ber.COUNTER64, 2**40 + i) for i in range(60)]
    decoded = lockstep_decode([reply] * rows, [encode(reply)] * rows)
    assert not decoded.odd.any()
    assert (decoded.values.T == np.array([v.value for v in reply], np.uint64)).all()
