"""What every gNMI-style shape is turned into: readings of a device at a time, and neighbours.

`Recorder` is the sink of all of them. It resolves each path once per device, and keeps what is no
sample: LLDP neighbours, ended series, and counts of what was odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.lines.series import Samples
from fabricmon.formats.lines.series_table import UNMAPPED, Resolver
from fabricmon.formats.system import sonic
from fabricmon.model.topology import Link, Node, PortId, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.formats.gnmi.gnmi_path import Element
    from fabricmon.formats.lines.series_table import SeriesTable
    from fabricmon.formats.system.sonic import Names

_MAX_PATHS = 1_000_000
_MAX_FOREIGN, _MAX_NEIGHBOURS = 100_000, 100_000
LONGEST = 4096
"""Characters of a device and a path that are remembered; longer ones are refused, and counted."""


class Reading(NamedTuple):
    """One leaf: its path, and its value as it was written."""

    elements: Sequence[Element]
    value: object


class Given(NamedTuple):
    """A leaf that reached the recorder, and what became of it."""

    value: object
    series: int | None
    """None where it spoke of a neighbour."""
    leaf: str
    """The last element of its path."""
    put: int | None
    """Which of the collected values it is; None where it was none."""


class PathResolver(Resolver, Protocol):
    """A mapping of paths, with its view on LLDP."""

    def neighbour(self, path: str, keys: Mapping[str, str]) -> tuple[str, str, str] | None:
        """Local port, neighbour's id, and `device` or `port`, whichever the leaf says of it."""


class Recorder:
    """Takes records of all shapes; gives samples and a topology."""

    def __init__(self, table: SeriesTable, resolver: PathResolver, device: str = "") -> None:
        """`device` is the name of what sends records that do not say who sent them."""
        self.table = table
        self.samples = Samples(table)
        self.device = device
        self._resolver = resolver
        self._series: dict[tuple[str, str, str], int] = {}
        self._foreign: set[tuple[str, str, str]] = set()  # paths that are no series
        self._neighbours: dict[tuple[str, str, str], dict[str, str]] = {}
        self.names: dict[tuple[str, str], Names] = {}
        """SONiC's name maps, by device and ASIC."""
        self.deleted = 0
        self.given: list[Given] | None = None
        """What is given while somebody watches."""

    def series(self, tags: Mapping[str, str], path: str) -> int:
        """The series of a path of an event; tags name device and keys."""
        return self.table.find(self.event_device(tags), gnmi_path.plain(path), tags)

    def event_device(self, tags: Mapping[str, str]) -> str:
        """The device of an event: its `target` tag, else where it came from."""
        target = tags.get("target")
        if target and target not in sonic.DATABASES:
            return gnmi_path.host(str(target))
        named = tags.get("source") or tags.get("meta_source")
        return gnmi_path.host(str(named)) if named else self.device

    def device_of(self, target: str) -> str:
        """The device a gNMI target stands for; SONiC's targets are databases."""
        return self.device if not target or target in sonic.DATABASES else gnmi_path.host(target)

    def readings(self, device: str, time_ns: int, readings: Iterable[Reading]) -> None:
        """Take what a device said at one time."""
        self.put_readings(device, readings)
        self.samples.stamp(time_ns)

    def put_readings(self, device: str, readings: Iterable[Reading]) -> None:
        """Take readings whose time follows (`samples.stamp`)."""
        for elements, value in readings:
            series = self.resolve(device, elements, value)
            if self.given is not None:
                self._give(series, value, elements[-1].name if elements else "")
            elif series is not None and series >= 0:
                self.samples.put(series, value)

    def _give(self, series: int | None, value: object, leaf: str) -> None:
        """Put a value and tell what became of it."""
        assert self.given is not None
        before = len(self.samples.codes)
        if series is not None and series >= 0:
            self.samples.put(series, value)
        index = before if len(self.samples.codes) > before else None
        self.given.append(Given(value, series, leaf, index))

    def resolve(self, device: str, elements: Sequence[Element], value: object) -> int | None:
        """The series of a path; None where the leaf spoke of a neighbour."""
        key = (device, gnmi_path.text(elements), "")
        series = self._series.get(key)
        if series is None:
            path, keys = sonic.canonical(elements) or gnmi_path.join(elements)
            return self._resolve(key, device, path, keys, value)
        return series

    def values(
        self,
        device: str,
        time_ns: int,
        readings: Iterable[tuple[str, Mapping[str, str], object]],
    ) -> None:
        """Take plain paths whose keys stand apart."""
        for path, keys, value in readings:
            key = (device, path, str(keys))
            series: int | None = self._series.get(key)
            if series is None:
                series = self._resolve(key, device, path, keys, value)
            if self.given is not None:
                self._give(series, value, path.rpartition("/")[2])
            elif series is not None and series >= 0:
                self.samples.put(series, value)
        self.samples.stamp(time_ns)

    def _resolve(
        self,
        key: tuple[str, str, str],
        device: str,
        path: str,
        keys: Mapping[str, str],
        value: object,
    ) -> int | None:
        if sum(map(len, key)) > LONGEST:
            return self.table.refuse()
        if key in self._foreign:
            return UNMAPPED
        fact = self._resolver.neighbour(path, keys)
        if fact is not None:  # not cached: what it says may change
            port, who, field = fact
            if len(self._neighbours) < _MAX_NEIGHBOURS or (device, port, who) in self._neighbours:
                self._neighbours.setdefault((device, port, who), {})[field] = str(value)[:LONGEST]
            return None
        series = self.table.find(device, path, keys)
        if series == UNMAPPED:
            if len(self._foreign) >= _MAX_FOREIGN:
                self._foreign.clear()
            self._foreign.add(key)
            return UNMAPPED
        if len(self._series) >= _MAX_PATHS:
            self._series.clear()
        self._series[key] = series
        return series

    def keep(self, ports: NDArray[np.bool_]) -> None:
        """Forget the ports that are False, and what was refused while they were there."""
        self._foreign.clear()
        moved = self.table.keep(ports).tolist()
        self._series = {
            key: moved[series] for key, series in self._series.items() if moved[series] >= 0
        }

    def end(self, device: str, elements: Sequence[Element]) -> None:
        """The device deleted a path: what lies under it has no value any more."""
        self.deleted += 1
        gone = gnmi_path.text(elements)
        for (owner, written, _), series in self._series.items():
            below = written[len(gone) : len(gone) + 1] in ("", "/", "[")
            if owner == device and below and series >= 0 and written.startswith(gone):
                self.samples.ended.add(series)

    def topology(self) -> Topology | None:
        """The cables that LLDP named so far; None where it named none."""
        links: dict[frozenset[PortId], Link] = {}
        for (device, port, _), facts in self._neighbours.items():
            if facts.get("device") and facts.get("port"):
                a, b = PortId(device, port), PortId(facts["device"], facts["port"])
                links.setdefault(frozenset((a, b)), Link(a, b))
        if not links:
            return None
        told = {device for device, _, _ in self._neighbours}
        names = sorted({end.device for link in links.values() for end in (link.a, link.b)})
        nodes = tuple(Node(name, "switch" if name in told else "host") for name in names)
        return Topology(nodes, tuple(links.values()))
