r"""A CSV of any make, by a map that says what its columns are.

files: "*.csv*"                  # which files of a folder (all, if not given)
time: {column: when, format: ms} # s, ms, us, ns since the epoch; iso; or a strptime pattern
device: {column: switch}         # or {path: 'regex with one group'}, or {constant: leaf1}
port: {path: '_(\d+)\.csv'}
speed: 200G                      # optional: what every port carries
values:
  InOctets: {counter: rx_bytes, is: difference}
  WaitUs: {counter: tx_wait_ns, unit: us}
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from fabricmon import yamlfile
from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord, Chunk, joined
from fabricmon.formats.tables.cells import Cells, integers, numbers, texts
from fabricmon.model.counters import BY_ID, NO_QUEUE, Scope
from fabricmon.model.readings import Column
from fabricmon.settings import BitRate, Settings, validate

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from fabricmon.formats.base import Bad, Layout
    from fabricmon.formats.tables.cells import Block

_EPOCH_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_UNITS = {
    "bytes": {"bytes": 1.0, "words": 4.0, "bits": 0.125, "KB": 1e3, "MB": 1e6, "GB": 1e9},
    "ns": {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    "bits per second": {"bps": 1.0, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9},
}
# Running totals of differences begin here, so that a restart at zero is seen as one.
_BASE = 1 << 48


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    if groups != 1:
        raise ValueError("needs exactly one group: the part that is the name")
    return text


def _codec(name: str) -> str:
    try:
        if ",\n".encode(name) != b",\n":
            raise ValueError(f"{name} is no superset of ASCII")
    except LookupError as error:
        raise ValueError(f"{name!r} is no encoding that is known") from error
    return name


def _known(counter: str) -> str:
    if counter not in BY_ID:
        raise ValueError(f"{counter!r} is not in the catalogue; known: {', '.join(BY_ID)}")
    return counter


class Name(Settings):
    """Where a device's or a port's name stands."""

    column: str = ""
    path: Annotated[str, AfterValidator(_pattern)] | None = None
    constant: str = ""

    @model_validator(mode="after")
    def _one(self) -> Name:
        if sum(map(bool, (self.column, self.path, self.constant))) != 1:
            raise ValueError("give one of `column`, `path` or `constant`")
        return self

    def of(self, path: str) -> str | None:
        """The name a file has by itself; None where it stands in a column, or is not found."""
        if self.path is None:
            return self.constant or None
        match = re.search(self.path, path)
        return match[1] if match else None


class When(Settings):
    """Which column is the time, and how it is written."""

    column: str
    format: str = "iso"
    """`s`, `ms`, `us`, `ns`, `iso`, or a pattern for `strptime`."""
    timezone: str = "UTC"
    """Of times that name none."""

    @model_validator(mode="after")
    def _zone(self) -> When:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{self.timezone!r} is no time zone") from error
        return self


class Value(Settings):
    """What one column counts."""

    counter: Annotated[str, AfterValidator(_known)]
    unit: str = ""
    """Of the column; the counter's own, if not given."""
    kind: Literal["cumulative", "difference"] = Field("cumulative", alias="is")
    """A difference is what came since the row before of the same port."""
    queue: Annotated[int, Field(ge=0, lt=256)] | None = None
    bits: Literal[8, 16, 32, 64] = 64
    saturates: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Value:
        counter = BY_ID[self.counter]
        known = _UNITS.get(counter.unit, {})
        if self.unit and self.unit != counter.unit and self.unit not in known:
            allowed = ", ".join(known) or counter.unit
            raise ValueError(f"{self.counter} is counted in {counter.unit}; write {allowed}")
        if (counter.scope is Scope.QUEUE) != (self.queue is not None):
            needs = "needs a `queue`" if self.queue is None else "has no queue"
            raise ValueError(f"{self.counter} {needs}")
        return self

    @property
    def factor(self) -> float:
        """Catalogue units per unit of the column."""
        return _UNITS.get(BY_ID[self.counter].unit, {}).get(self.unit, 1.0)

    @property
    def exact(self) -> bool:
        """The column can be handed over as it counts, to be scaled after unwrapping."""
        return self.kind == "cumulative" and self.factor >= 1.0 and not BY_ID[self.counter].is_gauge

    def column(self, name: str) -> Column:
        """The batch column it fills."""
        queue = NO_QUEUE if self.queue is None else self.queue
        scale = round(self.factor) if self.exact else 1
        bits = self.bits if self.exact else 64
        return Column(BY_ID[self.counter], queue, bits, self.saturates, scale, name)


