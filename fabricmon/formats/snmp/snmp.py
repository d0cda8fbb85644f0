"""SNMP messages: requests to send, replies to read. SNMPv2c here; `snmp_usm` wraps version 3.

This is the plain reader. `snmp_lockstep` reads many replies at once and is checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber
from fabricmon.formats.snmp.ber import Oid

if TYPE_CHECKING:
    from collections.abc import Iterable

Value: TypeAlias = int | bytes | Oid | None
"""What a varbind carries: a number, octets, an OID, or nothing (NULL and the three exceptions)."""

MIN_REQUEST_ID = 0x4000_0000
"""Request ids from here to 0x7FFFFFFF are always four octets long, so that they can be patched."""

V2C = 1
_UNSIGNED = frozenset((ber.COUNTER32, ber.GAUGE32, ber.TIMETICKS, ber.COUNTER64))


class PduType(IntEnum):
    """The kinds of PDU we send or understand."""

    GET = 0xA0
    GETNEXT = 0xA1
    RESPONSE = 0xA2
    GETBULK = 0xA5
    REPORT = 0xA8


class Gone(IntEnum):
    """Values that say why there is none, as their tags."""

    NO_SUCH_OBJECT = 0x80
    NO_SUCH_INSTANCE = 0x81
    END_OF_MIB_VIEW = 0x82


class ErrorStatus(IntEnum):
    """The error statuses an agent may answer a read with."""

    NO_ERROR = 0
    TOO_BIG = 1
    NO_SUCH_NAME = 2
    GEN_ERR = 5
    NO_ACCESS = 6
    RESOURCE_UNAVAILABLE = 13
    AUTHORIZATION_ERROR = 16


_GONE = frozenset(map(int, Gone))


class Varbind(NamedTuple):
    """One object and its value. `tag` tells a Counter32 from a Gauge32 and a value from none."""

    oid: Oid
    tag: int
    value: Value

    @property
    def exists(self) -> bool:
        """Whether there is such an object and instance."""
        return self.tag < Gone.NO_SUCH_OBJECT


@dataclass(frozen=True, slots=True)
class Pdu:
    """One decoded PDU."""

    type: int
    request_id: int
    error_status: int
    error_index: int
    varbinds: tuple[Varbind, ...]


def request(
    kind: PduType, request_id: int, oids: Iterable[Oid], *, non_repeaters: int = 0, repeat: int = 0
) -> bytes:
    """A GET, GETNEXT or GETBULK PDU. `repeat` is max-repetitions and only for GETBULK."""
    varbinds = b"".join(
        ber.tlv(ber.SEQUENCE, ber.tlv(ber.OID, ber.encode_oid(oid)) + b"\x05\x00") for oid in oids
    )
    content = (
        ber.integer(request_id)
        + ber.integer(non_repeaters)
        + ber.integer(repeat)
        + ber.tlv(ber.SEQUENCE, varbinds)
    )
    return ber.tlv(kind, content)


def response(
    request_id: int, varbinds: bytes, *, status: int = 0, index: int = 0, kind: int = 0xA2
) -> bytes:
    """A RESPONSE PDU around encoded varbinds, as agents send it."""
    return ber.tlv(
        kind,
        ber.integer(request_id)
        + ber.integer(status)
        + ber.integer(index)
        + ber.tlv(ber.SEQUENCE, varbinds),
    )


def encode_varbind(varbind: Varbind) -> bytes:
    """One varbind as agents send it."""
    value: Value = varbind.value
    if isinstance(value, int):
        body = ber.integer(value, varbind.tag)
    elif isinstance(value, bytes):
        body = ber.tlv(varbind.tag, value)
    elif isinstance(value, tuple):
        body = ber.tlv(ber.OID, ber.encode_oid(value))
    else:
        body = bytes((varbind.tag, 0))
    return ber.tlv(ber.SEQUENCE, ber.tlv(ber.OID, ber.encode_oid(varbind.oid)) + body)


def message(community: bytes, pdu: bytes) -> bytes:
    """An SNMPv2c message."""
    return ber.tlv(ber.SEQUENCE, prefix(community) + pdu)


def prefix(community: bytes) -> bytes:
    """What stands between the message's own header and its PDU: version 2c and the community."""
    return ber.integer(V2C) + ber.tlv(ber.OCTETS, community)


