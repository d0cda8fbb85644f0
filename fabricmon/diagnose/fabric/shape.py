"""The fabric's shape as arrays: who is next, which ports are parallel ways, which job runs where.

Rebuilt only when the port table or the topology changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.diagnose.fabric.rails import cards_of
from fabricmon.model.ports import NO_PEER, PortRole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import Topology


class Shape:
    """Static structure over N ports and D devices.

    peer        int32[N]   row at the other end, -1 unknown
    beyond      int32[N]   device at the other end, -1 unknown
    is_host     bool[D]    the device is a host
    faces_host  bool[N]    a switch port whose peer is a host
    order, start           rows grouped by device: device d owns order[start[d]:start[d+1]]
    parallel    int64[N]   id of the group of parallel ways the port belongs to, -1 none
    alike       int64[N]   dense id of the group of ports it is compared with
    cards                  the cards of hosts by rail and by plane
    job         int32[N]   index into `jobs` of the job of the host at either end, -1 none
    """

    def __init__(self, table: PortTable, topology: Topology) -> None:
        """Read everything once."""
        self.key = (table.version, id(topology))
        n = len(table)
        self.node = table.node.copy()
        self.peer = table.peer.copy()
        linked = self.peer != NO_PEER
        self.beyond = np.where(linked, self.node[self.peer], -1) if n else self.node.copy()
        devices = len(table.nodes)
        self.is_host = np.zeros(devices, np.bool_)
        self.is_host[self.node[table.role == PortRole.HOST]] = True
        index = {name: i for i, name in enumerate(table.nodes)}
        for node in topology.nodes:
            if node.kind == "host" and node.name in index:
                self.is_host[index[node.name]] = True
        self.host_port = self.is_host[self.node] if n else np.zeros(0, np.bool_)
        self.faces_host = linked & (self.beyond >= 0) & ~self.host_port
        self.faces_host &= self.is_host[self.beyond]
        self.order = np.argsort(self.node, kind="stable")
        self.start = np.searchsorted(self.node[self.order], np.arange(devices + 1))
        self.role = table.role.copy()
        self.parallel = self._parallel_ways()
        self.cards = cards_of(table, topology, self.host_port)
        self.jobs = topology.jobs
        self.job = self._jobs_of_ports(index)
        self.alike = self._ports_alike()

    def _parallel_ways(self) -> NDArray[np.int64]:
        """Ways a flow could take instead of each other.

        Upwards: all uplinks of one device. Downwards: all ports of a higher tier that lead to the
        same device. Ports towards hosts have no alternative.
        """
        group = np.full(len(self.node), -1, np.int64)
        up, across = self.role == PortRole.UP, self.role == PortRole.ACROSS
        group[up] = self.node[up].astype(np.int64) * 2
        group[across] = self.beyond[across].astype(np.int64) * 2 + 1
        return group

    def _jobs_of_ports(self, index: dict[str, int]) -> NDArray[np.int32]:
        of_device = np.full(len(self.is_host) + 1, -1, np.int32)
        for number, job in enumerate(self.jobs):
            for host in job.hosts:
                if host in index:
                    of_device[index[host]] = number
        own = of_device[self.node]
        return np.where(own >= 0, own, of_device[self.beyond])

    def _ports_alike(self) -> NDArray[np.int64]:
        """Dense id of each port's peer group: parallel ways, else job, else device; by role."""
        kind = np.where(self.parallel >= 0, 0, np.where(self.job >= 0, 1, 2))
        within = np.where(
            self.parallel >= 0, self.parallel, np.where(self.job >= 0, self.job, self.node)
        )
        key = (within.astype(np.int64) * 3 + kind) * 8 + self.role
        return np.unique(key, return_inverse=True)[1].astype(np.int64)

    def rows_of(self, device: int) -> NDArray[np.intp]:
        """Rows of one device."""
        rows: NDArray[np.intp] = self.order[self.start[device] : self.start[device + 1]]
        return rows

    def siblings(self, row: int) -> NDArray[np.intp]:
        """Rows of the same group of parallel ways, the row itself included; empty if none."""
        group = self.parallel[row]
        return np.flatnonzero(self.parallel == group) if group >= 0 else np.empty(0, np.intp)

    def over_ways(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """float64[N]: sum of [N] over all parallel ways of each way; 0 of what is none."""
        way = self.parallel >= 0
        group = np.where(way, self.parallel, 0)
        return np.where(way, np.bincount(group, np.where(way, values, 0))[group], 0.0)

    def at_peer(self, values: NDArray[np.float32], default: float = np.nan) -> NDArray[np.float32]:
        """float32[...,N]: `values` as the other end of each cable has them."""
        linked = self.peer != NO_PEER
        return np.where(linked, values[..., self.peer], np.float32(default))
