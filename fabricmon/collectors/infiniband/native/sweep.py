"""Discovery by direct routes: from the local port outwards, one ring of nodes at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.collectors.infiniband.native.pump import Requests
from fabricmon.errors import PollError, Reason
from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.ibfabric import AGGREGATION_NODE, IbFabric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.collectors.infiniband.native.pump import Pump, Replies
    from fabricmon.formats.infiniband.ibfabric import IbNode

_WINDOW = 128
"""Direct-route datagrams on the wire: every switch on their way handles each in software."""
_MAX_HOPS = 63
_DIRECT = 2


@dataclass(slots=True)
class _Way:
    """A direct route, and the port it leaves the last known node through."""

    path: bytes
    origin: tuple[int, int] | None = None


@dataclass(slots=True)
class _Asked:
    """Requests of one ring that is being built."""

    attribute: int
    paths: list[bytes] = field(default_factory=list)
    modifiers: list[int] = field(default_factory=list)

    def add(self, path: bytes, modifier: int = 0) -> None:
        self.paths.append(path)
        self.modifiers.append(modifier)

    def requests(self) -> Requests:
        n = len(self.paths)
        modifiers = np.array(self.modifiers, np.uint32)
        return Requests(
            mad.direct_requests(self.attribute, modifiers, self.paths),
            np.full(n, _DIRECT, np.uint8),
            np.full(n, mad.PERMISSIVE_LID, np.uint16),
            np.arange(n + 1, dtype=np.uint32),
        )


async def sweep(pump: Pump) -> IbFabric:
    """The subnet behind the pump's port. Paths that did not answer are in `unreachable`.

    Raises `PollError` where not even the local node answers.
    """
    fabric = IbFabric()
    ring = [_Way(b"")]
    while ring:
        ring = await _ring(pump, fabric, ring)
    if not fabric.nodes:
        raise PollError(Reason.UNREACHABLE, "the local port does not answer subnet management")
    return fabric


async def _ring(pump: Pump, fabric: IbFabric, ring: list[_Way]) -> list[_Way]:
    """Ask who stands at the end of each way; the ways that lead on from new nodes."""
    asked = _Asked(mad.NODE_INFO)
    for way in ring:
        asked.add(way.path)
    replies = await pump.exchange(asked.requests(), _WINDOW)
    infos = mad.decode(replies.mads[:, mad.DATA :], mad.NODE_INFO_FIELDS)
    good = replies.good
    arrived: list[tuple[_Way, IbNode, int, bool]] = []
    for k, way in enumerate(ring):
        if not good[k]:
            fabric.unreachable.append(",".join(map(str, (0, *way.path))))
            continue
        node, local, port_guid = mad.node_of(infos[:, k], b"")
        new = node.guid not in fabric.nodes
        node = fabric.nodes.setdefault(node.guid, node)
        if not fabric.root:
            fabric.root = node.guid
        fresh_port = node.kind != "switch" and local not in node.ports
        if node.kind != "switch":
            node.port(local).guid = port_guid
        if way.origin is not None:
            fabric.connect(way.origin, (node.guid, local))
        if new or fresh_port:
            arrived.append((way, node, local, new))
    await _describe(pump, arrived)
    await _ask_ports(pump, arrived)
    return _onward(fabric, arrived)


async def _describe(pump: Pump, arrived: list[tuple[_Way, IbNode, int, bool]]) -> None:
    asked = _Asked(mad.NODE_DESCRIPTION)
    nodes = [(way.path, node) for way, node, _, new in arrived if new]
    for path, _ in nodes:
        asked.add(path)
    if not nodes:
        return
    replies = await pump.exchange(asked.requests(), _WINDOW)
    for (_, node), row in zip(nodes, replies.mads, strict=True):
        text = row[mad.DATA : mad.DATA + 64].tobytes().split(b"\0", 1)[0]
        # As the tools do: what is no printable ASCII becomes a blank.
        node.description = "".join(chr(c) if 32 <= c < 127 else " " for c in text)
        if node.description.strip() == AGGREGATION_NODE:
            node.kind = "aggregation"


async def _ask_ports(pump: Pump, arrived: list[tuple[_Way, IbNode, int, bool]]) -> None:
    asked = _Asked(mad.PORT_INFO)
    whose: list[tuple[IbNode, int]] = []
    for way, node, local, _ in arrived:
        numbers = range(node.port_count + 1) if node.kind == "switch" else (local,)
        for number in numbers:
            asked.add(way.path, number)
            whose.append((node, number))
    if not whose:
        return
    replies = await pump.exchange(asked.requests(), _WINDOW)
    infos = mad.decode(replies.mads[:, mad.DATA :], mad.PORT_INFO_FIELDS)
    old: list[int] = []
    for k in np.flatnonzero(replies.good).tolist():
        node, number = whose[k]
        _take_port(node, number, infos[:, k])
        if number in node.ports and node.ports[number].speed == "QDR":
            old.append(k)
    await _tell_fdr10(pump, [(asked.paths[k], *whose[k]) for k in old])


async def _tell_fdr10(pump: Pump, ports: list[tuple[bytes, IbNode, int]]) -> None:
    """FDR10 calls itself QDR everywhere but in an attribute of Mellanox's own."""
    if not ports:
        return
    asked = _Asked(mad.MELLANOX_PORT_INFO)
    for path, _, number in ports:
        asked.add(path, number)
    replies = await pump.exchange(asked.requests(), _WINDOW)
    (active,) = learned(replies, mad.MELLANOX_PORT_FIELDS)
    for (_, node, number), speed in zip(ports, active.tolist(), strict=True):
        if speed & mad.FDR10:
            node.ports[number].speed = "FDR10"


def _take_port(node: IbNode, number: int, info: NDArray[np.uint64]) -> None:
    port = mad.port_of(number, info)
    if node.kind == "switch" and number == 0:
        node.lid = port.lid
        return
    old = node.port(number)
    old.width, old.speed, old.up = port.width, port.speed, port.up
    if node.kind != "switch":
        old.lid = port.lid


def _onward(fabric: IbFabric, arrived: list[tuple[_Way, IbNode, int, bool]]) -> list[_Way]:
    """Ways through ports that are up and whose other end is not known yet."""
    ring: list[_Way] = []
    for way, node, local, new in arrived:
        if len(way.path) >= _MAX_HOPS:
            continue
        if node.kind == "switch" and new:
            numbers = [p.number for p in node.ports.values() if p.up and p.peer is None]
        elif node.guid == fabric.root and not way.path:
            numbers = [local]
        else:
            numbers = []
        ring += [_Way(way.path + bytes([n]), (node.guid, n)) for n in numbers]
    return ring


def learned(replies: Replies, fields: list[mad.Field]) -> NDArray[np.uint64]:
    """uint64[F,M]: fields of performance replies, 0 where there was no good one."""
    out = mad.decode(replies.mads[:, mad.DATA :], fields)
    out[:, ~replies.good] = 0
    return out
