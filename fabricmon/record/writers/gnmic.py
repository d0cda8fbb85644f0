"""gnmic's `event` and `json` files: one growing file, one line a message.

LLDP tells the cables. What gNMI has no words for (roles, jobs, intent) stands in a `topology.json`
beside it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import orjson

from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmic import write_event, write_message
from fabricmon.formats.interchange import TOPOLOGY, write_topology
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.mappings.gnmi_write import GnmiWriter
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.formats.interchange import Label
    from fabricmon.model.stream import Item
    from fabricmon.selfmon import Reporter

_Leaf: TypeAlias = tuple[str, int | float | str]
_MAPPING = "cumulus"
_SUBSCRIPTION = "fabricmon"


class MessageWriter:
    """gnmic's default JSON: one SubscribeResponse a port and poll."""

    name = "telemetry.json"

    def __init__(self, folder: Path, fabric: str, report: Reporter) -> None:
        """Nothing is written yet."""
        del fabric, report
        self._folder, self._topology = folder, Topology()
        self._file = (folder / self.name).open("wb")
        self._paths = GnmiPaths.load(_MAPPING)
        self._leaves = GnmiWriter(self._paths)
        self._cables: list[tuple[str, list[_Leaf]]] = []

    def write(self, item: Item) -> None:
        """Take one item."""
        match item:
            case Topology():
                self._topology = self._topology.merged(item)
                for link in item.links:
                    for near, far in ((link.a, link.b), (link.b, link.a)):
                        said = self._leaves.neighbour(self._paths, near.port, *far)
                        self._cables.append((near.device, list(said)))
            case ReadingBatch():
                self._batch(item)

    def _batch(self, batch: ReadingBatch) -> None:
        for device, said in self._cables:
            self._line(device, int(batch.time_ns[0]), said)
        self._cables.clear()
        for port in self._leaves.ports(batch):
            if port.leaves:
                self._line(port.device, port.time_ns, port.leaves)

    def _line(self, device: str, time_ns: int, leaves: Sequence[_Leaf]) -> None:
        self._file.write(orjson.dumps(self._record(device, time_ns, leaves)) + b"\n")

    def _record(self, device: str, time_ns: int, leaves: Sequence[_Leaf]) -> object:
        values = {path: _exact(value) for path, value in leaves}
        return write_message(device, _SUBSCRIPTION, time_ns, "", values)

    def close(self, labels: Sequence[Label]) -> None:
        """End the file and write what it cannot say."""
        del labels
        self._file.close()
        (self._folder / TOPOLOGY).write_bytes(write_topology(self._topology))


class EventWriter(MessageWriter):
    """gnmic's `event` format: keys as tags, paths without keys."""

    name = "telemetry.event.json"

    def _record(self, device: str, time_ns: int, leaves: Sequence[_Leaf]) -> object:
        events: dict[tuple[tuple[str, str], ...], dict[str, object]] = {}
        for path, value in leaves:
            tags, plain = _tagged(path)
            events.setdefault(tags, {})[plain] = _exact(value)
        return [
            write_event(
                _SUBSCRIPTION,
                time_ns,
                {"source": device, "subscription-name": _SUBSCRIPTION, **dict(tags)},
                values,
            )
            for tags, values in events.items()
        ]


@lru_cache(1 << 17)
def _tagged(path: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """A path's keys as gnmic names its tags, and the path without them."""
    tags = tuple(
        (f"{element.name}_{key}", text)
        for element in gnmi_path.split(path)
        for key, text in element.keys.items()
    )
    return tags, gnmi_path.plain(path)


def _exact(value: object) -> object:
    """Counts that a JSON number may round are digits, as RFC 7951 has it."""
    return str(value) if isinstance(value, int) and value > 1 << 53 else value
