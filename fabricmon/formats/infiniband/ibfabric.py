"""An InfiniBand subnet as its discovery tools tell it, and how its nodes are named.

Identity is the GUID and the port number. LIDs change when the subnet manager restarts, and node
descriptions when a host boots: neither ever names a port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fabricmon.model.topology import (
    Link,
    Node,
    PortFacts,
    PortId,
    Technology,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

UNICAST_LIDS = range(1, 0xC000)
"""LIDs that can be asked. 0 and 0xFFFF are ports that no subnet manager has configured."""

AGGREGATION_NODE = "Mellanox Technologies Aggregation Node"
"""Node description of the SHARP unit inside a switch, which shows up as a channel adapter."""

# Effective bits per second of one lane, after coding: the signalling rate where FEC overhead is
# already in the name (rdma-core libibmad dump.c, fields LinkSpeedActive, Ext and Ext2).
LANE_BPS: dict[str, float] = {
    "SDR": 2e9,
    "DDR": 4e9,
    "QDR": 8e9,
    "FDR10": 10e9,
    "FDR": 13.64e9,
    "EDR": 25e9,
    "HDR": 50e9,
    "NDR": 100e9,
    "XDR": 200e9,
}

_SIGNALLING = {
    "2.5": "SDR",
    "5.0": "DDR",
    "10.0": "QDR",
    "10.3125": "FDR10",
    "14.0625": "FDR",
    "25.78125": "EDR",
    "53.125": "HDR",
    "106.25": "NDR",
    "212.5": "XDR",
}


def width_and_speed(bps: float) -> tuple[str, str]:
    """A width and a speed that make this data rate, four lanes wide where possible.

    `("4x", "SDR")`, the idle default, where nothing fits.
    """
    for width in ("4x", "2x", "1x", "8x", "12x"):
        for speed, lane in LANE_BPS.items():
            if abs(lane * lanes(width) - bps) <= 0.01 * bps:
                return width, speed
    return "4x", "SDR"


def speed_name(gbps: str) -> str:
    """The name of a lane's signalling rate as iblinkinfo prints it (`53.125`), or empty."""
    return _SIGNALLING.get(gbps, "")


def lanes(width: str) -> int:
    """Lanes of a width such as `4x` or `2X`; 0 when it is not one."""
    digits = width[:-1]
    return int(digits) if width[-1:].lower() == "x" and digits.isdigit() else 0


@dataclass(slots=True)
class IbPort:
    """One port of a node. `peer` is the GUID and port number at the other end of the cable."""

    number: int
    guid: int = 0
    lid: int = 0
    width: str = ""
    speed: str = ""
    peer: tuple[int, int] | None = None
    up: bool | None = None
    """None where the source does not say."""

    @property
    def lanes(self) -> int:
        """Lanes in use, 0 unknown."""
        return lanes(self.width) if self.peer is not None or self.up else 0

    @property
    def speed_bps(self) -> float:
        """Effective data rate, 0 unknown or down.

        A port without a peer is printed as `4x SDR`: that is the idle default, not its speed.
        """
        return self.lanes * LANE_BPS.get(self.speed, 0.0)


@dataclass(slots=True)
class IbNode:
    """One switch or channel adapter. `kind`: switch, host, router or aggregation."""

    guid: int
    kind: str
    description: str = ""
    device_id: int = 0
    vendor_id: int = 0
    system_guid: int = 0
    port_count: int = 0
    lid: int = 0
    """The switch's own LID (port 0); adapters have one for each port."""
    ports: dict[int, IbPort] = field(default_factory=dict)

    def port(self, number: int) -> IbPort:
        """The port, made when it is new."""
        found = self.ports.get(number)
        if found is None:
            found = self.ports[number] = IbPort(number)
        return found

    def lid_of(self, number: int) -> int:
        """The LID through which this port's counters are asked; 0 none."""
        if self.kind == "switch":
            return self.lid
        return self.ports[number].lid if number in self.ports else 0


class Label(NamedTuple):
    """How a node is shown: the device, and what its port numbers are prefixed with."""

    device: str
    adapter: str = ""

    def port(self, number: int) -> str:
        """The port's label: `7` on a switch, `mlx5_0/1` on a host."""
        return f"{self.adapter}/{number}" if self.adapter else str(number)


