"""A snapshot as write requests: ports and queues by patched templates, the few others singly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabricmon.model.counters import Scope
from fabricmon.model.ports import NO_PEER, PortRole
from fabricmon_exporters.prometheus.samples import Memory, Values
from fabricmon_exporters.prometheus.small import Opened, small_lines
from fabricmon_exporters.remote_write import wire
from fabricmon_exporters.remote_write.template import SERIES_PER_PART, Template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Snapshot
    from fabricmon_exporters.prometheus.families import Family
    from fabricmon_exporters.prometheus.samples import Samples

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_MAX_SMALL = 200_000


class Request(NamedTuple):
    """The body of one request before compression, and how many samples it has."""

    samples: int
    body: bytes


class FabricEncoder:
    """One fabric's series, kept from tick to tick."""

    def __init__(
        self, fabric: str, families: Sequence[Family], external: Mapping[str, str]
    ) -> None:
        """`external` labels are put on every series."""
        self._fabric = fabric
        self._families, self._external = families, dict(external)
        self._memory, self._opened = Memory(), Opened()
        self._templates: dict[tuple[str, str, int | None], Template] = {}
        self._table: PortTable | None = None
        self._before: list[bytes] = []
        self._info_version = -1
        self._small: dict[str, bytes] = {}
        self._small_open: set[str] = set()

    def requests(self, snapshot: Snapshot) -> Iterator[Request]:
        """The tick as requests of up to `SERIES_PER_PART` series."""
        return _gathered(self._parts(snapshot))

    def ended(self, time_ms: int) -> Iterator[Request]:
        """The fabric is gone: end every series it has."""
        parts: list[tuple[int, bytes]] = [
            part for template in self._templates.values() for part in template.ended(time_ms)
        ]
        stale = (_patched(self._small[text], wire.STALE, time_ms) for text in self._small_open)
        return _gathered(iter([*parts, *((1, series) for series in stale)]))

    def _parts(self, snapshot: Snapshot) -> Iterator[tuple[int, bytes]]:
        values = Values(snapshot, self._memory)
        time_ms = snapshot.frame.time_ns // 1_000_000
        self._know(snapshot.table, values.n)
        for family in self._families:
            samples = family.read(values)
            if samples is not None:
                yield from self._family(family, samples, snapshot, time_ms)
        yield from self._small_parts(snapshot, time_ms)

    def _know(self, table: PortTable, n: int) -> None:
        """Encode the labels of ports that are new; in a new table, every port is."""
        if table is not self._table:
            self._table = table
            self._before.clear()
            for template in self._templates.values():
                template.clear()
        for row in range(len(self._before), n):
            device, port = table.ids[row]
            own = {**self._external, "device": device, "fabric": self._fabric, "port": port}
            first = [(name, value) for name, value in own.items() if name < "queue"]
            self._before.append(wire.label_set(first))

    def _family(
        self, family: Family, samples: Samples, snapshot: Snapshot, time_ms: int
    ) -> Iterator[tuple[int, bytes]]:
        numbers = samples.values.astype(np.float64, copy=False)
        if family.scope is Scope.PORT:
            template = self._template(family, None)
            if family.extra_labels and self._info_version != snapshot.table.version:
                yield from template.ended(time_ms - 1)
                template.clear()
                self._info_version = snapshot.table.version
            yield from template.parts(numbers, samples.mask, time_ms)
            return
        for q, queue in enumerate(snapshot.frame.queues):
            mask = samples.mask[:, q]
            known = (family.name, family.scope.value, queue) in self._templates
            if known or mask.any():
                yield from self._template(family, queue).parts(numbers[:, q], mask, time_ms)

    def _template(self, family: Family, queue: int | None) -> Template:
        key = (family.name, family.scope.value, queue)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(self._encoder(family, queue))
        return template

    def _encoder(self, family: Family, queue: int | None) -> _Encoder:
        after = {name: value for name, value in self._external.items() if name > "queue"}
        if queue is not None:
            after["queue"] = str(queue)
        name, tail = wire.label("__name__", family.name), wire.label_set(after.items())
        return _Encoder(self, family, name, tail)

    def series(self, encoder: _Encoder, rows: NDArray[np.intp]) -> list[bytes]:
        """Blank series of these rows."""
        if encoder.family.extra_labels:
            return [wire.series(self._info(encoder, row)) for row in rows.tolist()]
        before, after = encoder.name, encoder.after
        known = self._before
        return [wire.series(before + known[row] + after) for row in rows.tolist()]

    def _info(self, encoder: _Encoder, row: int) -> bytes:
        """Labels of the metric that says what a port is; they may stand anywhere in the order."""
        table = self._table
        assert table is not None
        peer = int(table.peer[row])
        other = table.ids[peer] if peer != NO_PEER else ("", "")
        speed = table.speed_bps[row]
        device, port = table.ids[row]
        own = {
            **self._external,
            "__name__": encoder.family.name,
            "device": device,
            "fabric": self._fabric,
            "port": port,
            "peer_device": other[0],
            "peer_port": other[1],
            "role": PortRole(table.role[row]).name.lower(),
            "speed_bps": str(int(speed)) if speed > 0 else "",
            "technology": "infiniband" if table.infiniband[row] else "ethernet",
        }
        return wire.label_set(own.items())

    def _small_parts(self, snapshot: Snapshot, time_ms: int) -> Iterator[tuple[int, bytes]]:
        """Incidents, targets, jobs: text lines of the page, their labels encoded once."""
        lines = small_lines(snapshot, self._opened.see(snapshot), None)
        now: dict[str, float] = {}
        for line in (line for family in lines.values() for line in family):
            text, _, number = line.rpartition(" ")
            now[text] = float(number)
        if len(self._small) > _MAX_SMALL:
            self._small = {text: self._small[text] for text in self._small_open}
        for text, value in now.items():
            blank = self._small.get(text)
            if blank is None:
                blank = self._small[text] = self._encoded(text)
            yield 1, _patched(blank, value, time_ms)
        for text in self._small_open - now.keys():
            yield 1, _patched(self._small[text], wire.STALE, time_ms)
        self._small_open = set(now)

    def _encoded(self, text: str) -> bytes:
        name, _, labels = text.partition("{")
        own = {**self._external, "__name__": name}
        for key, value in _LABEL.findall(labels):
            own[key] = _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], value)
        return wire.series(wire.label_set(own.items()))


class _Encoder:
    """What is constant in the series of one template."""

    def __init__(self, owner: FabricEncoder, family: Family, name: bytes, after: bytes) -> None:
        self.owner, self.family, self.name, self.after = owner, family, name, after

    def __call__(self, rows: NDArray[np.intp]) -> list[bytes]:
        return self.owner.series(self, rows)


def _patched(blank: bytes, number: float, time_ms: int) -> bytes:
    """One series with its value and time."""
    end = len(blank) - wire.VALUE_FROM_END
    value = np.float64(number).tobytes()
    return blank[:end] + value + b"\x10" + wire.timestamp(time_ms)


def _gathered(parts: Iterator[tuple[int, bytes]]) -> Iterator[Request]:
    """Parts behind one another: a request is its series in a row."""
    held: list[bytes] = []
    count = 0
    for samples, body in parts:
        if held and count + samples > SERIES_PER_PART:
            yield Request(count, b"".join(held))
            held, count = [], 0
        held.append(body)
        count += samples
    if held:
        yield Request(count, b"".join(held))