class ColumnMap(Settings):
    """One map."""

    time: When
    device: Name
    port: Name
    values: Annotated[dict[str, Value], Field(min_length=1)]
    files: str = "*"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    encoding: Annotated[str, AfterValidator(_codec)] = "utf-8"
    """Any in which commas and line ends are those of ASCII."""
    speed: BitRate | None = None

    def wants(self, path: str) -> bool:
        """Whether a file is one of those the map is for, by its name."""
        return fnmatch(path.rpartition("/")[2], self.files)

    @property
    def columns(self) -> list[str]:
        """The columns of the CSV that are used."""
        names = [self.time.column, self.device.column, self.port.column, *self.values]
        return list(dict.fromkeys(name for name in names if name))


def load(path: Path) -> ColumnMap:
    """Read a map. Raises `ConfigError` naming file, line and what is allowed there."""
    return validate(ColumnMap, yamlfile.load(path))


class Reader:
    """Reads files by one map. Running totals of differences are kept per port, over files."""

    def __init__(self, columns: ColumnMap, layout: Layout, bad: Bad) -> None:
        """Numbers come from `layout`."""
        self._map, self._layout, self._bad = columns, layout, bad
        self._totals: dict[str, NDArray[np.uint64]] = {}
        self._speed = Column(BY_ID["speed_bps"], source="columns map")

    def read(self, stream: io.BufferedReader, file: str) -> Iterator[Chunk]:
        """The file as chunks, each in order of time. Raises `FormatError` where columns lack."""
        cells = Cells(
            stream, file, self._bad, self._map.delimiter, self._map.columns, self._map.encoding
        )
        for block in cells:
            yield self._chunk(block, file)

    def _chunk(self, block: Block, file: str) -> Chunk:
        time_ns, time_ok = _times(block.batch, self._map.time)
        port, port_ok = self._ports(block.batch, file)
        for why, wrong in (
            (f"{self._map.time.column!r} is no time", ~time_ok),
            ("the device or the port has no name", time_ok & ~port_ok),
        ):
            for row in np.flatnonzero(wrong).tolist():
                self._bad(BadRecord(file, block.line(row), why))
        keep = np.flatnonzero(time_ok & port_ok)
        keep = keep[np.argsort(time_ns[keep], kind="stable")]
        time_ns, port = time_ns[keep], port[keep]
        parts = [
            self._values(block, file, name, value, keep, time_ns, port)
            for name, value in self._map.values.items()
        ]
        if self._map.speed is not None:
            level = np.full(len(port), float(self._map.speed)).view(np.uint64)
            parts.append(self._part(self._speed, level, np.ones(len(port), bool), time_ns, port))
        return joined(parts)

    def _values(
        self,
        block: Block,
        file: str,
        name: str,
        value: Value,
        keep: NDArray[np.intp],
        time_ns: NDArray[np.int64],
        port: NDArray[np.int32],
    ) -> Chunk:
        raw, good, empty = _raw(block.batch.column(name), value)
        raw, good = raw[keep], good[keep]
        for row in keep[~good & ~empty[keep]].tolist():
            self._bad(BadRecord(file, block.line(row), f"{name!r} is no number that fits"))
        if value.kind == "difference":
            raw, good = self._summed(name, raw, good, port), np.ones(len(good), np.bool_)
        return self._part(value.column(name), raw, good, time_ns, port)

    def _part(
        self,
        column: Column,
        raw: NDArray[np.uint64],
        good: NDArray[np.bool_],
        time_ns: NDArray[np.int64],
        port: NDArray[np.int32],
    ) -> Chunk:
        number = np.full(len(port), self._layout.column(column), np.int32)
        return Chunk(time_ns, port, number, raw, np.zeros(len(port), np.uint8)).part(good)

    def _summed(
        self,
        name: str,
        raw: NDArray[np.uint64],
        good: NDArray[np.bool_],
        port: NDArray[np.int32],
    ) -> NDArray[np.uint64]:
        """Differences as running totals per port.

        Where a difference is not known, neither is what the total grew by: it restarts at zero
        there, so that this interval has no rate and the next ones have the right one.
        """
        order = np.argsort(port, kind="stable")
        ports, steps = port[order], np.where(good, raw, np.uint64(0))[order]
        if not len(ports):
            return raw
        held = self._totals.get(name, np.empty(0, np.uint64))
        grown = int(ports[-1]) + 1 - len(held)
        if grown > 0:
            held = np.concatenate([held, np.full(grown, _BASE, np.uint64)])
        first = np.flatnonzero(np.r_[True, (ports[1:] != ports[:-1]) | ~good[order][1:]])
        fresh = np.r_[True, ports[1:] != ports[:-1]][first] & good[order][first]
        total = np.cumsum(steps, dtype=np.uint64)
        before = total[first] - steps[first]
        base = np.where(fresh, held[ports[first]], np.uint64(0)) - before
        total += np.repeat(base, np.diff(np.r_[first, len(ports)]))
        held[ports] = total  # the last of each port stays
        self._totals[name] = held
        out = np.empty_like(total)
        out[order] = total
        return out

    def _ports(self, batch: Any, file: str) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Port number by row, and which rows have one."""
        device, devices = self._names(batch, file, self._map.device)
        port, ports = self._names(batch, file, self._map.port)
        pair = device * len(ports) + port
        pairs, inverse = np.unique(pair, return_inverse=True)
        found = np.full(len(pairs), -1, np.int32)
        for i, key in enumerate(pairs.tolist()):
            name = devices[key // len(ports)], ports[key % len(ports)]
            if all(name):
                found[i] = self._layout.port(*name)
        rows = found[inverse]
        return rows, rows >= 0

    def _names(self, batch: Any, file: str, name: Name) -> tuple[NDArray[np.int64], list[str]]:
        if name.column:
            return texts(batch.column(name.column), self._map.encoding)
        own = name.of(file)
        if own is None:
            raise FormatError(f"its path has no part that {name.path!r} finds", file=file)
        return np.zeros(batch.num_rows, np.int64), [own]


def _raw(
    cells: Any, value: Value
) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Raw bits in the unit of the batch column, which are good, and which cells are empty."""
    level, finite, empty = numbers(cells)
    factor = 1.0 if value.exact else value.factor
    if BY_ID[value.counter].is_gauge:
        return (level * factor).view(np.uint64), finite, empty
    count, whole = integers(cells, unsigned=True)
    # A count in a unit of its own may be a fraction; what is whole stays exact.
    fits = finite & (level >= 0) & (level * factor < 2.0**63)
    scaled = np.where(fits, level * factor, 0.0).round().astype(np.uint64)
    if factor >= 1.0:
        scaled = np.where(whole, count * np.uint64(round(factor)), scaled)
        fits |= whole & (factor == 1.0)
    return scaled, fits, empty


