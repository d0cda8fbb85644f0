"""SNMP mappings: which objects of an agent feed which catalogue counters.

A file says for each counter the column (`oid`) and how its instances are indexed (`index`). For one
counter several rows may be given, in one file or along `extends`: the first whose objects the agent
has is used, for the whole device, so that a series never changes its source.

The index is a dotted pattern of these words:

    port    the number of the port's row in the interface table
    queue   the priority or queue, after `queue_offset` is added
    text    a string with its length before it
    *       any number; values that differ only here are added
    7       this number, and no other
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from fabricmon.mappings.base import MappingFile, Row, ancestry, load
from fabricmon.model.counters import NO_QUEUE, Scope
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Oid = tuple[int, ...]

_OID = re.compile(r"[0-2](\.\d{1,10}){1,126}$")
_WORDS = ("port", "queue", "text", "*")


def oid(text: str) -> Oid:
    """Dotted numbers as a tuple."""
    return tuple(map(int, text.split(".")))


def _valid_oid(text: str) -> str:
    if not _OID.match(text) or max(oid(text)) > 0xFFFFFFFF:
        raise ValueError(f"{text!r} is not an OID such as 1.3.6.1.2.1.2.2.1.8")
    return text


def _valid_index(text: str) -> str:
    words = text.split(".")
    if any(word not in _WORDS and not word.isdigit() for word in words):
        raise ValueError(f"{text!r}: an index is made of {', '.join(_WORDS)} and numbers")
    if words.count("port") != 1 or words.count("queue") > 1:
        raise ValueError(f"{text!r}: an index names `port` once and `queue` at most once")
    return text


OidText = Annotated[str, AfterValidator(_valid_oid)]
Index = Annotated[str, AfterValidator(_valid_index)]
Pattern = Annotated[str, AfterValidator(lambda text: re.compile(text).pattern)]


class Gate(Settings):
    """An object that says whether the row's own value means anything."""

    oid: OidText
    index: Index = "port.queue"
    equals: int = 1


class SnmpRow(Row):
    """One counter and the columns it is read from."""

    oid: OidText
    add: list[OidText] = []
    """Further columns whose values are added to it."""
    high: OidText | None = None
    """The column that holds the upper 32 bits."""
    index: Index = "port"
    queue_offset: int = 0
    """Added to the number in the index to give the queue: -1 where the device counts from one."""
    queue_step: Annotated[int, Field(ge=0)] = 0
    """Above 0: the queue is in the column; queue q stands q steps after `oid`."""
    queues: Annotated[int, Field(ge=1, le=16)] = 8
    """How many queues there are where `queue_step` is given."""
    queue: Literal["lossless"] | None = None
    """The device counts per port what belongs to a queue: used where only one is lossless."""
    is_: Annotated[int | None, Field(alias="is")] = None
    """The gauge is 1 where the object has this value, else 0."""
    void: list[int] = []
    """Values that say nothing (not applicable, negotiated): the device has no such instance."""
    unit: OidText | None = None
    """A scalar of the device that the gauge is multiplied with (bytes in a cell)."""
    slow: bool = False
    """Read with the names, not in every poll."""
    gate: Gate | None = None

    @model_validator(mode="after")
    def _consistent(self) -> SnmpRow:
        per_queue = self.entry.scope is Scope.QUEUE
        says_queue = "queue" in self.index.split(".") or self.queue_step or self.queue
        if per_queue != bool(says_queue):
            raise ValueError(
                f"{self.counter} is counted per {self.entry.scope.value}: "
                f"{'say where the queue is' if per_queue else 'no queue belongs here'}"
            )
        if (self.is_ is not None or self.unit) and not self.entry.is_gauge:
            raise ValueError("`is` and `unit` are for gauges")
        if self.void and not self.slow:
            raise ValueError("`void` is for what is read with the names (`slow`)")
        return self

    def columns(self) -> Iterator[tuple[Oid, int]]:
        """Every column of this row, and the queue it stands for (NO_QUEUE: not in the column)."""
        count = self.queues if self.queue_step else 1
        for base in (oid(self.oid), *map(oid, self.add)):
            for queue in range(count):
                column = (*base[:-1], base[-1] + queue * self.queue_step)
                yield column, queue if self.queue_step else NO_QUEUE
        if self.high:
            yield oid(self.high), NO_QUEUE

    @cached_property
    def shape(self) -> Shape:
        """How its instances are indexed."""
        return Shape(self.index, self.queue_offset)

    @cached_property
    def gate_shape(self) -> Shape:
        """How the instances of its gate are indexed; they count queues as the row does."""
        return Shape(self.gate.index if self.gate else self.index, self.queue_offset)


class Match(Settings):
    """One way to recognise a device. Both parts must hold where both are given."""

    object_id: OidText | None = None
    """sysObjectID begins with this."""
    descr: Pattern | None = None
    """sysDescr contains this regular expression."""

    @model_validator(mode="after")
    def _not_empty(self) -> Match:
        if self.object_id is None and self.descr is None:
            raise ValueError("give `object_id`, `descr` or both")
        return self

    def score(self, object_id: Oid, descr: str) -> int:
        """How well it fits: 0 not at all; what sysDescr says beats the length of an OID."""
        score = 0
        if self.object_id is not None:
            wanted = oid(self.object_id)
            if object_id[: len(wanted)] != wanted:
                return 0
            score += len(wanted)
        if self.descr is not None:
            if not re.search(self.descr, descr):
                return 0
            score += 1000
        return score


