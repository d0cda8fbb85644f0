"""Saved walks: snmpsim's `.snmprec` (`OID|type|value`) and the text of `snmpwalk -On`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber
from fabricmon.formats.snmp.snmp import Gone, Value, Varbind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MAX_LINE = 1 << 20
_NUMBERS = frozenset((ber.INTEGER, ber.COUNTER32, ber.GAUGE32, ber.TIMETICKS, ber.COUNTER64))
_OCTETS = frozenset((ber.OCTETS, ber.IP_ADDRESS, ber.OPAQUE))
_TAGS = _NUMBERS | _OCTETS | {ber.OID, ber.NULL}

_WALK = re.compile(r"(?P<oid>\.?(?:iso|\d+)(?:\.\d+)+) = (?:(?P<type>[\w-]+): ?)?(?P<value>.*)$")
_WALK_TYPES = {
    "INTEGER": ber.INTEGER,
    "STRING": ber.OCTETS,
    "Hex-STRING": ber.OCTETS,
    "OID": ber.OID,
    "Timeticks": ber.TIMETICKS,
    "Counter32": ber.COUNTER32,
    "Gauge32": ber.GAUGE32,
    "Counter64": ber.COUNTER64,
    "IpAddress": ber.IP_ADDRESS,
}


def is_snmprec(head: str) -> bool:
    """Whether the first non-empty line looks like `OID|type|value`."""
    for line in head.splitlines():
        if line.strip():
            return re.match(r"\d+(\.\d+)+\|[\w:]+\|", line) is not None
    return False


def is_walk(head: str) -> bool:
    """Whether the first non-empty line looks like `snmpwalk -On` output."""
    for line in head.splitlines():
        if line.strip():
            return _WALK.match(line) is not None and " = " in line
    return False


def read_snmprec(lines: Iterable[str], problem: Callable[[int, str], None]) -> Iterator[Varbind]:
    """Every varbind of a recording; a bad line costs itself and is told to `problem`."""
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            continue
        try:
            yield _snmprec_line(text)
        except FormatError as error:
            problem(number, str(error))


def _snmprec_line(text: str) -> Varbind:
    if len(text) > _MAX_LINE:
        raise FormatError("a line of more than 1 MiB")
    oid_text, _, rest = text.partition("|")
    kind, found, value = rest.partition("|")
    if not found:
        raise FormatError("not OID|type|value")
    oid = ber.parse_oid(oid_text)
    if ":" in kind:
        raise FormatError(f"variation module {kind!r}: only plain values can be read")
    is_hex = kind.endswith("x")
    if not kind.rstrip("x").isdigit():
        raise FormatError(f"{kind!r} is not a type")
    tag = int(kind.rstrip("x"))
    if tag not in _TAGS:
        raise FormatError(f"{kind!r} is not a type")
    return Varbind(oid, tag, _snmprec_value(tag, value, is_hex=is_hex))


def _snmprec_value(tag: int, text: str, *, is_hex: bool) -> Value:
    try:
        if is_hex:
            raw = bytes.fromhex(text)
            return raw if tag in _OCTETS else int.from_bytes(raw, "big")
        if tag in _NUMBERS:
            return int(text)
        if tag == ber.OID:
            return ber.parse_oid(text)
        if tag == ber.IP_ADDRESS:
            return bytes(int(part) for part in text.split("."))
    except ValueError as error:
        raise FormatError(f"{text[:40]!r} is not a value of type {tag}") from error
    return None if tag == ber.NULL else text.encode("utf-8", "surrogateescape")


def write_snmprec(varbinds: Iterable[Varbind]) -> Iterator[str]:
    """One line a varbind, sorted as snmpsim wants them; octets that are not plain text as hex."""
    for varbind in sorted(varbinds, key=lambda item: item.oid):
        yield f"{ber.oid_text(varbind.oid)}|{_typed(varbind)}\n"


def _typed(varbind: Varbind) -> str:
    value = varbind.value
    if isinstance(value, bytes):
        plain = value.isascii() and value.decode("ascii").isprintable()
        if varbind.tag == ber.OCTETS and plain:
            return f"{varbind.tag}|{value.decode('ascii')}"
        return f"{varbind.tag}x|{value.hex()}"
    if isinstance(value, tuple):
        return f"{varbind.tag}|{ber.oid_text(value)}"
    return f"{varbind.tag}|{'' if value is None else value}"


def read_walk(lines: Iterable[str], problem: Callable[[int, str], None]) -> Iterator[Varbind]:
    """Every varbind of `snmpwalk -On` text. Values of several lines are joined."""
    held: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if _WALK.match(text) is None and held is not None:
            held = (held[0], f"{held[1]}\n{text}"[:_MAX_LINE])
            continue
        if held is not None:
            yield from _walk_entry(*held, problem)
        held = (number, text)
    if held is not None:
        yield from _walk_entry(*held, problem)


def _walk_entry(number: int, text: str, problem: Callable[[int, str], None]) -> Iterator[Varbind]:
    if not text.strip():
        return
    first, _, rest = text.partition("\n")
    match = _WALK.match(first)
    if match is None:
        problem(number, "not `OID = TYPE: value`")
        return
    try:
        oid = ber.parse_oid(match["oid"].lstrip(".").replace("iso", "1", 1))
        value = f"{match['value']}\n{rest}" if rest else match["value"]
        yield _walk_value(oid, match["type"] or "", value)
    except (FormatError, ValueError) as error:
        problem(number, str(error))


def _walk_value(oid: ber.Oid, kind: str, text: str) -> Varbind:
    text = text.rstrip("\n")
    if not kind:
        return _untyped(oid, text)
    tag = _WALK_TYPES.get(kind)
    if tag is None:
        raise FormatError(f"the type {kind!r} is not known")
    return Varbind(oid, tag, _typed_value(kind, tag, text))


def _untyped(oid: ber.Oid, text: str) -> Varbind:
    if text.strip() == '""':
        return Varbind(oid, ber.OCTETS, b"")
    for gone, words in _GONE_TEXT.items():
        if text.startswith(words):
            return Varbind(oid, gone, None)
    raise FormatError(f"no type before {text[:40]!r}")


def _typed_value(kind: str, tag: int, text: str) -> Value:
    if kind == "Hex-STRING":
        return bytes.fromhex(text)
    if tag in _NUMBERS:
        number = re.search(r"-?\d+", text)
        if number is None:
            raise FormatError(f"{text[:40]!r} is not a number")
        return int(number[0])
    if tag == ber.OID:
        return ber.parse_oid(text.lstrip(".").replace("iso", "1", 1))
    if tag == ber.IP_ADDRESS:
        return bytes(int(part) for part in text.split("."))
    unquoted = text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text
    return unquoted.encode("utf-8", "surrogateescape")


_GONE_TEXT = {
    Gone.NO_SUCH_OBJECT: "No Such Object",
    Gone.NO_SUCH_INSTANCE: "No Such Instance",
    Gone.END_OF_MIB_VIEW: "No more variables",
}
