"""The small part of BER that SNMP uses. Pure; raises `FormatError`, never anything else."""

from __future__ import annotations

from functools import lru_cache

from fabricmon.errors import FormatError

INTEGER, OCTETS, NULL, OID, SEQUENCE = 0x02, 0x04, 0x05, 0x06, 0x30
IP_ADDRESS, COUNTER32, GAUGE32, TIMETICKS, OPAQUE, COUNTER64 = 0x40, 0x41, 0x42, 0x43, 0x44, 0x46

Oid = tuple[int, ...]
"""An object identifier as its numbers."""

MAX_OID = 128
"""Sub-identifiers in an OID, by SMI."""

_LARGEST = 0xFFFF_FFFF
_REMEMBERED = 1 << 16
"""OIDs come by the column: all of one differ in their last number only, so the rest is kept."""

_SHORT = 40
"""Octets or numbers of a rest that is kept: tables have no longer ones; a liar fills no memory."""


def length(count: int) -> bytes:
    """The length octets for `count` octets of content."""
    if count < 0x80:
        return bytes((count,))
    octets = count.to_bytes((count.bit_length() + 7) // 8, "big")
    return bytes((0x80 | len(octets),)) + octets


def tlv(tag: int, content: bytes) -> bytes:
    """One element: tag, length, content."""
    return bytes((tag,)) + length(len(content)) + content


def integer(value: int, tag: int = INTEGER) -> bytes:
    """A whole number. Never negative under an unsigned tag: a leading zero octet keeps the sign."""
    octets = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return tlv(tag, octets)


def encode_oid(oid: Oid) -> bytes:
    """The content octets of an OID of at least two numbers."""
    if not 2 < len(oid) <= _SHORT:
        return _encoded(oid)
    return _known_encoded(oid[:-1]) + _encoded_part(oid[-1])


def _encoded(oid: Oid) -> bytes:
    return b"".join(map(_encoded_part, (oid[0] * 40 + oid[1], *oid[2:])))


_known_encoded = lru_cache(maxsize=_REMEMBERED)(_encoded)


@lru_cache(maxsize=_REMEMBERED)
def _encoded_part(part: int) -> bytes:
    last = bytes((part & 0x7F,))
    higher = range(7, max(part.bit_length(), 1), 7)
    return bytes(0x80 | part >> shift & 0x7F for shift in reversed(higher)) + last


def decode_oid(content: bytes) -> Oid:
    """The numbers of an OID from its content octets."""
    if not content or content[-1] & 0x80:
        raise FormatError("an OID ends in the middle of a number")
    at = len(content) - 1
    while at and content[at - 1] & 0x80:
        at -= 1
    if not at:
        return _head(content)
    last = 0
    for octet in content[at:]:
        last = last << 7 | octet & 0x7F
    if last > _LARGEST:
        raise FormatError("a number of an OID is longer than 32 bits")
    head = _known_head(content[:at]) if at <= _SHORT else _head(content[:at])
    if len(head) >= MAX_OID:
        raise FormatError(f"an OID of more than {MAX_OID} numbers")
    return (*head, last)


def _head(content: bytes) -> Oid:
    parts = list(content) if max(content) < 0x80 else _parts(content)
    if len(parts) >= MAX_OID:
        raise FormatError(f"an OID of more than {MAX_OID} numbers")
    first = min(parts[0] // 40, 2)
    return (first, parts[0] - 40 * first, *parts[1:])


_known_head = lru_cache(maxsize=_REMEMBERED)(_head)


def _parts(content: bytes) -> list[int]:
    parts, value = [], 0
    for octet in content:
        value = value << 7 | octet & 0x7F
        if value > _LARGEST:
            raise FormatError("a number of an OID is longer than 32 bits")
        if octet < 0x80:
            parts.append(value)
            value = 0
    return parts


def header(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Tag, start and stop of the content of the element at `at`, which must end by `end`."""
    if at + 2 > end:
        raise FormatError("an element begins where the data ends")
    tag, count = data[at], data[at + 1]
    start = at + 2
    if count & 0x80:
        octets = count & 0x7F
        if not 1 <= octets <= 4 or start + octets > end:
            raise FormatError("a length that is not allowed")
        count = int.from_bytes(data[start : start + octets], "big")
        start += octets
    if start + count > end:
        raise FormatError("an element is longer than what holds it")
    return tag, start, start + count


def expect(data: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    """Start and stop of the content of the element at `at`, which must carry `tag`."""
    found, start, stop = header(data, at, end)
    if found != tag:
        raise FormatError(f"tag 0x{found:02x} where 0x{tag:02x} is due")
    return start, stop


def decode_integer(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The signed INTEGER at `at` and where it stops."""
    start, stop = expect(data, at, end, INTEGER)
    if not 1 <= stop - start <= 9:
        raise FormatError("an integer of no or too many octets")
    return int.from_bytes(data[start:stop], "big", signed=True), stop


def parse_oid(text: str) -> Oid:
    """`1.3.6.1` or `.1.3.6.1` as numbers."""
    try:
        oid = tuple(int(part) for part in text.strip().lstrip(".").split("."))
    except ValueError as error:
        raise FormatError(f"{text!r} is not an OID") from error
    if not 2 <= len(oid) <= MAX_OID or min(oid) < 0 or max(oid) > 0xFFFFFFFF or oid[0] > 2:
        raise FormatError(f"{text!r} is not an OID")
    return oid


def oid_text(oid: Oid) -> str:
    """Dotted numbers, without a leading dot."""
    return ".".join(map(str, oid))
