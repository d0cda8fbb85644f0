"""Who is connected to whom, what the jobs are, and what the operators intend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple


class Technology(StrEnum):
    """The link layer. RoCE stands for Ethernet that carries it."""

    INFINIBAND = "infiniband"
    ROCE = "roce"


class Role(StrEnum):
    """Where a node stands in the tiers."""

    HOST = "host"
    LEAF = "leaf"
    SPINE = "spine"
    CORE = "core"
    UNKNOWN = "unknown"


class PortId(NamedTuple):
    """A port's stable identity."""

    device: str
    port: str

    def __str__(self) -> str:
        return f"{self.device}[{self.port}]"


@dataclass(frozen=True, slots=True)
class Node:
    """A switch or a host. `name` is the `device` label everywhere."""

    name: str
    kind: str
    """`switch`, `host`, or what is neither: `router`, `aggregation` (SHARP inside a switch)."""
    role: Role = Role.UNKNOWN
    technology: Technology = Technology.ROCE
    guid: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One cable between two ports; `speed_bps` is its effective data rate each way, 0 unknown."""

    a: PortId
    b: PortId
    speed_bps: float = 0.0


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What discovery knows of a port besides its cable. Zero and empty mean unknown."""

    id: PortId
    speed_bps: float = 0.0
    nominal_bps: float = 0.0
    """What the port could do: speed enabled, or what its peers of the same role run at."""
    tick_bytes: float = 0.0
    """Bytes of port time that one `tx_wait_ticks` stands for."""
    lanes: int = 0
    rail: str = ""
    plane: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A training job and the hosts it runs on."""

    name: str
    hosts: tuple[str, ...]
    gpus_per_host: int = 8


class Ecn(StrEnum):
    """What the operators want of ECN."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Intent:
    """How the fabric is meant to be set. Empty `lossless_queues` means: not said."""

    lossless_queues: tuple[int, ...] = ()
    ecn: Ecn = Ecn.UNKNOWN


@dataclass(frozen=True, slots=True)
class Topology:
    """A fabric as far as it is known. Partial topologies are normal."""

    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()
    ports: tuple[PortFacts, ...] = ()
    jobs: tuple[Job, ...] = ()
    intent: Intent = field(default_factory=Intent)
    interval_s: float = 0.0
    """Poll interval of the dump it came with; 0 unknown."""
    idle: bool = False
    """It is known that no job runs; without it, no `jobs` means that nothing is said of them."""

    def merged(self, *others: Topology) -> Topology:
        """All of them, later ones winning where they speak of the same node, port or cable end.

        A map of jobs is whole: one that names any job replaces the last. What is told again, from
        either end of a cable, stays where it is: a merge that brings no news is equal to `self`.
        """
        every = (self, *others)
        nodes = {node.name: node for one in every for node in one.nodes}
        facts = {port.id: port for one in every for port in one.ports}
        ends: dict[PortId, Link] = {}
        for one in every:
            for link in one.links:
                _plug(link, ends)
        jobs, intent, interval_s = self.jobs, self.intent, self.interval_s
        for one in others:
            jobs = one.jobs or (() if one.idle else jobs)
            intent = one.intent if one.intent != Intent() else intent
            interval_s = one.interval_s or interval_s
        return Topology(
            tuple(nodes.values()),
            tuple(dict.fromkeys(ends.values())),
            tuple(facts.values()),
            jobs,
            intent,
            interval_s,
        )

    def with_inferred_roles(self) -> Topology:
        """Roles where none were given: a switch's tier is its distance from the nearest host.

        Role UNKNOWN stays for what no host is reached from.
        """
        if all(node.role is not Role.UNKNOWN for node in self.nodes):
            return self
        neighbours: dict[str, set[str]] = {}
        for link in self.links:
            neighbours.setdefault(link.a.device, set()).add(link.b.device)
            neighbours.setdefault(link.b.device, set()).add(link.a.device)
        tier = {node.name: 0 for node in self.nodes if node.kind == "host"}
        reached = list(tier)
        for name in reached:
            for other in neighbours.get(name, ()):
                if other not in tier:
                    tier[other] = tier[name] + 1
                    reached.append(other)
        by_tier = (Role.HOST, Role.LEAF, Role.SPINE, Role.CORE)
        nodes = tuple(
            replace(node, role=by_tier[min(tier[node.name], 3)])
            if node.role is Role.UNKNOWN and node.kind in {"host", "switch"} and node.name in tier
            else node
            for node in self.nodes
        )
        return replace(self, nodes=nodes)

    def with_intent(self, intent: Intent) -> Topology:
        """The same fabric under another declared intent."""
        return replace(self, intent=intent)


def _plug(link: Link, ends: dict[PortId, Link]) -> None:
    """Put a cable into both of its ports; whatever was in one of them is out of both of its own."""
    a, b = ends.get(link.a), ends.get(link.b)
    if a is not None and a is b:
        if link.speed_bps not in (0.0, a.speed_bps):
            ends[a.a] = ends[a.b] = replace(a, speed_bps=link.speed_bps)
        return
    for old in (a, b):
        if old is not None:
            ends.pop(old.a, None)
            ends.pop(old.b, None)
    ends[link.a] = ends[link.b] = link
