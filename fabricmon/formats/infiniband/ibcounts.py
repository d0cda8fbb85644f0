"""Who a tool's counts belong to: LIDs, port GUIDs and node GUIDs to device and port labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon.formats.infiniband.ibfabric import IbFabric, IbNode, Label, name_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fabricmon.formats.infiniband.ibtext import PortCounts


@dataclass(slots=True)
class PortGroups:
    """All that was said of one port, by attribute."""

    device: str
    port: str
    number: int
    groups: dict[str, dict[str, int | None]] = field(default_factory=dict)
    cap_mask: int | None = None
    cap_mask2: int | None = None


class Identity:
    """Resolves counts to labels through a discovery; without one, through what the text says."""

    def __init__(
        self,
        fabric: IbFabric | None = None,
        known: Mapping[int, Label] | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """`known` labels stay as they are; `names` is the operator's map by GUID."""
        self.fabric = fabric or IbFabric()
        self.labels = name_nodes(self.fabric.nodes.values(), known, names)
        self._names = names or {}
        self._by_lid = self.fabric.by_lid()
        self._by_port = self.fabric.by_port_guid()

    def of(self, counts: PortCounts) -> tuple[str, str]:
        """(device, port) of one block. With nothing better known, the GUID or LID it was told."""
        guid, number = counts.guid, counts.port
        if guid in self._by_port and guid not in self.fabric.nodes:
            guid, number = self._by_port[guid]
        label = self.labels.get(guid)
        if label is None and counts.lid in self._by_lid:
            node = self._by_lid[counts.lid]
            label = self.labels[node.guid]
        if label is None:
            label = self._stranger(guid, counts)
        return label.device, label.port(number)

    def _stranger(self, guid: int, counts: PortCounts) -> Label:
        if not guid:
            return Label(f"lid {counts.lid}" if counts.lid else counts.name or "unknown")
        node = IbNode(guid, "", counts.name)
        label = name_nodes([node], self.labels, self._names)[guid]
        self.labels[guid] = label
        return label


def merged(blocks: Iterable[PortCounts], identity: Identity) -> Iterator[PortGroups]:
    """One entry per port; its attributes come in several blocks, possibly from several files.

    Where an attribute comes twice, the later block wins.
    """
    ports: dict[tuple[str, str], PortGroups] = {}
    for block in blocks:
        key = identity.of(block)
        port = ports.get(key)
        if port is None:
            port = ports[key] = PortGroups(*key, block.port)
        port.groups[block.group] = block.values
        if block.cap_mask is not None:
            port.cap_mask = block.cap_mask
        if block.cap_mask2 is not None:
            port.cap_mask2 = block.cap_mask2
    yield from ports.values()
