"""The shapes of data-centre fabrics, built as `Topology`: leaf-spine, fat tree, rails."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabricmon.model.topology import (
    Ecn,
    Intent,
    Link,
    Node,
    PortFacts,
    PortId,
    Role,
    Technology,
    Topology,
)

QUANTUM_TICK_BYTES = 8.0
"""Quantum switches count one transmit-wait tick per 8 bytes of port time, whatever the width."""


@dataclass(slots=True)
class Builder:
    """Collects nodes and cables, and names ports the way each technology does."""

    technology: Technology
    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    facts: list[PortFacts] = field(default_factory=list)
    _used: dict[str, int] = field(default_factory=dict)

    def add(self, role: Role, number: int) -> str:
        """A node, named after its role."""
        name = f"{role.value}{number}"
        kind = "host" if role is Role.HOST else "switch"
        guid = ""
        if self.technology is Technology.INFINIBAND:
            tier = list(Role).index(role)
            guid = f"0x{0xB8599F0000000000 + (tier << 24) + number * 16:016x}"
        self.nodes.append(Node(name, kind, role, self.technology, guid))
        return name

    def _next(self, node: str) -> str:
        number = self._used.get(node, 0)
        self._used[node] = number + 1
        host = node.startswith(Role.HOST.value)
        if self.technology is Technology.INFINIBAND:
            return f"mlx5_{number}/1" if host else str(number + 1)
        return f"eth{number}" if host else f"Ethernet{number + 1}"

    def connect(self, a: str, b: str, speed_bps: float, *, rail: str = "", plane: str = "") -> None:
        """A cable between the next free port of each node."""
        ends = (PortId(a, self._next(a)), PortId(b, self._next(b)))
        self.links.append(Link(*ends, speed_bps))
        tick = QUANTUM_TICK_BYTES if self.technology is Technology.INFINIBAND else 0.0
        for end in ends:
            self.facts.append(PortFacts(end, speed_bps, speed_bps, tick, 4, rail, plane))

    def finish(self) -> Topology:
        """The topology, with the intent such a fabric has."""
        intent = Intent()
        if self.technology is Technology.ROCE:
            intent = Intent(lossless_queues=(3,), ecn=Ecn.REQUIRED)
        return Topology(tuple(self.nodes), tuple(self.links), tuple(self.facts), intent=intent)


def leaf_spine(
    technology: Technology,
    *,
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    speed_bps: float,
    uplink_bps: float,
    uplinks: int = 1,
) -> Topology:
    """Two tiers: every leaf has `uplinks` cables to every spine."""
    builder = Builder(technology)
    hosts = [builder.add(Role.HOST, i) for i in range(leaves * hosts_per_leaf)]
    tops = [builder.add(Role.LEAF, i) for i in range(leaves)]
    cores = [builder.add(Role.SPINE, i) for i in range(spines)]
    for i, host in enumerate(hosts):
        builder.connect(host, tops[i // hosts_per_leaf], speed_bps)
    for leaf in tops:
        for spine in cores:
            for _ in range(uplinks):
                builder.connect(leaf, spine, uplink_bps)
    return builder.finish()


def fat_tree(
    technology: Technology, *, k: int, speed_bps: float, uplink_bps: float, hosts: int = 0
) -> Topology:
    """Three tiers of k-port switches: k pods of k/2 leaves and k/2 spines, (k/2)^2 cores.

    `hosts` leaves out what is beyond that many hosts; 0 fills the tree (k^3/4).
    """
    builder = Builder(technology)
    half = k // 2
    count = min(hosts or k * half * half, k * half * half)
    machines = [builder.add(Role.HOST, i) for i in range(count)]
    leaves = [builder.add(Role.LEAF, i) for i in range(k * half)]
    spines = [builder.add(Role.SPINE, i) for i in range(k * half)]
    cores = [builder.add(Role.CORE, i) for i in range(half * half)]
    for i, host in enumerate(machines):
        builder.connect(host, leaves[i // half], speed_bps)
    for pod in range(k):
        for leaf in leaves[pod * half : (pod + 1) * half]:
            for spine in spines[pod * half : (pod + 1) * half]:
                builder.connect(leaf, spine, uplink_bps)
        for i, spine in enumerate(spines[pod * half : (pod + 1) * half]):
            for core in cores[i * half : (i + 1) * half]:
                builder.connect(spine, core, uplink_bps)
    return builder.finish()


def rails(
    technology: Technology,
    *,
    hosts: int,
    rails: int,
    hosts_per_leaf: int,
    spines: int,
    speed_bps: float,
    uplink_bps: float,
    planes: bool = False,
) -> Topology:
    """Rail-optimised: card `r` of every host goes to a leaf of rail `r`; spines join the rails.

    `planes`: nothing joins them, as where one adapter spreads its packets over several networks.
    """
    builder = Builder(technology)
    machines = [builder.add(Role.HOST, i) for i in range(hosts)]
    groups = -(-hosts // hosts_per_leaf)
    leaves = [[builder.add(Role.LEAF, g * rails + r) for r in range(rails)] for g in range(groups)]
    cores = [builder.add(Role.SPINE, i) for i in range(spines * (rails if planes else 1))]
    for i, host in enumerate(machines):
        for r in range(rails):
            name = {"plane": f"plane{r}"} if planes else {"rail": f"rail{r}"}
            builder.connect(host, leaves[i // hosts_per_leaf][r], speed_bps, **name)
    for group in leaves:
        for r, leaf in enumerate(group):
            for spine in cores[r * spines : (r + 1) * spines] if planes else cores:
                builder.connect(leaf, spine, uplink_bps)
    return builder.finish()
