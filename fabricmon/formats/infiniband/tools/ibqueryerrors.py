"""ibqueryerrors' text: ports with errors, and with `--data` or `--counters` their traffic.

A port that is not printed is not zero: it is not told. Success is the `## Summary:` at the end; the
exit status says nothing. The names that `--details` adds are wrong (the tool prints discard details
under the names of receive error details and the other way round), so those fields are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats.base import Bad, BadRecord
from fabricmon.formats.infiniband.ibtext import PortCounts, parse_count, parse_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GROUP, WIDE = "ibqueryerrors", "ibqueryerrors64"
"""Groups of the fields: as counted in 16 bits and less, and where any value shows that it is more.
"""

_HEAD = re.compile(r"(?:Errors|Data Counters) for (?:0x[0-9a-fA-F]+ )?\"(?P<name>.*)\"\s*$")
_PORT = re.compile(r"\s+GUID (?P<guid>0x[0-9a-fA-F]+) port (?P<port>\d{1,9}|ALL):(?P<fields>.*)$")
_FIELD = re.compile(r"\[(?P<name>\w+) == (?P<value>[^\s\]]+)(?: \([^)]*\))?\]")
_OURS = re.compile(r"^(?:Errors for |Data Counters for |Query SA failed|## Summary:)", re.MULTILINE)
_DETAILS = frozenset(
    {
        "PortInactiveDiscards",
        "PortNeighborMTUDiscards",
        "PortSwLifetimeLimitDiscards",
        "PortSwHOQLifetimeLimitDiscards",
        "PortLocalPhysicalErrors",
        "PortMalformedPktErrors",
        "PortBufferOverrunErrors",
        "PortDLIDMappingErrors",
        "PortVLMappingErrors",
        "PortLoopingErrors",
    }
)
# The widest value a device without 64-bit errors can show.
_TOPS = {
    "SymbolErrorCounter": 65535,
    "LinkErrorRecoveryCounter": 255,
    "LinkDownedCounter": 255,
    "PortRcvErrors": 65535,
    "PortXmitDiscards": 65535,
    "PortXmitConstraintErrors": 255,
    "ExcessiveBufferOverrunErrors": 15,
    "VL15Dropped": 65535,
    "PortXmitWait": 0xFFFFFFFF,
}


def sniff(head: bytes) -> bool:
    """Whether this is ibqueryerrors output."""
    return _OURS.search(head.decode("latin-1")) is not None


def read(lines: Iterable[str], bad: Bad, file: str = "") -> Iterator[PortCounts]:
    """Every port that is told. A report without its summary is reported as such, after its ports.

    Sums over all ports (`port ALL`) are no port.
    """
    ports: list[PortCounts] = []
    name, complete, trouble = "", False, ""
    for number, line in enumerate(lines, 1):
        port = _PORT.match(line)
        if port is not None:
            if port["port"] != "ALL":
                ports += _port(port, name, BadRecord(file, number, ""), bad)
            continue
        head = _HEAD.match(line)
        if head is not None:
            name = head["name"]
        elif line.startswith("## Summary:"):
            complete = True
        elif line.startswith("Query SA failed"):
            trouble = line.strip()
    if not complete:
        why = trouble or "there is no summary"
        bad(BadRecord(file, 0, f"the sweep of ibqueryerrors did not end: {why}"))
    wide = {f for p in ports for f, v in p.values.items() if v is not None and v > _top(f)}
    for counts in ports:
        counts.group = WIDE if wide - {"PortXmitWait"} else GROUP
        yield counts


def _top(field: str) -> int:
    return _TOPS.get(field, 1 << 64)


def _port(match: re.Match[str], name: str, place: BadRecord, bad: Bad) -> Iterator[PortCounts]:
    try:
        guid = parse_guid(match["guid"])
    except ValueError as error:
        bad(BadRecord(place.file, place.line, str(error)))
        return
    counts = PortCounts(GROUP, int(match["port"]), guid=guid, name=name, line=place.line)
    told = 0
    for field in _FIELD.finditer(match["fields"]):
        told += 1
        if field["name"] in _DETAILS:
            continue
        try:
            counts.values[field["name"]] = parse_count(field["value"])
        except ValueError:
            bad(BadRecord(place.file, place.line, f"{field['name']} is no count"))
    if told != match["fields"].count("["):
        bad(BadRecord(place.file, place.line, "some fields cannot be read"))
    if counts.values:
        yield counts


def write(blocks: Iterable[PortCounts]) -> Iterator[str]:
    """The text of `ibqueryerrors --data`, one line at a time without line ends.

    Unlike the tool, counts of zero are printed too, since a count that is not told is not zero.
    """
    nodes: dict[int, list[PortCounts]] = {}
    for block in blocks:
        nodes.setdefault(block.guid, []).append(block)
    for guid, ports in nodes.items():
        yield f'Errors for 0x{guid:x} "{ports[0].name}"'
        for port in ports:
            fields = " ".join(f"[{name} == {value}]" for name, value in port.values.items())
            yield f"   GUID 0x{guid:x} port {port.port}: {fields}"
    count = sum(len(ports) for ports in nodes.values())
    yield ""
    yield f"## Summary: {len(nodes)} nodes checked, {len(nodes)} bad nodes found"
    yield f"##          {count} ports checked, {count} ports have errors beyond threshold"
    yield "## Thresholds: "
    yield "## Suppressed:"
