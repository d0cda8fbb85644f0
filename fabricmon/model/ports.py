"""The port table: every port of a fabric as one row of arrays.

Rows are dense ints, stable for the life of the table: when ports long gone give their rows back, a
new table takes its place. Arrays grow in place by doubling, so take views through the properties,
never keep them across `rows()`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.readings import ByIdentity, PortSet
from fabricmon.model.topology import Link, PortId, Role, Technology, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

NO_PEER = -1
_ROUNDING = 1e-6
"""Share of a speed."""
_MOST_NAMES = 1 << 20


class PortRole(IntEnum):
    """What a port faces: the peer group it is compared with."""

    UNKNOWN = 0
    HOST = 1
    """A port of a host (NIC, HCA)."""
    DOWN = 2
    """A switch port towards a host."""
    UP = 3
    """A switch port towards a higher tier."""
    ACROSS = 4
    """A switch port towards a lower tier (spine to leaf, core to spine) or its own."""


_TIER = {Role.HOST: 0, Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3}
_COLUMNS: dict[str, tuple[type, float]] = {
    "node": (np.int32, -1),
    "peer": (np.int32, NO_PEER),
    "role": (np.uint8, PortRole.UNKNOWN),
    "infiniband": (np.bool_, False),
    "speed_bps": (np.float64, np.nan),
    "nominal_bps": (np.float64, np.nan),
    "tick_bytes": (np.float64, np.nan),
    "lanes": (np.int16, 0),
    "rail": (np.int32, -1),
}


@dataclass(slots=True)
class Saved:
    """What a component remembers, as plain arrays by name: what a restart should not lose.

    ports  [..., N]  one column per port: taken apart with `only` when rows are given up
    other            anything else, without a row number in it
    """

    ports: dict[str, NDArray[Any]] = field(default_factory=dict)
    other: dict[str, NDArray[Any]] = field(default_factory=dict)

    def only(self, rows: NDArray[np.intp]) -> Saved:
        """The same for these ports alone, which get the rows 0, 1, 2 ..."""
        kept = {name: np.take(array, rows, -1) for name, array in self.ports.items()}
        return Saved(kept, self.other)

    def add(self, name: str, part: Saved) -> None:
        """Take in what a part remembers."""
        self.ports |= {f"{name}.{key}": array for key, array in part.ports.items()}
        self.other |= {f"{name}.{key}": array for key, array in part.other.items()}

    def part(self, name: str) -> Saved:
        """What was taken in under that name."""
        at = len(name) + 1
        return Saved(
            {key[at:]: a for key, a in self.ports.items() if key.startswith(f"{name}.")},
            {key[at:]: a for key, a in self.other.items() if key.startswith(f"{name}.")},
        )

    def attributes(self, owner: object, names: Iterable[str]) -> None:
        """Take over arrays [..., N] that are attributes of `owner`."""
        self.ports |= {name.lstrip("_"): getattr(owner, name) for name in names}

    def give_back(self, owner: object, names: Iterable[str]) -> None:
        """Make them attributes of `owner` again. Raises `ValueError` where they do not fit."""
        for name in names:
            saved, now = self.ports[name.lstrip("_")], getattr(owner, name)
            if saved.dtype != now.dtype or saved.shape[:-1] != now.shape[:-1]:
                raise ValueError(f"{name}: {saved.dtype}{saved.shape} is not what it was")
            setattr(owner, name, saved)

    def write(self, name: str, document: object) -> None:
        """Keep a small JSON document beside the arrays."""
        self.other[name] = np.frombuffer(json.dumps(document).encode(), np.uint8)

    def read(self, name: str) -> Any:
        """The document again. Raises `KeyError` or `ValueError`."""
        return json.loads(self.other[name].tobytes())


_FACTS = ("speed_bps", "nominal_bps", "tick_bytes", "lanes", "rail")


class PortTable:
    """Struct-of-arrays over all ports (N) of one fabric."""

    def __init__(self, limit: int = 1_000_000) -> None:
        """`limit` is the ceiling on rows; ports beyond it are refused and counted."""
        self._limit = limit
        self._row: dict[PortId, int] = {}
        self._sets: ByIdentity[PortSet, NDArray[np.int32]] = ByIdentity()
        self._node: dict[str, int] = {}
        self._rail: dict[str, int] = {}
        self.ids: list[PortId] = []
        self.nodes: list[str] = []
        self.refused = 0
        """Port names that were not given a row because the table was full."""
        self.version = 0
        """Grows whenever a row, a peer or a fact changes."""
        self._data: dict[str, NDArray[Any]] = {
            name: np.full(64, fill, dt) for name, (dt, fill) in _COLUMNS.items()
        }

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def most_names(self) -> int:
        """Names in all port sets together of which anybody should remember the rows."""
        return max(_MOST_NAMES, 4 * len(self.ids))

    @property
    def full(self) -> bool:
        """Whether the next new port is refused."""
        return len(self.ids) >= self._limit

    def row(self, port: PortId) -> int | None:
        """The row of a known port."""
        return self._row.get(port)

    def rows(self, ports: PortSet) -> NDArray[np.int32]:
        """int32[len(ports)]: the rows of `ports`, made where new; -1 where the table is full."""
        known = self._sets.get(ports)
        if known is not None:
            return known
        names = map(PortId, ports.device, ports.port)
        rows = np.fromiter((self._intern(name) for name in names), np.int32, len(ports))
        self._sets.put(ports, rows, len(ports), self.most_names)
        return rows

    def rows_in(self, other: PortTable) -> NDArray[np.intp]:
        """intp[N]: where each port of this table was in another one, -1 where it was not."""
        found = (other._row.get(port, -1) for port in self.ids)
        return np.fromiter(found, np.intp, len(self.ids))

    def _intern(self, port: PortId) -> int:
        row = self._row.get(port)
        if row is not None:
            return row
        row = len(self.ids)
        if row >= self._limit:
            self.refused += 1
            return -1
        if row >= len(self._data["peer"]):
            for name, (_, fill) in _COLUMNS.items():
                old = self._data[name]
                self._data[name] = np.concatenate([old, np.full_like(old, fill)])
        self._row[port] = row
        self.ids.append(port)
        self._data["node"][row] = self._intern_node(port.device)
        self.version += 1
        return row

    def _intern_node(self, name: str) -> int:
        node = self._node.setdefault(name, len(self.nodes))
        if node == len(self.nodes):
            self.nodes.append(name)
        return node

    def _view(self, name: str) -> NDArray[Any]:
        return self._data[name][: len(self.ids)]

    @property
    def node(self) -> NDArray[np.int32]:
        """int32[N]: index into `nodes` of the device the port belongs to."""
        return self._view("node")

    @property
    def peer(self) -> NDArray[np.int32]:
        """int32[N]: row at the other end of the cable, or NO_PEER."""
        return self._view("peer")

    @property
    def role(self) -> NDArray[np.uint8]:
        """uint8[N]: `PortRole`."""
        return self._view("role")

    @property
    def infiniband(self) -> NDArray[np.bool_]:
        """bool[N]: an InfiniBand port; otherwise Ethernet."""
        return self._view("infiniband")

    @property
    def speed_bps(self) -> NDArray[np.float64]:
        """float64[N]: effective data rate now, NaN unknown."""
        return self._view("speed_bps")

    @property
    def nominal_bps(self) -> NDArray[np.float64]:
        """float64[N]: what the port could do, NaN unknown."""
        return self._view("nominal_bps")

    @property
    def tick_bytes(self) -> NDArray[np.float64]:
        """float64[N]: bytes of port time per `tx_wait_ticks`, NaN unknown unit."""
        return self._view("tick_bytes")

    @property
    def lanes(self) -> NDArray[np.int16]:
        """int16[N]: SerDes lanes, 0 unknown."""
        return self._view("lanes")

    @property
    def rail(self) -> NDArray[np.int32]:
        """int32[N]: rail or plane group, -1 none."""
        return self._view("rail")

    def save(self) -> Saved:
        """Names and facts. Peers and roles are not in it: `adopt` finds them again."""
        saved = Saved({name: self._view(name) for name in _FACTS})
        device, port = zip(*self.ids, strict=True) if self.ids else ((), ())
        saved.ports |= {"device": np.array(device, np.str_), "port": np.array(port, np.str_)}
        saved.write("rails", list(self._rail))
        return saved

    def restored(self, saved: Saved) -> PortTable:
        """A new table under the same limit, of what was saved. Raises `ValueError`, `KeyError`."""
        table = PortTable(self._limit)
        names = (saved.ports[name].tolist() for name in ("device", "port"))
        for device, port in zip(*names, strict=True):
            table._intern(PortId(device, port))
        if table.refused or len(table) != saved.ports["device"].size:
            raise ValueError(f"{saved.ports['device'].size} ports do not fit")
        table._rail = {rail: number for number, rail in enumerate(saved.read("rails"))}
        table.recall(saved)
        table.refused, table.version = self.refused, self.version + 1
        self._sets.clear()  # who keeps the old table for its names has no use for them
        return table

    def recall(self, saved: Saved) -> None:
        """Take the facts again, after a topology: it may know less than was read since."""
        for name in _FACTS:
            self._view(name)[: len(saved.ports[name])] = saved.ports[name]
        self.version += 1

    def set_speed(self, rows: NDArray[np.int32], speed_bps: NDArray[np.float64]) -> None:
        """Take link speeds as read, bits a second, [M] each; NaN and zero leave what was known.

        Another rounding of the same speed is no change: whoever knows a `version` starts anew.
        """
        good = (rows >= 0) & (speed_bps > 0)
        rows, speed_bps = rows[good], speed_bps[good]
        if not np.allclose(self.speed_bps[rows], speed_bps, rtol=_ROUNDING, atol=0):
            self.speed_bps[rows] = speed_bps
            self.version += 1

    def adopt(self, topology: Topology) -> None:
        """Take peers, roles and facts from `topology`; ports it names get rows."""
        for facts in topology.ports:
            row = self._intern(facts.id)
            if row < 0:
                continue
            for name in ("speed_bps", "nominal_bps", "tick_bytes"):
                value = getattr(facts, name)
                if value > 0:
                    self._data[name][row] = value
            self._data["lanes"][row] = facts.lanes
            rail = facts.rail or facts.plane
            if rail:
                self._data["rail"][row] = self._rail.setdefault(rail, len(self._rail))
        ends = [(link, self._intern(link.a), self._intern(link.b)) for link in topology.links]
        self.peer[:] = NO_PEER
        for link, a, b in ends:
            if a >= 0 and b >= 0:
                self._connect(link, a, b)
        self._adopt_roles(topology)
        self.version += 1

    def _connect(self, link: Link, a: int, b: int) -> None:
        self.peer[a], self.peer[b] = b, a
        if link.speed_bps > 0:
            for row in (a, b):
                if np.isnan(self.speed_bps[row]):
                    self.speed_bps[row] = link.speed_bps

    def _adopt_roles(self, topology: Topology) -> None:
        tier = np.full(len(self.nodes) + 1, -1, np.int8)
        infiniband = np.zeros(len(self.nodes) + 1, np.bool_)
        for node in topology.nodes:
            index = self._node.get(node.name)
            if index is None:
                continue
            role = Role.HOST if node.kind == "host" else node.role
            tier[index] = _TIER.get(role, -1)
            infiniband[index] = node.technology is Technology.INFINIBAND
        own = tier[self.node]
        other = np.where(self.peer >= 0, tier[self.node[self.peer]], -1)
        switch = own > 0
        roles = self.role
        roles[:] = PortRole.UNKNOWN
        roles[own == 0] = PortRole.HOST
        roles[switch & (other == 0)] = PortRole.DOWN
        roles[switch & (other > own)] = PortRole.UP
        roles[switch & (other > 0) & (other <= own)] = PortRole.ACROSS
        self.infiniband[:] = infiniband[self.node]
