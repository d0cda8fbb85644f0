"""What is known of one subnet from sweep to sweep: its nodes, their labels, their silence.

A sweep may be partial: nodes that do not answer are kept as they were last seen and counted as not
read, until several sweeps in a row have gone without them. A label once given stays for the life of
the process, so that a renamed node or a new LID never starts a new series.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fabricmon.formats.base import BatchBuilder, PortReading
from fabricmon.formats.infiniband.ibcounts import Identity, merged
from fabricmon.formats.infiniband.ibfabric import UNICAST_LIDS, IbFabric, is_generic
from fabricmon.mappings import infiniband
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fabricmon.api import Context
    from fabricmon.collectors.infiniband.config import InfinibandConfig
    from fabricmon.formats.infiniband.ibfabric import IbNode, IbPort, Label
    from fabricmon.formats.infiniband.ibtext import PortCounts
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Topology

_TOLD_PATHS = 20
"""Silent ends named in the log at each sweep; the rest is only counted."""
_FORGET_AFTER = 5
"""Complete sweeps in a row without a node after which it is forgotten."""

OPER_UP = Column(BY_ID["oper_up"], source="PortInfo.PortState")
SPEED = Column(BY_ID["speed_bps"], source="PortInfo.LinkSpeedActive, LinkWidthActive")


class KnownFabric:
    """One subnet, kept over sweeps."""

    def __init__(
        self, target: str, config: InfinibandConfig, context: Context, names: Mapping[int, str]
    ) -> None:
        """`names` is the operator's map of GUIDs to names."""
        self._target, self._config, self._report = target, config, context.report
        self._names = names
        self.fabric = IbFabric()
        self.missing: dict[int, int] = {}
        """GUIDs of nodes that the last sweeps did not see, and how many sweeps in a row."""
        self.silent: set[int] = set()
        """GUIDs of nodes that the last sweep did not see."""
        self.version = 0
        """Rises with everything that is learned of the shape."""
        self.identity = Identity()
        self._told_ticks: dict[int, int] = {}
        self._ports: dict[tuple[str, str], tuple[IbNode, int]] = {}
        self._builder = BatchBuilder(target)
        self._fields = infiniband.every_field()

    def __bool__(self) -> bool:
        """Whether anything has been discovered yet."""
        return bool(self.fabric.nodes)

    def adopt(self, swept: IbFabric) -> None:
        """Take a sweep; what it lacks is kept for a while."""
        self.version += 1
        before = self.fabric.nodes
        complete = not swept.unreachable
        absent = before.keys() - swept.nodes.keys()
        self.missing = {guid: self.missing.get(guid, 0) + complete for guid in absent}
        for guid in sorted(absent):
            if self.missing[guid] >= _FORGET_AFTER:
                del self.missing[guid]
                continue
            swept.nodes[guid] = before[guid]
        self.silent = set(self.missing)
        _mark_silent_ends(swept)
        self._relabel(swept)
        for path in swept.unreachable[:_TOLD_PATHS]:
            place = place_of(swept, path, self.identity.labels)
            self._report.emit(Event.POLL_PARTIAL, place, target=self._target, error="no answer")

    def _relabel(self, swept: IbFabric) -> None:
        known = {
            guid: label
            for guid, label in self.identity.labels.items()
            if guid in swept.nodes and not self._may_be_named(guid, swept)
        }
        self.fabric = swept
        self.identity = Identity(swept, known, self._names)
        self._ports = {
            (label.device, label.port(number)): (node, number)
            for guid, node in swept.nodes.items()
            for label in (self.identity.labels[guid],)
            for number in range(1, max([node.port_count, *node.ports]) + 1)
        }

    def _may_be_named(self, guid: int, swept: IbFabric) -> bool:
        """A host that has just booted under its adapter's generic name gets its own name once."""
        old = self.fabric.nodes.get(guid)
        if old is None or guid in self._names:
            return False
        return is_generic(old.description) and not is_generic(swept.nodes[guid].description)

    def label(self, guid: int) -> Label:
        """The node's label."""
        return self.identity.labels[guid]

    def asked(self) -> Iterator[tuple[IbNode, list[int]]]:
        """Nodes to read and their port numbers. Ports without a usable LID are left out."""
        for node in self.fabric.nodes.values():
            if node.guid in self.silent:
                continue
            numbers = [n for n in self._numbers(node) if node.lid_of(n) in UNICAST_LIDS]
            if numbers:
                yield node, numbers

    def _numbers(self, node: IbNode) -> Sequence[int]:
        """The ports of a node that are of interest."""
        if node.kind == "switch":
            return range(1, node.port_count + 1) or sorted(node.ports)
        if node.kind == "host" and self._config.host_ports:
            return sorted(node.ports)
        return ()

    def silent_ports(self) -> int:
        """Ports of the nodes that the last sweep did not see: as many as would have been read."""
        return sum(len(self._numbers(self.fabric.nodes[guid])) for guid in self.silent)

    def learn_tick(self, guid: int, told: int) -> None:
        """Tick of PortSamplesControl, as the device tells it."""
        if self._told_ticks.get(guid) != told:
            self._told_ticks[guid] = told
            self.version += 1

    def tick_of(self, node: IbNode, port: IbPort) -> float:
        """Bytes per transmit-wait tick: by its id, as the device tells, as the operator says.

        0 where nobody says: the unit is unknown.
        """
        lanes = port.lanes or 4
        by_id = infiniband.tick_bytes(node.device_id, lanes)
        told = self._told_ticks.get(node.guid)
        by_device = infiniband.told_tick_bytes(told, lanes) if told is not None else 0.0
        return by_id or by_device or self._config.tick_bytes or 0.0

    def topology(self) -> Topology:
        """What is, in model types."""
        plane = self._config.plane
        shape = self.fabric.topology(self.identity.labels, self.tick_of)
        if not plane:
            return shape
        return replace(shape, ports=tuple(replace(port, plane=plane) for port in shape.ports))

    def levels(self, node: IbNode, number: int) -> list[tuple[Column, float]]:
        """Link state and speed of one port, as of the last sweep; nothing where not known."""
        port = node.ports.get(number)
        if node.guid in self.silent:
            return []
        if port is None:
            return [(OPER_UP, 0.0)]
        if port.up is None:
            return []
        speed = [(SPEED, port.speed_bps)] if port.speed_bps else []
        return [(OPER_UP, float(port.up)), *speed]

    def batches(self, blocks: Iterable[PortCounts], time_ns: int) -> tuple[ReadingBatch, ...]:
        """Text blocks of one poll as batches, with each port's state and speed."""
        for port in merged(blocks, self.identity):
            for field in (f for values in port.groups.values() for f in values):
                if not self._fields.knows(field):
                    self._report.emit(Event.VALUE_IGNORED, self._target, field=field)
            values: list[tuple[Column, int | float | None]] = []
            values += self._fields.values(port.groups, port.cap_mask, port.cap_mask2)
            found = self._ports.get((port.device, port.port))
            if found is not None:
                values += self.levels(*found)
            self._builder.add(PortReading(port.device, port.port, values), time_ns)
        return self._builder.take()


