"""perfquery's text: one block per port, `Name:.....value`, in all its modes and versions.

Blocks begin with `# Port extended counters: Lid 1 port 2 (CapMask: 0x1300 CapMask2: 0x0000000)`;
other samplers print `Name: value` with no header, where a block begins at `PortSelect` or when a
name comes again. Port 255 is the sum over all ports and is never a port.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats.base import Bad, BadRecord
from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.ibtext import PortCounts, parse_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ALL_PORTS = 255
"""The port number of the sum over all ports."""

_HEADER = re.compile(
    r"# (?!Port info)(?P<title>.+?)(?: counters)?: Lid (?P<lid>\d{1,9}) port (?P<port>\d{1,9})"
    r"(?: \(CapMask: (?P<cap>0x[0-9a-fA-F]+)(?: CapMask2: (?P<cap2>0x[0-9a-fA-F]+))?\))?"
)
_VALUE = re.compile(r"(?P<name>[A-Za-z]\w*):\s*\.*\s*(?P<value>\S.*)$")
_GROUPS = {"Port": "PortCounters", "Port extended": "PortCountersExtended"}
# Fields that are part of the request, not counts.
_SELECTORS = frozenset({"PortSelect", "CounterSelect", "CounterSelect2"})
_ALONE = {
    field.name: group
    for group, fields in mad.FIELDS.items()
    if group not in {"PortCounters", "PortCountersExtended"}
    for field in fields
}
"""Fields that only one attribute has: where they stand without a header, they begin its block."""
_EXTENDED_ONLY = frozenset({"PortUnicastXmitPkts", "PortUnicastRcvPkts"})
_OURS = re.compile(
    r"^(?:# Port(?! info).*: Lid \d+ port \d+|PortSelect:|perfquery: )", re.MULTILINE
)
_FAILURE = re.compile(r"\S*perfquery: iberror: failed: (?P<why>.+)|ibwarn: .*(?P<warn>failed.*)")


def sniff(head: bytes) -> bool:
    """Whether this is perfquery output: blocks, bare `Name: value` lines, or its last words."""
    return _OURS.search(head.decode("latin-1")) is not None


def failure(stderr: str) -> str:
    """The last reason perfquery gave for giving up, or empty."""
    found = ""
    for line in stderr.splitlines():
        match = _FAILURE.match(line.strip())
        if match is not None:
            found = match["why"] or match["warn"]
    return found


def read(lines: Iterable[str], bad: Bad, file: str = "") -> Iterator[PortCounts]:
    """Every port's block; sums over all ports are left out.

    A line that cannot be read is reported and costs that one value.
    """
    block: PortCounts | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        header = _HEADER.match(line)
        if header is not None:
            yield from _complete(block)
            block = _begin(header, number)
            continue
        if line.startswith("perfquery: iberror"):
            bad(BadRecord(file, number, line))
            continue
        match = _VALUE.match(line)
        if match is None:
            continue  # command echo, other stderr noise, blank lines
        name = match["name"]
        if _begins_bare(block, name):
            yield from _complete(block)
            block = PortCounts(_ALONE.get(name, ""), block.port if block else 1, line=number)
        if block is not None:
            _take(block, name, match["value"], BadRecord(file, number, line[:80]), bad)
    yield from _complete(block)


def _begin(header: re.Match[str], line: int) -> PortCounts:
    title = header["title"]
    cap, cap2 = header["cap"], header["cap2"]
    return PortCounts(
        _GROUPS.get(title, title.removesuffix(" counters")),
        int(header["port"]),
        lid=int(header["lid"]),
        cap_mask=int(cap, 16) if cap else None,
        cap_mask2=int(cap2, 16) if cap2 else None,
        line=line,
    )


def _begins_bare(block: PortCounts | None, name: str) -> bool:
    """Whether a `Name: value` line opens a block that has no header."""
    if block is None:
        return name == "PortSelect"
    other = name in _ALONE and block.values and block.group != _ALONE[name]
    return not block.lid and (name == "PortSelect" or name in block.values or bool(other))


def _take(block: PortCounts, name: str, text: str, place: BadRecord, bad: Bad) -> None:
    try:
        value = parse_count(text)
    except ValueError:
        bad(BadRecord(place.file, place.line, f"{name} is not a count: {text[:40]!r}"))
        return
    if name == "PortSelect" and not block.lid and value is not None:
        block.port = value
    if name not in _SELECTORS:
        block.values[name] = value


def _complete(block: PortCounts | None) -> Iterator[PortCounts]:
    if block is None or not block.values or block.port == ALL_PORTS:
        return
    if not block.group:
        extended = not _EXTENDED_ONLY.isdisjoint(block.values)
        block.group = "PortCountersExtended" if extended else _bare_group(block.values)
    yield block


def _bare_group(values: dict[str, int | None]) -> str:
    """The attribute a block without a header belongs to, by a name that only it has."""
    if "PortXmitWait" in values or "SymbolErrorCounter" in values:
        return "PortCounters"
    first = next(iter(values))
    return _ALONE.get(first) or re.sub(r"\d+$", "", first)


def write(blocks: Iterable[PortCounts]) -> Iterator[str]:
    """The same text perfquery prints, one line at a time without line ends."""
    titles = {group: title for title, group in _GROUPS.items()}
    for block in blocks:
        caps = ""
        if block.cap_mask is not None:
            caps = f" (CapMask: 0x{block.cap_mask:02X}"
            if block.cap_mask2 is not None:
                caps += f" CapMask2: 0x{block.cap_mask2:07X}"
            caps += ")"
        title = titles.get(block.group, block.group)
        yield f"# {title} counters: Lid {block.lid} port {block.port}{caps}"
        yield f"{'PortSelect:':.<33}{block.port}"
        yield f"{'CounterSelect:':.<33}0x0000"
        for name, value in block.values.items():
            yield f"{name + ':':.<33}{'N/A' if value is None else value}"
