"""The bytes an InfiniBand subnet answers with: every attribute of every port, ready-made.

Ports are rows: those of a node stand together, a switch's port 0 among them. `bank` gives one whole
image; `plan` tells the server where things stand in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.ibfabric import name_nodes, width_and_speed
from fabricmon.mappings import infiniband
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.infiniband.ibfabric import IbFabric, IbNode
    from fabricmon.model.readings import PortSet, ReadingBatch

_COUNTS = {
    "PortCountersExtended": 192,
    "PortCounters": 44,
    "PortXmitDiscardDetails": 12,
    "PortVLXmitWaitCounters": 36,
    "PortRcvErrorDetails": 16,
}
"""Bytes kept of each performance attribute of a port."""
_OPTIONAL = {"PortExtendedSpeedsCounters": 152, "PortRcvConCtrl": 12, "PortXmitConCtrl": 8}
"""The same of what only some devices have."""
_SMP_SIZE = 64
_OF_NODE = ("NodeInfo", "NodeDescription", "SwitchInfo", "ClassPortInfo", "SamplesControl")
_PERFORMANCE = mad.PERFORMANCE << 8
_CODES = {
    **{name: code | _PERFORMANCE for name, code in mad.ATTRIBUTES.items()},
    "PortInfo": mad.PORT_INFO,
    "NodeInfo": mad.NODE_INFO,
    "NodeDescription": mad.NODE_DESCRIPTION,
    "SwitchInfo": mad.SWITCH_INFO,
    "ClassPortInfo": mad.CLASS_PORT_INFO | _PERFORMANCE,
    "SamplesControl": mad.SAMPLES_CONTROL | _PERFORMANCE,
}

_WIDTHS = {name: code for code, name in mad.WIDTHS.items()}
_BASIC = {name: code for code, name in mad.SPEEDS.items()}
_EXTENDED = {name: code for code, name in mad.EXTENDED_SPEEDS.items()}
_EXTENDED_2 = {name: code for code, name in mad.EXTENDED_SPEEDS_2.items()}
_NODE_TYPES = {"switch": 2, "router": 3}
_EXTENDED_COUNTERS, _TRANSMIT_WAIT, _WIDE = 1 << 9, 1 << 12, 1 << 1
_HAS_EXTENDED_SPEEDS, _HAS_CAP_MASK2, _HAS_EXTENDED_SPEEDS_2 = 1 << 14, 1 << 15, 0x0800
_ACTIVE, _DOWN, _LINK_UP, _POLLING = 4, 1, 5, 2
_TICK_OF_8_BYTES = 7


def node_id(node: IbNode) -> str:
    """How ibsim's clients name a node (SIM_HOST)."""
    return f"{'S' if node.kind == 'switch' else 'H'}-{node.guid:016x}"


def port_numbers(node: IbNode) -> range:
    """All ports of a node; a switch's management port 0 is one."""
    return range(0 if node.kind == "switch" else 1, max([node.port_count, *node.ports]) + 1)


