"""gNMI paths to catalogue counters, and back.

A row's path shows where port and queue stand in it: `/interfaces/interface[name={port}]/…/
priority[index={queue}]/state/in-frames`. Readers know keys as tags (`interface_name`, as gnmic
writes them) or by their bare name (as telegraf does); both find the row. All mappings that are not
abstract apply at once, since their paths do not collide; `Target.mapping` restricts to one.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from fabricmon.mappings import base
from fabricmon.mappings.reading import READERS, Read
from fabricmon.model.counters import NO_QUEUE, Scope
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from fabricmon.model.readings import Column

_QUEUES = range(8)
_MAX_UNMATCHED, _LONGEST = 20_000, 1_000
_MOST_QUEUES = 128
"""Frames have a row for each queue that any port has; higher numbers are no queues of anybody."""
_MOST = 50
"""Unmatched paths that are told while a daemon runs."""
_KEY = re.compile(r"\[([^=\]]+)=([^\]]*)\]")
_WORD = re.compile(r"\{\w+\}")
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


class PathRow(base.Row):
    """One leaf. `{port}` and `{queue}` stand for key values or parts of names; `*` for any."""

    path: Annotated[str, Field(pattern=r"^/[^/].*$")]
    read: Read = "number"
    """How a level is written, where it is no plain number."""
    rank: int = 0
    """Where a device gives one counter under two paths, the lower rank is taken."""


class NeighbourRow(Settings):
    """One leaf of LLDP: the neighbour's device or port name."""

    path: Annotated[str, Field(pattern=r"^/[^/].*$")]
    field: Literal["device", "port"]


class GnmiMapping(base.MappingFile):
    """One file of `mappings/gnmi/`."""

    rows: list[PathRow] = []
    neighbours: list[NeighbourRow] = []
    target: str = ""
    """What the device wants to be asked for: the `target` of the prefix."""
    subscriptions: list[str] = []
    """What to subscribe to where the device does not take the rows' own paths."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value belongs: what readers get for a path and its keys."""

    port: str
    column: Column
    rank: int
    gauge: Callable[[object], float | None] | None


class Neighbour(NamedTuple):
    """What an LLDP leaf speaks of: `field` of neighbour `id` at `port`."""

    port: str
    id: str
    field: str


class Key(NamedTuple):
    """Where a key value is found among the tags of a reading, most precise name first."""

    names: tuple[str, ...]

    def of(self, tags: Mapping[str, str]) -> str | None:
        """Its value; None where the reading has no such key."""
        for name in self.names:
            value = tags.get(name)
            if value is not None:
                return value
        return None


@dataclass(slots=True)
class _Leaf:
    """One compiled path."""

    row: PathRow | NeighbourRow
    port: Key
    queue: Key | None
    fixed_queue: int
    columns: dict[int, Column] = field(default_factory=dict)


