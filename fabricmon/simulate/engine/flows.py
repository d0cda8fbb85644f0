"""Flows and the index arrays that the solvers work on.

Shapes: **F** flows (one path each), **G** groups (flows that are switched on together, such as one
phase of a job), **H** hops, **P** pairs. A *hop* is one flow on one link. A *pair* is (ingress,
egress): all flows of one class (lossless or not) that enter a switch by one link and leave it by
another share it. A flow's first hop has a pair of its own, whose ingress is the flow: a network
card serves its flows in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.fabric.routing import PAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOSSLESS_QUEUE = 3


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """What wants to be sent.

    path     int32[F,Hmax]  directed links, PAD at the end
    demand   float64[F]     bit/s while its group is on
    group    int32[F]
    window   float64[F]     bytes in flight at most (inf: a backlog that never ends)
    uncontrolled float64[F] share of the time in which congestion control has not converged
    lossless bool[F]        sent in the lossless queue
    coupled  bool[F]        a collective: the whole group is done when its slowest flow is
    stepping bool[F]        flows of the group wait for each other all the way, as in a ring
    """

    path: NDArray[np.int32]
    demand: NDArray[np.float64]
    group: NDArray[np.int32]
    window: NDArray[np.float64]
    uncontrolled: NDArray[np.float64]
    lossless: NDArray[np.bool_]
    coupled: NDArray[np.bool_]
    stepping: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.demand)


def join(parts: list[Flows]) -> Flows:
    """All flows of `parts` as one."""
    if not parts:
        empty = np.empty(0)
        none, no = np.empty(0, np.int32), np.empty(0, np.bool_)
        return Flows(np.empty((0, 2), np.int32), empty, none, empty, empty, no, no, no)
    width = max(part.path.shape[1] for part in parts)
    paths = [
        np.pad(p.path, ((0, 0), (0, width - p.path.shape[1])), constant_values=PAD) for p in parts
    ]
    return Flows(
        np.concatenate(paths),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in (
                "demand",
                "group",
                "window",
                "uncontrolled",
                "lossless",
                "coupled",
                "stepping",
            )
        ),
    )


def total_by(
    index: NDArray[np.intp], values: NDArray[np.float64], length: int
) -> NDArray[np.float64]:
    """float64[length]: sum of `values` for each index."""
    total: NDArray[np.float64] = np.bincount(index, values, length).astype(np.float64, copy=False)
    return total


class Network:
    """Index arrays of a set of flows; made once per routing, reused for every epoch."""

    def __init__(self, flows: Flows, n_links: int) -> None:
        """`n_links` is E."""
        self.flows = flows
        self.n_links = n_links
        path = flows.path
        real = path != PAD
        self.hops = real.sum(axis=1)
        self.hop_link = path[real].astype(np.intp)
        self.hop_flow = np.repeat(np.arange(len(flows)), self.hops)
        self.first = np.cumsum(self.hops) - self.hops
        self.hop_at = np.arange(len(self.hop_link)) - self.first[self.hop_flow]
        self._pair_up()
        self._rank()

    def _pair_up(self) -> None:
        """Pairs sorted by egress link. Ingress `E + f` is flow `f` itself."""
        before = np.empty(len(self.hop_link), np.int64)
        before[1:] = self.hop_link[:-1]
        before[self.first] = self.n_links + np.arange(len(self.first))
        stride = self.n_links + len(self.first)
        lossless = self.flows.lossless[self.hop_flow]
        keys = (self.hop_link * stride + before) * 2 + lossless
        keys, self.hop_pair = np.unique(keys, return_inverse=True)
        self.pair_lossless = (keys & 1).astype(np.bool_)
        self.pair_link = (keys // (2 * stride)).astype(np.intp)
        self.pair_ingress = (keys // 2 % stride).astype(np.intp)
        self.pair_start = np.searchsorted(self.pair_link, np.arange(self.n_links + 1))

    def _rank(self) -> None:
        """levels: links by the most hops that remain behind them, sinks first."""
        rank = np.full(self.n_links, -1, np.int64)
        remaining = self.hops[self.hop_flow] - 1 - self.hop_at
        np.maximum.at(rank, self.hop_link, remaining)
        self.levels = [np.flatnonzero(rank == r) for r in range(int(rank.max(initial=-1)) + 1)]
        inner = self.pair_ingress < self.n_links
        self.cyclic = bool((rank[self.pair_ingress[inner]] <= rank[self.pair_link[inner]]).any())
        """Whether some links may wait for each other in a circle."""

    def load(self, rate: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[E]: what `rate[F]` puts on every link."""
        return total_by(self.hop_link, rate[self.hop_flow], self.n_links)

    def pairs_of(self, links: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pairs that leave by any of `links`, and for each the position of its link there."""
        start, stop = self.pair_start[links], self.pair_start[links + 1]
        length = stop - start
        owner = np.repeat(np.arange(len(links)), length)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
        return start[owner] + offset, owner