@dataclass(slots=True)
class IbFabric:
    """What one discovery saw. `unreachable` holds direct-route paths that did not answer."""

    nodes: dict[int, IbNode] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    root: int = 0
    """GUID of the node the sweep started from."""

    def node(self, guid: int, kind: str = "") -> IbNode:
        """The node, made when it is new."""
        found = self.nodes.get(guid)
        if found is None:
            found = self.nodes[guid] = IbNode(guid, kind)
        return found

    def connect(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        """Put a cable between two ports of known nodes."""
        for (guid, number), other in ((a, b), (b, a)):
            if guid in self.nodes:
                port = self.nodes[guid].port(number)
                port.peer, port.up = other, True

    def give_lids(self, first: int = 1) -> None:
        """Number everything anew from `first`, as a subnet manager does; switches come first."""
        lid = first
        for node in sorted(self.nodes.values(), key=lambda n: n.kind != "switch"):
            if node.kind == "switch":
                node.lid, lid = lid, lid + 1
                continue
            for port in node.ports.values():
                port.lid, lid = lid, lid + 1

    def joined(self, newer: IbFabric) -> IbFabric:
        """Both, the newer winning. An adapter that one names by its port's GUID is one node."""
        whole = IbFabric({**self.nodes, **newer.nodes}, newer.unreachable, newer.root or self.root)
        ports = (*self.by_port_guid().items(), *newer.by_port_guid().items())
        aliases = {
            guid: node
            for guid, (node, _) in ports
            if guid != node and guid in whole.nodes and node in whole.nodes
        }
        for alias in aliases:
            del whole.nodes[alias]
        for node in whole.nodes.values():
            for port in node.ports.values():
                if port.peer is not None and port.peer[0] in aliases:
                    port.peer = (aliases[port.peer[0]], port.peer[1])
        return whole

    def by_port_guid(self) -> dict[int, tuple[int, int]]:
        """Port GUID to (node GUID, port number): some tools name adapters by their port's GUID."""
        return {
            port.guid: (node.guid, port.number)
            for node in self.nodes.values()
            for port in node.ports.values()
            if port.guid
        }

    def by_lid(self) -> dict[int, IbNode]:
        """LID to node, as of this discovery."""
        found: dict[int, IbNode] = {}
        for node in self.nodes.values():
            for lid in (node.lid, *(port.lid for port in node.ports.values() if port.lid)):
                if lid in UNICAST_LIDS and (node.kind != "switch" or lid == node.lid):
                    found[lid] = node
        return found

    def topology(
        self, labels: Mapping[int, Label], tick_bytes: Callable[[IbNode, IbPort], float]
    ) -> Topology:
        """The same in model types. `tick_bytes` gives the unit of transmit-wait, 0 unknown."""
        nodes: dict[str, Node] = {}
        links: dict[frozenset[PortId], Link] = {}
        facts: list[PortFacts] = []
        several = _several_adapters(labels)
        for node in self.nodes.values():
            label = labels[node.guid]
            guid = f"0x{node.guid:016x}"
            nodes.setdefault(
                label.device,
                Node(label.device, node.kind, technology=Technology.INFINIBAND, guid=guid),
            )
            for port in node.ports.values():
                me = PortId(label.device, label.port(port.number))
                facts.append(
                    PortFacts(
                        me,
                        speed_bps=port.speed_bps,
                        tick_bytes=tick_bytes(node, port),
                        lanes=port.lanes,
                        rail=label.adapter if label.device in several else "",
                    )
                )
                if port.peer is not None and port.peer[0] in labels:
                    far = labels[port.peer[0]]
                    other = PortId(far.device, far.port(port.peer[1]))
                    links.setdefault(frozenset((me, other)), Link(me, other, port.speed_bps))
        shape = Topology(tuple(nodes.values()), tuple(links.values()), tuple(facts))
        return shape.with_inferred_roles()


# What a switch of that generation calls itself (device id); adapters are ConnectX-7.
_SWITCH_OF_SPEED = {"XDR": 0xD2F4, "NDR": 0xD2F2, "HDR": 0xD2F0, "EDR": 0xCF08}
_ADAPTER = 0x1021
_MELLANOX = 0x2C9
_PORT_NUMBER = re.compile(r"(?:(?P<adapter>.+)/)?(?P<number>\d+)$")


def from_topology(topology: Topology) -> IbFabric:
    """A subnet of that shape, as discovery would see it: GUIDs, LIDs, one node for each adapter.

    Port names end in their number (`7`, `mlx5_0/1`). LIDs are given in order, switches first.
    """
    fabric = IbFabric()
    kinds = {node.name: node for node in topology.nodes}
    ends: dict[PortId, tuple[int, int]] = {}
    used = {int(node.guid, 16) for node in topology.nodes if node.guid}
    made: dict[str, IbNode] = {}
    names = [end for link in topology.links for end in (link.a, link.b)]
    for end in dict.fromkeys((*names, *(facts.id for facts in topology.ports))):
        match = _PORT_NUMBER.match(end.port)
        if match is None or end.device not in kinds:
            continue
        device, adapter = kinds[end.device], match["adapter"]
        description = f"{device.name} {adapter}" if adapter else device.name
        if description not in made:
            made[description] = _imagined(fabric, device, description, used)
        node = made[description]
        port = node.port(int(match["number"]))
        port.guid = node.guid if node.kind == "switch" else node.guid + port.number
        node.port_count = max(node.port_count, port.number)
        ends[end] = (node.guid, port.number)
    for link in topology.links:
        if link.a in ends and link.b in ends:
            fabric.connect(ends[link.a], ends[link.b])
            width, speed = width_and_speed(link.speed_bps)
            for guid, number in (ends[link.a], ends[link.b]):
                node = fabric.nodes[guid]
                node.ports[number].width, node.ports[number].speed = width, speed
                if node.kind == "switch":
                    node.device_id = _SWITCH_OF_SPEED.get(speed, 0xD2F0)
    fabric.give_lids()
    return fabric


def _imagined(fabric: IbFabric, node: Node, description: str, used: set[int]) -> IbNode:
    """A new node of the subnet for a device, or for one adapter of it."""
    guid = int(node.guid, 16) if node.guid else 0x02C9_0300_0000_0000 + 64 * len(fabric.nodes)
    while guid in fabric.nodes:
        guid += 0x1_0000_0000  # a further adapter of the same host
        while guid in used:
            guid += 0x1_0000_0000
    made = fabric.node(guid, node.kind)
    made.description, made.system_guid = description, guid
    made.vendor_id, made.device_id = _MELLANOX, _ADAPTER
    return made


def _several_adapters(labels: Mapping[int, Label]) -> set[str]:
    """Devices with more than one adapter: only there is an adapter a rail."""
    seen: dict[str, str] = {}
    return {
        label.device
        for label in labels.values()
        if label.adapter and seen.setdefault(label.device, label.adapter) != label.adapter
    }


# `gpu0001 mlx5_0`, `o0001 HCA-1`: a host's name, then the adapter's name on that host.
_HOST = re.compile(r"(\S+)\s+((?:mlx\d*|hca|hfi|ibp|ib|roce|qib|mthca)[-_]?\w+)$", re.IGNORECASE)
# What a driver says before the host has set a name: `MT4129 ConnectX7   Mellanox Technologies`.
_GENERIC = re.compile(
    r"^(MT\d+ )?.*(Mellanox|Nvidia) Technologies\s*$|^[HS]-[0-9a-f]{16}$", re.IGNORECASE
)


def is_generic(description: str) -> bool:
    """Whether the node has not been given a name yet."""
    return not description.strip() or _GENERIC.match(description.strip()) is not None


def name_nodes(
    nodes: Iterable[IbNode],
    known: Mapping[int, Label] | None = None,
    names: Mapping[int, str] | None = None,
) -> dict[int, Label]:
    """A label for every node by GUID.

    `known` labels stay: a series must survive a renaming. `names` is the operator's own map by
    GUID, which wins over node descriptions. Two nodes that would share a label get `@` and the last
    six digits of their GUID.
    """
    known, names = known or {}, names or {}
    labels: dict[int, Label] = {}
    wanted: dict[Label, list[int]] = {}
    for node in nodes:
        if node.guid in known:
            labels[node.guid] = known[node.guid]
        else:
            wanted.setdefault(_wish(node, names.get(node.guid, "")), []).append(node.guid)
    taken = set(known.values())
    for wish, guids in wanted.items():
        for guid in guids:
            clash = len(guids) > 1 or wish in taken
            device = f"{wish.device}@{guid & 0xFFFFFF:06x}" if clash else wish.device
            labels[guid] = Label(device, wish.adapter)
    return labels


def _wish(node: IbNode, name: str) -> Label:
    text = " ".join((name or node.description).split())
    if node.kind in {"host", ""}:
        match = _HOST.match(text)
        if match is not None:
            return Label(match[1], match[2])
    return Label(text or f"0x{node.guid:016x}")