class Ports(Settings):
    """Which rows of the interface table are ports with a cable, and what names them."""

    types: list[int] = [6]
    """ifType: 6 is Ethernet; aggregates (161) and VLANs would count everything twice."""
    exclude: Pattern = ""
    """Names that are no port of the fabric."""
    name: list[OidText] = ["1.3.6.1.2.1.31.1.1.1.1", "1.3.6.1.2.1.2.2.1.2"]
    """Columns that name a port; the first that is not empty counts."""


class Likeness(Settings):
    """How the simulated fabric presents itself as such a device."""

    descr: str
    object_id: OidText
    first: int = 1
    """ifIndex of the first port."""
    step: Annotated[int, Field(ge=1)] = 1
    """And how far the next one is."""


class SnmpMapping(MappingFile):
    """One file of `mappings/snmp`."""

    match: list[Match] = []
    likeness: Likeness | None = None
    ports: Ports | None = None
    rows: list[SnmpRow] = []
    drop: list[str] = []
    """Counters whose inherited rows are wrong for this device."""
    sample_time: OidText | None = None
    """Column by port: sysUpTime at which the hardware was read."""
    refresh_s: Annotated[float, Field(ge=0)] = 0
    """How often the agent is known to renew its counters; 0 where it reads them when asked."""


class Shape:
    """A compiled index pattern, both ways."""

    def __init__(self, pattern: str, queue_offset: int = 0) -> None:
        """Compile `pattern`; see the module's text."""
        self._words = pattern.split(".")
        self._offset = queue_offset
        self._is_port = self._words == ["port"]

    def read(self, suffix: Oid) -> tuple[int, int, Oid] | None:
        """Interface, queue (NO_QUEUE where it has none) and what is left to tell apart."""
        if self._is_port:
            return (suffix[0], NO_QUEUE, ()) if len(suffix) == 1 else None
        port, queue, at = 0, NO_QUEUE, 0
        rest: list[int] = []
        for word in self._words:
            if at >= len(suffix):
                return None
            number = suffix[at]
            at += 1
            if word == "port":
                port = number
            elif word == "queue":
                queue = number + self._offset
                if queue < 0:
                    return None
            elif word == "text":
                rest += suffix[at - 1 : at + number]
                at += number
            elif word == "*":
                rest.append(number)
            elif number != int(word):
                return None
        return (port, queue, tuple(rest)) if at == len(suffix) else None

    def write(self, port: int, queue: int) -> Oid:
        """The suffix of an instance; words that leave a choice are written as 0 or empty."""
        values = {"port": port, "queue": queue - self._offset, "text": 0, "*": 0}
        return tuple(values[word] if word in values else int(word) for word in self._words)


@dataclass(frozen=True)
class Profile:
    """A mapping with all it inherits: what is asked of one kind of device."""

    name: str
    title: str
    verified: str
    ports: Ports
    likeness: Likeness | None
    rows: tuple[SnmpRow, ...]
    """Candidates in order of preference within each counter."""
    sample_time: Oid | None
    refresh_s: float

    @cached_property
    def by_counter(self) -> dict[str, list[SnmpRow]]:
        """The candidates of each counter, best first."""
        grouped: dict[str, list[SnmpRow]] = {}
        for row in self.rows:
            grouped.setdefault(row.counter, []).append(row)
        return grouped

    @cached_property
    def columns(self) -> tuple[Oid, ...]:
        """Every column that must be walked to know what a device has."""
        wanted: dict[Oid, None] = {}
        for row in self.rows:
            wanted.update(dict.fromkeys(column for column, _ in row.columns()))
            if row.gate:
                wanted[oid(row.gate.oid)] = None
        if self.sample_time:
            wanted[self.sample_time] = None
        return tuple(wanted)

    @cached_property
    def shaping(self) -> tuple[Oid, ...]:
        """Columns whose values, not only their instances, decide what is read and how."""
        slow = [column for row in self.rows if row.slow for column, _ in row.columns()]
        gates = [oid(row.gate.oid) for row in self.rows if row.gate]
        return (*slow, *gates, *self.units)

    @cached_property
    def units(self) -> tuple[Oid, ...]:
        """Scalars that gauges are multiplied with."""
        return tuple(dict.fromkeys(oid(row.unit) for row in self.rows if row.unit))


class SnmpMappings:
    """All SNMP mappings, and the choice among them."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Read the built-in files and those in `folders`, which win. Raises `ConfigError`."""
        self._files = load(SnmpMapping, "snmp", folders)
        self._profiles: dict[str, Profile] = {}

    @property
    def names(self) -> list[str]:
        """Mappings that can be chosen."""
        return [name for name, mapping in self._files.items() if not mapping.abstract]

    def profile(self, name: str) -> Profile:
        """One mapping with all it inherits. Raises `KeyError` for unknown names."""
        if name not in self._profiles:
            self._profiles[name] = _resolve(ancestry(self._files, name))
        return self._profiles[name]

    def choose(self, object_id: Oid, descr: str) -> Profile:
        """The mapping that fits best; `generic` where none does."""
        best, best_score = "generic", 0
        for name in self.names:
            for match in self._files[name].match:
                score = match.score(object_id, descr)
                if score > best_score:
                    best, best_score = name, score
        return self.profile(best)


def _resolve(chain: list[SnmpMapping]) -> Profile:
    nearest = chain[0]
    rows: list[SnmpRow] = []
    dropped: set[str] = set()
    for mapping in chain:
        rows += [row for row in mapping.rows if row.counter not in dropped]
        dropped.update(mapping.drop)
    return Profile(
        nearest.name,
        nearest.title,
        nearest.verified,
        next((m.ports for m in chain if m.ports), Ports()),
        next((m.likeness for m in chain if m.likeness), None),
        tuple(rows),
        next((oid(m.sample_time) for m in chain if m.sample_time), None),
        next((m.refresh_s for m in chain if m.refresh_s), 0.0),
    )
