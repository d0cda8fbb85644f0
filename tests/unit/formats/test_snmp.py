"""SNMP messages, read plainly."""

from __future__ import annotations

import pytest

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber, snmp
from fabricmon.formats.snmp.snmp import PduType, Varbind

OID = (1, 3, 6, 1, 2, 1, 2, 2, 1, 10, 1)


def reply(*varbinds: Varbind, status: int = 0) -> bytes:
    """A reply of an agent."""
    body = b"".join(map(snmp.encode_varbind, varbinds))
    return snmp.message(b"public", snmp.response(0x40000001, body, status=status))


def test_a_request_is_as_the_standard_writes_it() -> None:
    """A GETBULK of ifInOctets with 10 repetitions, octet by octet."""
    pdu = snmp.request(PduType.GETBULK, 0x12345678, [OID[:-1]], repeat=10)
    assert snmp.message(b"public", pdu).hex(" ") == (
        "30 2a 02 01 01 04 06 70 75 62 6c 69 63 "
        "a5 1d 02 04 12 34 56 78 02 01 00 02 01 0a "
        "30 0f 30 0d 06 09 2b 06 01 02 01 02 02 01 0a 05 00"
    )


@pytest.mark.parametrize(
    "varbind",
    [
        Varbind(OID, ber.COUNTER32, 2**32 - 1),
        Varbind(OID, ber.COUNTER64, 2**64 - 1),
        Varbind(OID, ber.INTEGER, -5),
        Varbind(OID, ber.OCTETS, b"Ethernet1"),
        Varbind(OID, ber.OID, (1, 3, 6, 1)),
        Varbind(OID, ber.NULL, None),
        Varbind(OID, snmp.Gone.END_OF_MIB_VIEW, None),
    ],
)
def test_varbinds_round_trip(varbind: Varbind) -> None:
    """Every type comes back with its tag."""
    data = reply(varbind)
    _, at = snmp.pdu_of(data)
    assert snmp.decode(data, at).varbinds == (varbind,)


@pytest.mark.parametrize(
    ("content", "value"),
    [("ff", 255), ("ffff", 65_535), ("00ffffffffffffffff", 2**64 - 1), ("000001", 1), ("0c", 12)],
)
def test_counters_of_odd_lengths_are_unsigned(content: str, value: int) -> None:
    """Agents strip or add leading zeros, or forget that a counter has no sign."""
    assert snmp.value_of(ber.COUNTER64, bytes.fromhex(content)) == value


@pytest.mark.parametrize("tag", [ber.COUNTER32, ber.INTEGER])
@pytest.mark.parametrize("size", [0, 10])
def test_numbers_of_impossible_lengths_are_refused(tag: int, size: int) -> None:
    """No number has no octets, or ten."""
    with pytest.raises(FormatError):
        snmp.value_of(tag, b"\x01" * size)


def test_an_unknown_type_is_refused() -> None:
    """A value with a tag that SNMP does not have is a format error, not a number."""
    with pytest.raises(FormatError, match="0x99"):
        snmp.value_of(0x99, b"\x01")


def test_a_reply_of_version_1_is_refused() -> None:
    """An agent that falls back to version 1 is not read as 2c."""
    data = reply(Varbind(OID, ber.INTEGER, 1)).replace(b"\x02\x01\x01\x04", b"\x02\x01\x00\x04")
    with pytest.raises(FormatError, match="2c"):
        snmp.pdu_of(data)


def test_every_torn_reply_is_a_format_error() -> None:
    """Cut anywhere, a reply is refused as a whole."""
    data = reply(Varbind(OID, ber.COUNTER64, 7), Varbind(OID, ber.OCTETS, b"x" * 200))
    for size in range(len(data)):
        with pytest.raises(FormatError):
            snmp.decode(data[:size], snmp.pdu_of(data[:size])[1])
