"""`ethtool -S` as text: names and numbers of one interface, or of several with headings."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from fabricmon.formats.base import BadRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fabricmon.formats.base import Bad

_START = "NIC statistics:"
_HEADING = re.compile(r"(?:#|=+|\$ .*ethtool -S)?\s*(?P<name>[\w.-]+)\s*:?\s*=*$")
_COMMAND = re.compile(r"ethtool\s+(?:-S|--statistics)\s+(?P<name>[\w.-]+)")
_NAME = re.compile(r"[^:]+(?:::?[^:\s]+)*")
_NUMBER = re.compile(r"-?\d+")


def sniff(head: bytes) -> bool:
    """Whether a file beginning like this is what `ethtool -S` prints."""
    return _START.encode() in head


def interfaces(
    lines: Iterable[str], bad: Bad, file: str = ""
) -> Iterator[tuple[str, dict[str, object]]]:
    """Interface name (empty where none is said) and fields (`ethtool/rx_prio3_pause`) of each."""
    name, heading = "", ""
    fields: dict[str, object] = {}
    inside = False
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        value = _value(text)
        if text.strip() == _START:
            if fields:
                yield name, fields
            name, fields, inside, heading = heading, {}, True, ""
        elif value is not None and inside:
            fields[f"ethtool/{value[0]}"] = value[1]
        elif found := (_COMMAND.search(text) or _HEADING.match(text)):
            heading = found["name"]
        elif text:
            bad(BadRecord(file, number, f"no statistic: {text[:80]!r}"))
    if fields:
        yield name, fields


def _value(text: str) -> tuple[str, str] | None:
    """Name and number of an indented line `name: number`; None for any other."""
    name, colon, number = text.rpartition(":")
    name, number = name.strip(), number.strip()
    told = colon and text[0].isspace() and _NAME.fullmatch(name) and _NUMBER.fullmatch(number)
    return (name, number) if told else None


def owner(file: str, interface: str) -> tuple[str, str]:
    """Host and interface of a dump: `gpu1_eth0.txt`, or `gpu1/eth0.txt`, where it says neither."""
    path = PurePath(file)
    stem = path.name.split(".", maxsplit=1)[0]
    host, _, port = stem.rpartition("_")
    if interface:
        return stem, interface
    return (host, port) if host else (path.parent.name, port)