def _mark_silent_ends(fabric: IbFabric) -> None:
    """A port whose neighbour did not answer is not down: its state is simply not known."""
    for path in fabric.unreachable:
        end = _walk(fabric, [int(hop) for hop in path.split(",") if hop])
        if end is not None:
            port = end[0].port(end[1])
            if port.peer is None:
                port.up = None


def _walk(fabric: IbFabric, hops: list[int]) -> tuple[IbNode, int] | None:
    """The last node that answered on a direct route, and the port it was left through."""
    node = fabric.nodes.get(fabric.root)
    if node is None:
        return None
    for hop in hops[1:-1]:
        port = node.ports.get(hop)
        if port is None or port.peer is None or port.peer[0] not in fabric.nodes:
            return None
        node = fabric.nodes[port.peer[0]]
    return (node, hops[-1]) if len(hops) > 1 else None


def place_of(fabric: IbFabric, path: str, labels: Mapping[int, Label]) -> str:
    """The end of a direct route in words: `behind leaf-1[9]`, or the route itself."""
    end = _walk(fabric, [int(hop) for hop in path.split(",") if hop])
    if end is None or end[0].guid not in labels:
        return f"at direct route {path}"
    label = labels[end[0].guid]
    return f"behind {label.device}[{label.port(end[1])}]"