def _times(batch: Any, when: When) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    cells = batch.column(when.column)
    unit = _EPOCH_NS.get(when.format)
    if unit is None:
        code, distinct = texts(cells)
        parsed = [_moment(text, when) for text in distinct]
        stamps = np.array([moment or 0 for moment in parsed], np.int64)
        return stamps[code], np.array([moment is not None for moment in parsed], np.bool_)[code]
    whole, good = integers(cells)
    limit = np.iinfo(np.int64).max // unit
    good &= np.abs(whole) <= limit
    level, fits, _ = numbers(cells)
    broken = ~good & fits & (np.abs(level) < limit)
    stamps = np.where(good, whole, 0) * unit
    if broken.any():  # seconds with a fraction, which a float64 holds to a microsecond
        level = np.where(broken, level, 0.0)
        whole = np.floor(level)
        micro = np.rint((level - whole) * 1e6).astype(np.int64)
        stamps = np.where(broken, whole.astype(np.int64) * unit + micro * unit // 10**6, stamps)
    return stamps, good | broken


def _moment(text: str, when: When) -> int | None:
    try:
        if when.format == "iso":
            moment = datetime.fromisoformat(text.strip())
        else:
            moment = datetime.strptime(text.strip(), when.format)  # noqa: DTZ007 - zone follows
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(when.timezone))
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