class SubnetImage:
    """Counters and states of one subnet, and their encoding."""

    def __init__(self, fabric: IbFabric, *, wide: bool, groups: Sequence[str] = ()) -> None:
        """`wide`: errors and transmit-wait are counted in 64 bits, as current switches do.

        `groups`: attributes of `_OPTIONAL` that devices have besides.
        """
        self.fabric, self._wide = fabric, wide
        self._sizes = {**_COUNTS, **{group: _OPTIONAL[group] for group in groups}}
        self.nodes = list(fabric.nodes.values())
        self.index = {node.guid: i for i, node in enumerate(self.nodes)}
        self.places = [(node, number) for node in self.nodes for number in port_numbers(node)]
        self.pulled: set[tuple[int, int]] = set()
        """(GUID, port) of cables that were pulled by hand; they stay so whatever is fed."""
        self._down: set[tuple[int, int]] = set()
        """(GUID, port) of links that are down by what was fed."""
        sizes = [len(port_numbers(node)) for node in self.nodes]
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        labels = name_nodes(self.nodes)
        names = [(labels[node.guid], number) for node, number in self.places]
        self._row = {
            (label.device, label.port(number)): i for i, (label, number) in enumerate(names)
        }
        self._sets: dict[int, tuple[PortSet, NDArray[np.intp]]] = {}
        rows = len(self.places)
        self._counts = {g: np.zeros((len(mad.FIELDS[g]), rows), np.uint64) for g in self._sizes}
        self._downs = np.zeros(rows, np.uint64)
        """How often cables were pulled, beside what is fed."""
        self._static: dict[str, NDArray[np.uint8]] = {}
        self._feeds = _feeds(self._sizes)

    # What moves

    def take(self, batch: ReadingBatch) -> None:
        """Counts, states and speeds of a reading; what it does not know stays as it was."""
        rows = self._rows_of(batch.ports)
        known = rows >= 0
        for k, column in enumerate(batch.columns):
            fresh = known & (batch.state[k] == State.OK)
            counts = batch.values[k, fresh] * np.uint64(column.scale)
            for group, field, scale in self._feeds.get((column.counter.id, column.queue), ()):
                self._counts[group][field, rows[fresh]] = counts // np.uint64(scale)
        for k, column in enumerate(batch.gauge_columns):
            self._take_level(column.counter.id, rows[known], batch.gauges[k, known])

    def _rows_of(self, ports: PortSet) -> NDArray[np.intp]:
        cached = self._sets.get(id(ports))
        if cached is not None and cached[0] is ports:
            return cached[1]
        pairs = zip(ports.device, ports.port, strict=True)
        rows = np.array([self._row.get(pair, -1) for pair in pairs], np.intp)
        self._sets[id(ports)] = (ports, rows)
        return rows

    def _take_level(self, gauge: str, rows: NDArray[np.intp], levels: NDArray[np.float64]) -> None:
        if gauge not in {"oper_up", "speed_bps"}:
            return
        for row, level in zip(rows.tolist(), levels.tolist(), strict=True):
            node, number = self.places[row]
            port = node.ports.get(number)
            if port is None or port.peer is None:
                continue
            end = (node.guid, number)
            if gauge == "oper_up" and (level > 0) == (end in self._down):
                (self._down.discard if level > 0 else self._down.add)(end)
                self._static.clear()
            elif gauge == "speed_bps" and level > 0 and level != port.speed_bps:
                port.width, port.speed = width_and_speed(level)
                self._static.clear()

    def pull(self, guid: int, port: int) -> None:
        """Pull a cable: both ends are down, and count it as devices do."""
        self.pulled.add((guid, port))
        peer = self.fabric.nodes[guid].ports[port].peer
        ends = {(node.guid, number): row for row, (node, number) in enumerate(self.places)}
        for end in ((guid, port), peer):
            if end in ends:
                self._downs[ends[end]] += np.uint64(1)
        self._static.clear()

    def clear_counters(self) -> None:
        """Somebody resets every counter."""
        self._downs[:] = 0
        for counts in self._counts.values():
            counts[:] = 0

    def changed(self) -> None:
        """Names, LIDs or cables are not as they were."""
        self._static.clear()

    # How it is laid out

    def layout(self) -> tuple[dict[str, tuple[int, int]], int]:
        """{attribute: (offset in a bank, bytes a row)}, and the size of a bank."""
        sizes = {**self._sizes, "PortInfo": _SMP_SIZE}
        offsets: dict[str, tuple[int, int]] = {}
        at = 0
        for name, size in sizes.items():
            offsets[name] = (at, size)
            at += size * len(self.places)
        for name in _OF_NODE:
            offsets[name] = (at, _SMP_SIZE)
            at += _SMP_SIZE * len(self.nodes)
        return offsets, at

    def bank(self) -> bytes:
        """The whole image."""
        if not self._static:
            self._static = {"PortInfo": self._port_info(), **self._node_attributes()}
        parts: list[bytes] = []
        for group, size in self._sizes.items():
            data = np.zeros((len(self.places), size), np.uint8)
            mad.encode(data, mad.FIELDS[group], self._counts_of(group))
            parts.append(data.tobytes())
        parts += [self._static[name].tobytes() for name in ("PortInfo", *_OF_NODE)]
        return b"".join(parts)

    def _counts_of(self, group: str) -> NDArray[np.uint64]:
        """uint64[fields, ports]."""
        counts = self._counts[group]
        downs = [k for k, f in enumerate(mad.FIELDS[group]) if f.name == "LinkDownedCounter"]
        if downs and self._downs.any():
            counts = counts.copy()
            counts[downs[0]] += self._downs
        return counts

    def plan(self) -> dict[str, Any]:
        """What the server needs to find its way in the image."""
        offsets, size = self.layout()
        names = {node_id(node): i for i, node in enumerate(self.nodes)}
        for i, node in enumerate(self.nodes):
            names.setdefault(node.description, i)
        host = next((i for i, node in enumerate(self.nodes) if node.kind == "host"), 0)
        return {
            "bank_size": size,
            "port_attributes": {
                _CODES[name]: at for name, at in offsets.items() if name not in _OF_NODE
            },
            "node_attributes": {_CODES[name]: offsets[name] for name in _OF_NODE},
            "nodes": [
                [self._first[i], len(port_numbers(node)), node.kind == "switch"]
                for i, node in enumerate(self.nodes)
            ],
            "names": names,
            "host": host,
            "links": self._links(),
            "lids": self.lids(),
        }

    def _links(self) -> list[list[int]]:
        ends = {
            frozenset(((node.guid, port.number), port.peer))
            for node in self.nodes
            for port in node.ports.values()
            if port.peer is not None and port.peer[0] in self.index
        }
        return [[part for guid, port in pair for part in (self.index[guid], port)] for pair in ends]

    def lids(self) -> list[list[int]]:
        """[lid, node, port] for every LID."""
        found: list[list[int]] = []
        for i, node in enumerate(self.nodes):
            if node.kind == "switch":
                found.append([node.lid, i, 0])
            else:
                found += [[port.lid, i, port.number] for port in node.ports.values()]
        return found

    def broken(self) -> list[list[int]]:
        """[node, port] of pulled cables."""
        return [[self.index[guid], port] for guid, port in self._down | self.pulled]

    # How it is encoded

    def _port_info(self) -> NDArray[np.uint8]:
        names = [f.name for f in mad.PORT_INFO_FIELDS]
        values = np.zeros((len(names), len(self.places)), np.uint64)
        rows = [self._port_fields(node, number) for node, number in self.places]
        for k, name in enumerate(names):
            values[k] = [row.get(name, 0) for row in rows]
        data = np.zeros((len(self.places), _SMP_SIZE), np.uint8)
        mad.encode(data, mad.PORT_INFO_FIELDS, values)
        return data

    def _port_fields(self, node: IbNode, number: int) -> dict[str, int]:
        port = node.ports.get(number)
        management = node.kind == "switch" and number == 0
        linked = port is not None and port.peer is not None and port.peer[0] in self.index
        ends = {(node.guid, number), port.peer if linked and port else None}
        cut = not ends.isdisjoint(self._down | self.pulled)
        up = management or (linked and not cut)
        width = _WIDTHS.get(port.width, 2) if port is not None and up else 2
        speed = port.speed if port is not None and up else "SDR"
        lid = node.lid if node.kind == "switch" else (port.lid if port is not None else 0)
        return {
            "Lid": lid if management or node.kind != "switch" else 0,
            "SMLid": 1,
            "CapMask": _HAS_EXTENDED_SPEEDS | _HAS_CAP_MASK2,
            "LinkWidthEnabled": width | 3,
            "LinkWidthSupported": width | 3,
            "LinkWidthActive": width,
            "LinkSpeedSupported": 7,
            "LinkState": _ACTIVE if up else _DOWN,
            "PhysLinkState": _LINK_UP if up else _POLLING,
            "LinkSpeedActive": _BASIC.get(speed, 4),
            "LinkSpeedEnabled": 7,
            "NeighborMTU": 5,
            "VLCap": 4,
            "MtuCap": 5,
            "OperVLs": 4,
            "CapMask2": _HAS_EXTENDED_SPEEDS_2,
            "LinkSpeedExtActive": _EXTENDED.get(speed, 0),
            "LinkSpeedExtSupported": 15,
            "LinkSpeedExtEnabled": 15,
            "LinkSpeedExtActive2": _EXTENDED_2.get(speed, 0),
            "LinkSpeedExtSupported2": 1,
            "LinkSpeedExtEnabled2": 1,
        }

    def _node_attributes(self) -> dict[str, NDArray[np.uint8]]:
        made = {name: np.zeros((len(self.nodes), _SMP_SIZE), np.uint8) for name in _OF_NODE}
        infos = np.array([_node_fields(node) for node in self.nodes], np.uint64).T
        made["NodeInfo"][:, :2] = 1
        mad.encode(made["NodeInfo"], mad.NODE_INFO_FIELDS, infos)
        made["NodeInfo"][:, 29] = 8  # partitions it could hold
        for row, node in zip(made["NodeDescription"], self.nodes, strict=True):
            text = node.description.encode("latin-1", "replace")[:63]
            row[: len(text)] = np.frombuffer(text, np.uint8)
        made["SwitchInfo"][:, 0] = 0xC0  # room for 49,152 LIDs
        made["SwitchInfo"][:, 16] = 0x08  # enhanced port 0
        capability = made["ClassPortInfo"]
        capability[:, :2] = 1
        masks = np.full((2, len(self.nodes)), _EXTENDED_COUNTERS | _TRANSMIT_WAIT, np.uint64)
        masks[1] = _WIDE if self._wide else 0
        mad.encode(capability, mad.CLASS_PORT_INFO_FIELDS, masks)
        made["SamplesControl"][:, 2] = _TICK_OF_8_BYTES
        return made


def _node_fields(node: IbNode) -> list[int]:
    """Values in the order of `mad.NODE_INFO_FIELDS`."""
    kind = _NODE_TYPES.get(node.kind, 1)
    system = node.system_guid or node.guid
    ports = max([node.port_count, *node.ports])
    return [kind, ports, system, node.guid, node.guid, node.device_id, 0xA0, 0, node.vendor_id]


def _feeds(groups: Iterable[str]) -> dict[tuple[str, int], list[tuple[str, int, int]]]:
    """{(counter, queue): [(attribute, index of its field, catalogue units per unit)]}."""
    names = infiniband.field_names("pma")
    found: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
    for group in groups:
        index = {f.name: i for i, f in enumerate(mad.FIELDS[group])}
        for field, column in names.fields(group):
            key = (column.counter.id, column.queue)
            found.setdefault(key, []).append((group, index[field], column.scale))
    return found
