"""What the InfiniBand text formats share: numbers, GUIDs, and one port's named counts."""

from __future__ import annotations

from dataclasses import dataclass, field

_NOT_THERE = frozenset({"", "n/a", "na", "none", "nan", "null", "-", "n/a (no pma)"})


def parse_count(text: str) -> int | None:
    """An unsigned count, decimal or 0x-hex; None for the many spellings of "not there".

    Raises `ValueError` for anything else, and for numbers that no 64-bit counter can hold.
    """
    text = text.strip()
    if text.lower() in _NOT_THERE:
        return None
    value = int(text, 16) if text[:2].lower() == "0x" else int(text)
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{text} does not fit into 64 bits")
    return value


def parse_guid(text: str) -> int:
    """A GUID as the tools print it: with or without 0x, with or without leading zeros.

    Raises `ValueError` when it is none.
    """
    value = int(text.strip().replace(":", ""), 16)
    if not 0 < value < 1 << 64:
        raise ValueError(f"{text!r} is not a GUID")
    return value


@dataclass(slots=True)
class PortCounts:
    """What a tool said of one port, in the tool's own words.

    The port is known by GUID (of the node or of the port) or only by LID. `group` is the attribute
    the names belong to (`PortCounters`, `PortCountersExtended`, …). `cap_mask`, `cap_mask2` are
    what the device can count, None where the tool does not say.
    """

    group: str
    port: int
    guid: int = 0
    lid: int = 0
    cap_mask: int | None = None
    cap_mask2: int | None = None
    values: dict[str, int | None] = field(default_factory=dict)
    device_id: int = 0
    name: str = ""
    line: int = 0
