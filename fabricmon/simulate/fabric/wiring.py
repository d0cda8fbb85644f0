"""A topology as arrays: every directed link is one index, and so is every port.

Cable `c` gives two directed links, `2c` (a to b) and `2c + 1` (b to a). Directed link `e` is the
egress of one port, so it names that port too: `peer(e) == e ^ 1`. Shapes: **E** directed links
(ports), **V** nodes, **A** network cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import FabricmonError
from fabricmon.model.topology import PortId, Role, Technology, Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TIER = {Role.HOST: 0, Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3, Role.UNKNOWN: 2}
_DEFAULT_BPS = 100e9


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """The arrays of one topology.

    source, target  int32[E]    node at either end; `source` owns the port
    capacity        float64[E]  bits per second
    tier            int8[V]     0 host, 1 leaf, 2 spine, 3 core
    cards           int32[A]    directed links that leave hosts, in host order
    """

    topology: Topology
    ports: tuple[PortId, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    capacity: NDArray[np.float64]
    tier: NDArray[np.int8]
    cards: NDArray[np.int32]
    node: dict[str, int]
    index: dict[PortId, int]

    @property
    def infiniband(self) -> bool:
        """Whether the switches speak InfiniBand."""
        return any(node.technology is Technology.INFINIBAND for node in self.topology.nodes)

    def __len__(self) -> int:
        return len(self.ports)

    def port(self, text: str) -> int:
        """The index of `device/port`; the port's own name may hold slashes."""
        for cut in (i for i, char in enumerate(text) if char == "/"):
            found = self.index.get(PortId(text[:cut], text[cut + 1 :]))
            if found is not None:
                return found
        raise FabricmonError(f"the fabric has no port {text!r}")

    def device(self, name: str) -> int:
        """The index of a node."""
        if name not in self.node:
            raise FabricmonError(f"the fabric has no device {name!r}")
        return self.node[name]

    def card(self, host: str, rail: int = 0) -> int:
        """The directed link that leaves `host` through its card number `rail`."""
        node = self.device(host)
        own = self.cards[self.source[self.cards] == node]
        if rail >= len(own):
            raise FabricmonError(f"{host!r} has no network card {rail}")
        return int(own[rail])

    def of_device(self, name: str) -> NDArray[np.intp]:
        """int[]: every port of a device."""
        return np.flatnonzero(self.source == self.device(name))


def wire(topology: Topology) -> Wiring:
    """Arrays of `topology`. Links without a known speed run at 100 Gb/s."""
    topology = topology.with_inferred_roles()
    node = {n.name: i for i, n in enumerate(topology.nodes)}
    ports: list[PortId] = []
    ends: list[tuple[int, int]] = []
    speeds: list[float] = []
    for link in topology.links:
        a, b = node[link.a.device], node[link.b.device]
        ports += [link.a, link.b]
        ends += [(a, b), (b, a)]
        speeds += [link.speed_bps or _DEFAULT_BPS] * 2
    pairs = np.array(ends, np.int32).reshape(-1, 2)
    kinds = [0 if n.kind == "host" else _TIER[n.role] for n in topology.nodes]
    tier = np.array(kinds, np.int8)
    if not len(pairs) or not (tier == 0).any():
        raise FabricmonError("a fabric needs hosts and links to be simulated")
    leaving = np.flatnonzero(tier[pairs[:, 0]] == 0)
    order = np.lexsort((leaving, pairs[leaving, 0]))
    return Wiring(
        topology=topology,
        ports=tuple(ports),
        source=pairs[:, 0].copy(),
        target=pairs[:, 1].copy(),
        capacity=np.array(speeds),
        tier=tier,
        cards=leaving[order].astype(np.int32),
        node=node,
        index={port: i for i, port in enumerate(ports)},
    )