class GnmiPaths:
    """All rows of some mappings, found by plain path."""

    def __init__(self, mappings: Iterable[GnmiMapping]) -> None:
        """Later mappings win where two know one path."""
        self._leaves: dict[str, _Leaf] = {}
        self._neighbours: dict[str, _Leaf] = {}
        self.rows: list[PathRow] = []
        self.lldp: list[NeighbourRow] = []
        self.target = ""
        """What a live device wants to be asked for."""
        self._subscriptions: list[str] = []
        self.unmatched: Tally[str] = Tally()
        """Plain paths that no row knows, with how often they were asked for (not: sent)."""
        self.unkeyed: Tally[str] = Tally()
        """Known paths that came without the key that names their port or queue."""
        self._misses = 0
        self._told: tuple[int, Mapping[str, int]] = (0, {})
        for mapping in mappings:
            self.target = mapping.target or self.target
            self._subscriptions = mapping.subscriptions or self._subscriptions
            for row in mapping.rows:
                self.rows.append(row)
                for leaf, plain in _compiled(row):
                    self._leaves[plain] = leaf
            for neighbour in mapping.neighbours:
                self.lldp.append(neighbour)
                for leaf, plain in _compiled(neighbour):
                    self._neighbours[plain] = leaf

    @classmethod
    def load(cls, name: str = "", extra: Sequence[Path] = ()) -> GnmiPaths:
        """Every mapping, or one with what it extends. Raises `ConfigError`; `KeyError` for `name`.

        `extra` are folders with users' own files, which win.
        """
        found = _builtin() if not extra else base.load(GnmiMapping, "gnmi", extra)
        if name:
            return cls(reversed(base.ancestry(found, name)))
        return cls(mapping for mapping in found.values() if not mapping.abstract)

    def place(self, path: str, keys: Mapping[str, str]) -> Place | None:
        """Where the value of a plain path belongs. Asked once per series, so misses are counted."""
        leaf = self._leaves.get(path) or self._leaves.get(path.replace("_", "-"))
        if leaf is None:
            self._miss(self.unmatched, path)
            return None
        port = leaf.port.of(keys)
        queue = leaf.fixed_queue if leaf.queue is None else _queue(leaf.queue.of(keys))
        if port is None or queue is None:
            self._miss(self.unkeyed, path)
            return None
        row = leaf.row
        assert isinstance(row, PathRow)
        column = leaf.columns.get(queue)
        if column is None:
            column = leaf.columns[queue] = row.column(queue=queue, source=path)
        gauge = READERS[row.read](row.factor) if row.entry.is_gauge else None
        return Place(port, column, row.rank, gauge)

    def neighbour(self, path: str, keys: Mapping[str, str]) -> Neighbour | None:
        """What an LLDP leaf speaks of; None for all other paths."""
        leaf = self._neighbours.get(path)
        if leaf is None or not isinstance(leaf.row, NeighbourRow):
            return None
        port = leaf.port.of(keys)
        who = leaf.queue.of(keys) if leaf.queue is not None else ""
        return None if port is None else Neighbour(port, who or "", leaf.row.field)

    def most_unmatched(self) -> Mapping[str, int]:
        """The paths that most series were asked for in vain; the same object while none came."""
        if self._misses != self._told[0]:
            self._told = self._misses, dict(self.unmatched.most_common(_MOST))
        return self._told[1]

    def subscriptions(self) -> list[tuple[str, bool]]:
        """Paths to subscribe to, and whether what is there is sent on change (states, LLDP)."""
        if self._subscriptions:
            return [(path, False) for path in self._subscriptions]
        containers: dict[str, bool] = {}
        for path, on_change in (
            *((row.path, row.read in ("state", "speed")) for row in self.rows),
            *((row.path, True) for row in self.lldp),
        ):
            wild = _WORD.sub("*", path)
            containers.setdefault(wild if on_change else wild.rpartition("/")[0], on_change)
        return [
            (path, on_change)
            for path, on_change in containers.items()
            if not any(path.startswith(f"{other}/") for other in containers)
        ]

    def _miss(self, tally: Tally[str], path: str) -> None:
        self._misses += 1
        path = path[:_LONGEST]
        if path in tally or len(tally) < _MAX_UNMATCHED:
            tally[path] += 1
        else:
            tally["(others)"] += 1


@cache
def _builtin() -> dict[str, GnmiMapping]:
    return base.load(GnmiMapping, "gnmi")


def _queue(text: str | None) -> int | None:
    """The number of a queue, priority or traffic class: `3`, `UC3`, `Ethernet1-3`."""
    if text is None:
        return None
    found = _LAST_NUMBER.search(text)
    number = int(found[1]) if found and len(found[1]) <= 4 else _MOST_QUEUES
    return number if number < _MOST_QUEUES else None


def _compiled(row: PathRow | NeighbourRow) -> Iterable[tuple[_Leaf, str]]:
    """The leaf behind a row; one per queue where the queue is part of an element's name."""
    keys: dict[str, Key] = {}
    plain = ""
    for part in _split(row.path):
        name = part.partition("[")[0]
        plain = f"{plain}/{name}"
        for key, value in _KEY.findall(part):
            known = (f"{name}_{key}", f"{plain}_{key}", f"{plain[1:]}_{key}", key)
            keys[value] = Key((*known, key.replace("-", "_")))
    port = keys.get("{port}", Key(()))
    queue = keys.get("{queue}") or keys.get("{neighbour}")
    if "{queue}" not in plain:
        yield _Leaf(row, port, queue, NO_QUEUE), plain
        return
    for number in _QUEUES:
        yield _Leaf(row, port, None, number), plain.replace("{queue}", str(number))


def _split(path: str) -> list[str]:
    """Elements of a row's path; brackets protect slashes."""
    return re.findall(r"/((?:[^/\[]|\[[^\]]*\])+)", path)


def check(row: PathRow) -> str:
    """What is wrong with a row, or nothing."""
    queue_scope = row.entry.scope is Scope.QUEUE
    if "{port}" not in row.path:
        return f"{row.path}: names no {{port}}"
    if queue_scope != ("{queue}" in row.path):
        return f"{row.path}: {row.counter} is counted per {row.entry.scope.value}"
    return ""
