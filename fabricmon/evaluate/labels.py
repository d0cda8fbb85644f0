"""What was really wrong in a run: the content of `labels.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabricmon.errors import FormatError
from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Label:
    """One fault. Times are nanoseconds since the epoch.

    Any one of `causes`, or its link partner, is right; an empty port means any port of the device.
    `accept` are other kinds that count as right; `trigger` is a kind that is there as well, because
    the fault shows only under it.
    """

    kind: str
    start_ns: int
    end_ns: int
    causes: tuple[PortId, ...] = ()
    victims: frozenset[PortId] = frozenset()
    reason: str = ""
    accept: tuple[str, ...] = ()
    trigger: str = ""


Labels = tuple[Label, ...]
"""All faults of a run; empty: healthy."""


def _ports(rows: Any) -> tuple[PortId, ...]:
    return tuple(PortId(row["device"], row.get("port") or "") for row in rows or ())


def _label(row: Any) -> Label:
    return Label(
        row["kind"],
        int(row["start"]),
        int(row["end"]),
        _ports(row.get("causes")),
        frozenset(_ports(row.get("victims"))),
        row.get("reason") or "",
        tuple(row.get("accept") or ()),
        row.get("trigger") or "",
    )


def parse(rows: Sequence[Any], file: str = "labels.json") -> Labels:
    """Labels from decoded JSON; unknown fields are ignored. Raises `FormatError`."""
    if not isinstance(rows, list):
        raise FormatError("labels are a list", file=file)
    labels = []
    for number, row in enumerate(rows):
        try:
            labels.append(_label(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"label {number} cannot be read: {error!r}", file=file) from error
    return tuple(labels)


def read(path: Path) -> Labels:
    """Labels of a dump; a dump without the file is taken as healthy. Raises `FormatError`."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise FormatError(f"not JSON: {error}", file=str(path)) from error
    return parse(rows, str(path))
