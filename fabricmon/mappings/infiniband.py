"""InfiniBand names to catalogue names, and the transmit-wait tick by device.

One YAML file per source of names in `infiniband/`. A source may count one thing twice (16 bits in
one attribute, 64 in another): rows stand in order of preference, and the first one the device
supports is read.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

from fabricmon.mappings.base import MappingFile, Row, load
from fabricmon.model.counters import NO_QUEUE
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fabricmon.model.readings import Column

VL_COUNT = 16
"""Virtual lanes a per-VL attribute speaks of."""


class IbRow(Row):
    """One field of one attribute (`group`; empty where the source has only one)."""

    field: str
    group: str = ""
    cap: list[int] = []
    cap2: list[int] = []

    def supported(self, cap_mask: int | None, cap_mask2: int | None) -> bool | None:
        """Whether a device with these capabilities counts it; None where they are not known."""
        for bits, mask in ((self.cap, cap_mask), (self.cap2, cap_mask2)):
            if not bits:
                continue
            if mask is None:
                return None
            if not any(mask >> bit & 1 for bit in bits):
                return False
        return True


class SamplesRow(Settings):
    """What a device means that tells `told` as the Tick of PortSamplesControl."""

    told: int
    per: Literal["port", "lane"]


class DeviceRow(Settings):
    """The transmit-wait tick of one device id."""

    id: int
    name: str
    tick_bytes: float
    per: Literal["port", "lane"]


class IbMapping(MappingFile):
    """One file of `mappings/infiniband`."""

    rows: list[IbRow] = []
    per_queue: list[IbRow] = []
    """Fields that come once for each VL, with the VL's number appended to the name."""
    ignored: list[str] = []
    devices: list[DeviceRow] = []
    samples: list[SamplesRow] = []


class Choice:
    """Where a counter's value stands in the groups of one kind of device."""

    __slots__ = ("column", "field", "group", "supported")

    def __init__(self, row: IbRow, column: Column, field: str, *, supported: bool) -> None:
        self.group, self.field, self.column, self.supported = row.group, field, column, supported


class FieldNames:
    """The engine over one mapping: named fields to columns, by capability."""

    def __init__(self, mapping: IbMapping) -> None:
        """Build the columns once: batches keep the same objects from poll to poll."""
        self._rows: list[tuple[IbRow, str, Column]] = []
        for row in mapping.rows:
            self._add(row, row.field, NO_QUEUE)
        for row in mapping.per_queue:
            for queue in range(VL_COUNT):
                self._add(row, f"{row.field}{queue}", queue)
        self._fields = {field for _, field, _ in self._rows} | set(mapping.ignored)
        self._choices: dict[tuple[object, ...], list[Choice]] = {}

    def _add(self, row: IbRow, field: str, queue: int) -> None:
        source = f"{row.group}.{field}" if row.group else field
        self._rows.append((row, field, row.column(queue=queue, source=source)))

    def masks(self) -> tuple[int, int]:
        """The bits of CapabilityMask and CapabilityMask2 that decide anything here."""
        rows = [row for row, _, _ in self._rows]
        cap = sum(1 << bit for bit in {bit for row in rows for bit in row.cap})
        cap2 = sum(1 << bit for bit in {bit for row in rows for bit in row.cap2})
        return cap, cap2

    def knows(self, field: str) -> bool:
        """Whether the field is mapped, or known and deliberately left out."""
        return field in self._fields

    def fields(self, group: str = "") -> Iterator[tuple[str, Column]]:
        """Field names and columns of one group: how agents and writers read the file backward."""
        return ((field, column) for row, field, column in self._rows if row.group == group)

    def choices(
        self,
        groups: Mapping[str, Mapping[str, int | None]],
        cap_mask: int | None = None,
        cap_mask2: int | None = None,
    ) -> list[Choice]:
        """For each counter the field to read, or the one that is not supported."""
        shape = tuple((group, tuple(values)) for group, values in groups.items())
        key = (cap_mask, cap_mask2, shape)
        found = self._choices.get(key)
        if found is None:
            if len(self._choices) > 4096:  # text of unknown make must not grow it without end
                self._choices.clear()
            found = self._choices[key] = self._choose(groups, cap_mask, cap_mask2)
        return found

    def _choose(
        self,
        groups: Mapping[str, Mapping[str, int | None]],
        cap_mask: int | None,
        cap_mask2: int | None,
    ) -> list[Choice]:
        best: dict[tuple[str, int], Choice] = {}
        for row, field, column in self._rows:
            key = (row.counter, column.queue)
            if row.group not in groups or (key in best and best[key].supported):
                continue
            there = field in groups[row.group]
            supported = row.supported(cap_mask, cap_mask2)
            if supported is None:
                supported = there
            if supported and not there:
                continue
            best[key] = Choice(row, column, field, supported=supported)
        return list(best.values())

    def values(
        self,
        groups: Mapping[str, Mapping[str, int | None]],
        cap_mask: int | None = None,
        cap_mask2: int | None = None,
    ) -> list[tuple[Column, int | None]]:
        """One port's values, None where the device does not count. Absent fields are left out.

        `groups` is {attribute: {field: count}}; use {"": {…}} for sources without attributes.
        """
        return [
            (choice.column, groups[choice.group][choice.field] if choice.supported else None)
            for choice in self.choices(groups, cap_mask, cap_mask2)
            if not choice.supported or choice.field in groups[choice.group]
        ]


@cache
def _mappings() -> dict[str, IbMapping]:
    return load(IbMapping, "infiniband")


@cache
def field_names(name: str) -> FieldNames:
    """The engine over the mapping file `name`. Raises `KeyError` for an unknown one."""
    return FieldNames(_mappings()[name])


@cache
def every_field() -> FieldNames:
    """The engine over all sources at once: attributes (`group`) tell them apart."""
    whole = IbMapping(
        name="every",
        title="",
        rows=[row for mapping in _mappings().values() for row in mapping.rows],
        per_queue=[row for mapping in _mappings().values() for row in mapping.per_queue],
        ignored=[name for mapping in _mappings().values() for name in mapping.ignored],
    )
    return FieldNames(whole)


@cache
def _ticks() -> dict[int, DeviceRow]:
    return {row.id: row for mapping in _mappings().values() for row in mapping.devices}


def tick_bytes(device_id: int, lanes: int) -> float:
    """Bytes of port time per transmit-wait tick; 0 where the unit is not known.

    Raises nothing: an unknown device has an unknown unit, which is told as such.
    """
    row = _ticks().get(device_id)
    if row is None:
        return 0.0
    return row.tick_bytes * (lanes if row.per == "lane" else 1)


@cache
def _samples() -> dict[int, SamplesRow]:
    return {row.told: row for mapping in _mappings().values() for row in mapping.samples}


def told_tick_bytes(told: int, lanes: int) -> float:
    """The same from the Tick a device tells itself; 0 where its meaning is not known."""
    row = _samples().get(told)
    if row is None:
        return 0.0
    return (told + 1) * (lanes if row.per == "lane" else 1.0)
