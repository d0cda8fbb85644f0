"""Whom a port is compared with: those of its role, technology, rail and job.

Fewer than eight peers say little, so small groups merge upwards: without the job, without the
rail, and at last nobody, which leaves a port with its own past alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.ports import NO_PEER, PortRole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import Topology

ENOUGH = 8
"""Members below which a group says nothing."""
_BINS = 64
_FINEST = 1e-3
_STEPS = (_BINS - 2) / -np.log(_FINEST)
"""Bins for each factor of e: 62 between the finest share and 1, one below, one for 1."""
_MIDDLES = np.concatenate(
    [[0.0], np.exp((np.arange(_BINS - 2) + 0.5) / _STEPS) * _FINEST, [1.0]]
).astype(np.float32)


class Peers:
    """Groups of one fabric, worked out anew when the table or the topology changes."""

    def __init__(self) -> None:
        """No ports yet."""
        self._seen: tuple[int, int, int] | None = None
        self.kind: NDArray[np.int16] = np.empty(0, np.int16)
        """int16[N]: role x technology, which one forest is for."""
        self.group: NDArray[np.int32] = np.empty(0, np.int32)
        """int32[N]: peer group, -1 none."""
        self.kinds: list[int] = []
        """The kinds there are."""
        self.siblings: NDArray[np.int32] = np.empty(0, np.int32)
        """int32[N]: ports of a switch that lead the same way, a host's rails or planes; -1 none."""

    def follow(self, table: PortTable, topology: Topology) -> None:
        """Be up to date."""
        seen = (len(table), table.version, id(topology))
        if seen == self._seen:
            return
        self._seen = seen
        self.kind = table.role.astype(np.int16) * 2 + table.infiniband
        self.kinds = np.unique(self.kind).tolist()
        job = _jobs(table, topology)
        self.group = np.full(len(table), -1, np.int32)
        for key in (self.kind, _pair(self.kind, table.rail), _pair(self.kind, job)):
            known = np.ones(len(table), np.bool_) if key is self.kind else key >= 0
            _overwrite(self.group, key, known)
        ways = (table.role == PortRole.UP) | (table.role == PortRole.ACROSS)
        ways |= (table.role == PortRole.HOST) & (table.rail >= 0)
        self.siblings = np.full(len(table), -1, np.int32)
        _overwrite(self.siblings, _pair(table.node, table.role.astype(np.int64)), ways, enough=2)

    def middle(self, share: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[N]: the median of each port's peer group, of a share 0..1; NaN without peers.

        Known to a tenth of its value, from a histogram of finer bins near zero.
        """
        known = (self.group >= 0) & ~np.isnan(share)
        if not known.any():
            return np.full(len(share), np.nan, np.float32)
        groups = int(self.group.max()) + 1
        value, ids = (share, self.group) if known.all() else (share[known], self.group[known])
        bins = _bin(value)
        bins += ids * np.int32(_BINS)
        counts = np.bincount(bins, minlength=groups * _BINS)
        below = counts.reshape(groups, _BINS).cumsum(axis=1)
        half = (below[:, -1:] + 1) // 2
        median = _MIDDLES[np.argmax(below >= half, axis=1)]
        return np.where(self.group >= 0, median[self.group], np.float32(np.nan))

    def others(self, value: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[N]: the mean of a port's siblings, itself left out; NaN without siblings."""
        out = np.full(len(value), np.nan, np.float32)
        known = (self.siblings >= 0) & ~np.isnan(value)
        if not known.any():
            return out
        groups = int(self.siblings.max()) + 1
        ids = self.siblings[known]
        total = np.bincount(ids, value[known], groups)
        count = np.bincount(ids, minlength=groups)
        rest = np.maximum(count[ids] - 1, 1)
        mean = (total[ids] - value[known]) / rest
        out[known] = np.where(count[ids] > 1, mean, np.nan)
        return out


def kind_name(kind: int) -> str:
    """`down/roce`: the words for a kind."""
    technology = "infiniband" if kind % 2 else "roce"
    return f"{PortRole(kind // 2).name.lower()}/{technology}"


def _bin(share: NDArray[np.float32]) -> NDArray[np.int32]:
    """int32[M]: which bin of `_MIDDLES`."""
    place = np.log(np.maximum(share, np.float32(_FINEST / 2)) / np.float32(_FINEST))
    place *= np.float32(_STEPS)
    np.clip(place, -1, _BINS - 2, out=place)
    return (place + np.float32(1)).astype(np.int32)


def _pair(one: NDArray[np.generic], other: NDArray[np.generic]) -> NDArray[np.int64]:
    """int64[N]: one key of two, -1 where `other` is unknown (negative)."""
    first, second = one.astype(np.int64), other.astype(np.int64)
    return np.where(second >= 0, first * (int(second.max(initial=0)) + 1) + second, -1)


def _overwrite(
    group: NDArray[np.int32],
    key: NDArray[np.generic],
    known: NDArray[np.bool_],
    enough: int = ENOUGH,
) -> None:
    """Put ports of the same key into a group of their own, where they are enough."""
    _, place, count = np.unique(key, return_inverse=True, return_counts=True)
    good = known & (count[place] >= enough)
    group[good] = int(group.max(initial=-1)) + 1 + place[good]


def _jobs(table: PortTable, topology: Topology) -> NDArray[np.int64]:
    """int64[N]: the job of the host a port belongs to or faces, -1 none."""
    of_node = np.full(len(table.nodes) + 1, -1, np.int64)
    number = {name: i for i, name in enumerate(table.nodes)}
    for j, job in enumerate(topology.jobs):
        of_node[[number[host] for host in job.hosts if host in number]] = j
    own = of_node[table.node]
    facing = np.where(table.peer != NO_PEER, of_node[table.node[table.peer]], -1)
    return np.where(own >= 0, own, facing)