def pdu_of(data: bytes) -> tuple[bytes, int]:
    """Community and offset of the PDU of an SNMPv2c message."""
    start, stop = ber.expect(data, 0, len(data), ber.SEQUENCE)
    version, at = ber.decode_integer(data, start, stop)
    if version != V2C:
        raise FormatError(f"SNMP version {version} where 2c is due")
    start, at = ber.expect(data, at, stop, ber.OCTETS)
    return data[start:at], at


def decode(data: bytes, at: int = 0) -> Pdu:
    """The PDU at offset `at`. Raises `FormatError` for anything that is not one, whole."""
    kind, at, stop = ber.header(data, at, len(data))
    request_id, at = ber.decode_integer(data, at, stop)
    status, at = ber.decode_integer(data, at, stop)
    index, at = ber.decode_integer(data, at, stop)
    at, end = ber.expect(data, at, stop, ber.SEQUENCE)
    varbinds = []
    while at < end:
        varbind, at = _varbind(data, at, end)
        varbinds.append(varbind)
    return Pdu(kind, request_id, status, index, tuple(varbinds))


def decode_reply(data: bytes, at: int) -> Pdu:
    """The same, which must be a RESPONSE."""
    pdu = decode(data, at)
    if pdu.type != PduType.RESPONSE:
        raise FormatError(f"a PDU of kind 0x{pdu.type:02x} where a response is due")
    return pdu


def _varbind(data: bytes, at: int, end: int) -> tuple[Varbind, int]:
    """The varbind at `at` and where it stops; nearly all have three short lengths."""
    if at + 6 <= end and data[at] == ber.SEQUENCE and data[at + 2] == ber.OID:
        value = at + 4 + data[at + 3]
        stop = at + 2 + data[at + 1]
        if value + 2 <= stop <= end and value + 2 + data[value + 1] == stop < at + 0x82:
            oid = ber.decode_oid(data[at + 4 : value])
            tag = data[value]
            return Varbind(oid, tag, value_of(tag, data[value + 2 : stop])), stop
    return _any_varbind(data, at, end)


def _any_varbind(data: bytes, at: int, end: int) -> tuple[Varbind, int]:
    at, stop = ber.expect(data, at, end, ber.SEQUENCE)
    start, at = ber.expect(data, at, stop, ber.OID)
    oid = ber.decode_oid(data[start:at])
    tag, start, at = ber.header(data, at, stop)
    if at != stop:
        raise FormatError("a varbind holds more than one value")
    return Varbind(oid, tag, value_of(tag, data[start:at])), at


def value_of(tag: int, content: bytes) -> Value:
    """The value behind `tag`. Counters are unsigned whatever their length (agents differ)."""
    if tag in _UNSIGNED:
        if not 1 <= len(content) <= 9:
            raise FormatError("a counter of no or too many octets")
        if len(content) == 9 and content[0]:
            raise FormatError("a counter of more than 64 bits")
        return int.from_bytes(content, "big")
    if tag == ber.INTEGER:
        if not 1 <= len(content) <= 8:
            raise FormatError("an integer of no or too many octets")
        return int.from_bytes(content, "big", signed=True)
    if tag in (ber.OCTETS, ber.IP_ADDRESS, ber.OPAQUE):
        return content
    if tag == ber.OID:
        return ber.decode_oid(content)
    if tag == ber.NULL or tag in _GONE:
        return None
    raise FormatError(f"a value with the unknown tag 0x{tag:02x}")
