"""What hosts count (sysfs, ethtool, exporters' pages), to catalogue counters.

A row's `field` begins with where it stands: `counters/` and `hw_counters/` of a port in
`/sys/class/infiniband`, `ethtool/`, or `prom/` for a metric of a page. `{queue}` stands for a
priority. Rows of all drivers apply at once; of two fields for one counter the lower rank is taken.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field

from fabricmon.mappings import base
from fabricmon.mappings.reading import READERS, Read
from fabricmon.model.counters import NO_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from fabricmon.model.readings import Column

_PRIORITIES = range(8)


class FieldRow(base.Row):
    """One field of a host."""

    field: Annotated[str, Field(pattern=r"^(counters|hw_counters|ethtool|prom|port)/[\w{}.:-]+$")]
    read: Read = "number"
    rank: int = 0


class HostMapping(base.MappingFile):
    """One file of `mappings/host/`."""

    rows: list[FieldRow] = []


class _Leaf(NamedTuple):
    column: Column
    rank: int
    gauge: Callable[[object], float | None] | None


class HostFields:
    """All rows of some mappings, by field."""

    def __init__(self, mappings: Iterable[HostMapping]) -> None:
        """Later mappings win where two know one field."""
        self._leaves: dict[str, _Leaf] = {}
        self.rows: list[FieldRow] = []
        for mapping in mappings:
            for row in mapping.rows:
                self.rows.append(row)
                self._add(row)

    @classmethod
    def load(cls, name: str = "", extra: Sequence[Path] = ()) -> HostFields:
        """Every mapping, or one and what it extends. Raises `ConfigError`, `KeyError`."""
        found = _builtin() if not extra else base.load(HostMapping, "host", extra)
        if name:
            return cls(reversed(base.ancestry(found, name)))
        return cls(mapping for mapping in found.values() if not mapping.abstract)

    def values(self, fields: Mapping[str, object]) -> list[tuple[Column, int | float | None]]:
        """What the fields of one port count. None where the host says that it does not count it."""
        best: dict[tuple[str, int], tuple[int, Column, int | float | None]] = {}
        for field, written in fields.items():
            leaf = self._leaves.get(field)
            if leaf is None:
                continue
            value = leaf.gauge(written) if leaf.gauge is not None else _count(written)
            if value is None and leaf.gauge is not None:
                continue
            key = (leaf.column.counter.id, leaf.column.queue)
            known = best.get(key)
            if known is None or leaf.rank < known[0] or known[2] is None:
                best[key] = (leaf.rank, leaf.column, value)
        return [(column, value) for _, column, value in best.values()]

    def knows(self, field: str) -> bool:
        """Whether a row knows this field."""
        return field in self._leaves

    def _add(self, row: FieldRow) -> None:
        gauge = READERS[row.read](row.factor) if row.entry.is_gauge else None
        if "{queue}" not in row.field:
            column = row.column(queue=NO_QUEUE, source=row.field)
            self._leaves[row.field] = _Leaf(column, row.rank, gauge)
            return
        for queue in _PRIORITIES:
            name = row.field.replace("{queue}", str(queue))
            self._leaves[name] = _Leaf(row.column(queue=queue, source=name), row.rank, gauge)


@cache
def _builtin() -> dict[str, HostMapping]:
    return base.load(HostMapping, "host")


def _count(written: object) -> int | None:
    """A whole number; None for `N/A (no PMA)` and its like."""
    if isinstance(written, float):
        return int(written) if 0 <= written < 2**64 and written == int(written) else None
    text = str(written).strip()
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64:
        return int(text)
    return None
