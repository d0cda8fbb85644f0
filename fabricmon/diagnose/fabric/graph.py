"""The pressure graph: which egress port is held back by which egress ports of the next device.

An egress that had data and could not send was told so by the device at the other end of its cable
(pause, or no credits). That device's buffer is full because one of *its* egress ports is held back
itself, or is full. Following these edges ends in sinks: a port held back by a host, or a full port
that nobody holds back. Sinks are causes, what lies upstream are victims, a cycle has no sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.shape import Shape

HOPS = 8
"""Longest chain of held ports that is followed; fabrics of three tiers need six."""
_MAX_SINKS = 24
_LIGHT = 0.05
"""Held time, in ports, below which an end of pressure is nobody's business; a host that holds its
own port back is told however little it is."""
_SHARE = 0.05
"""Less of a port's stall than this does not make it a victim of a sink."""


class SinkKind(IntEnum):
    """How a chain of held ports ends."""

    BUSY = 0
    """A port that sends all it can while others wait for it."""
    HOST = 1
    """A port held back by the host it faces."""
    OPEN = 2
    """A held port whose next device shows nothing that holds it, or is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Sink:
    """One end of pressure.

    row      the egress port at which the chain ends
    mass     how much held time it explains, in ports (1.0 = one port held back all the time)
    victims  int[V] rows held back through it; `shares` float[V] how much of their stall it explains
    feeders  int[F] rows that wait for it directly
    """

    row: int
    kind: SinkKind
    mass: float
    victims: NDArray[np.intp]
    shares: NDArray[np.float64]
    feeders: NDArray[np.intp]


class PressureGraph:
    """Edges between egress ports in CSR form over the `active` rows (A held or holding ports).

    active   int[A]   port rows, ascending
    src, dst int[E]   positions in `active`
    weight   float[E] share of the source's stall that this edge explains; sums to 1 per source
    """

    def __init__(
        self,
        shape: Shape,
        held: NDArray[np.float32],
        holding: NDArray[np.float32],
        presumed: NDArray[np.float32],
    ) -> None:
        """Build the edges.

        held     float32[N]  newly stalled share of time of each egress, 0 where not held back
        holding  float32[N]  0..1, how much a port that is not held looks like holding others back
        presumed float32[N]  the same as `held` of ports that do not show it: pressure
                             passes through them, and they are no victims that could be shown
        """
        self.shape = shape
        self.held = held
        self._presumed = presumed > 0
        source = np.flatnonzero((held > 0) | self._presumed)
        weight_of = np.maximum(np.maximum(held, presumed), holding)
        target = np.flatnonzero(weight_of > 0)
        self.active = np.union1d(source, target)
        src, dst = self._edges(source, target)
        weight = weight_of[dst].astype(np.float64) ** 2
        total = np.bincount(src, weight, minlength=len(held))[src]
        keep = total > 0
        self.src = np.searchsorted(self.active, src[keep])
        self.dst = np.searchsorted(self.active, dst[keep])
        self.weight = weight[keep] / total[keep]

    def _edges(
        self, source: NDArray[np.intp], target: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Every held port with every candidate on the next device, the way back left out."""
        shape = self.shape
        source = source[(shape.beyond[source] >= 0) & ~shape.faces_host[source]]
        target = target[np.argsort(shape.node[target], kind="stable")]
        bounds = np.searchsorted(shape.node[target], np.arange(len(shape.is_host) + 1))
        first = bounds[shape.beyond[source]]
        count = bounds[shape.beyond[source] + 1] - first
        src = np.repeat(source, count)
        offset = np.arange(len(src)) - np.repeat(np.cumsum(count) - count, count)
        dst = target[np.repeat(first, count) + offset]
        forward = dst != shape.peer[src]
        return src[forward], dst[forward]

    def _absorb(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How much held time ends at each active row, and how much never ends (cycles)."""
        a = len(self.active)
        ends = np.ones(a, np.bool_)
        ends[self.src] = False
        flow = self.held[self.active].astype(np.float64)
        absorbed = np.zeros(a)
        for _ in range(HOPS):
            absorbed += np.where(ends, flow, 0.0)
            flow = np.where(ends, 0.0, flow)
            flow = _sums(self.dst, flow[self.src] * self.weight, a)
        absorbed += np.where(ends, flow, 0.0)
        return absorbed, np.where(ends, 0.0, flow)

    def _kind(self, row: int) -> SinkKind:
        if self.held[row] <= 0 and not self._presumed[row]:
            return SinkKind.BUSY
        return SinkKind.HOST if self.shape.faces_host[row] else SinkKind.OPEN

    def sinks(self) -> list[Sink]:
        """The ends of pressure, the heaviest first; at most a few dozen."""
        if not len(self.active):
            return []
        absorbed, _ = self._absorb()
        heaviest = np.argsort(-absorbed, kind="stable")[:_MAX_SINKS]
        by_host = self.shape.faces_host[self.active] & (self.held[self.active] > 0)
        weighs = absorbed > max(_LIGHT, 0.03 * absorbed[heaviest[0]])
        out = []
        for place in heaviest[(weighs | by_host)[heaviest]]:
            row = int(self.active[place])
            victims, shares = self.upstream(row)
            feeders = self.active[self.src[self.dst == place]]
            sink = Sink(row, self._kind(row), float(absorbed[place]), victims, shares, feeders)
            out.append(sink)
        return out

    def upstream(self, row: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows held back through `row` (itself too, if held), and the share of it this explains."""
        place = int(np.searchsorted(self.active, row))
        if place >= len(self.active) or self.active[place] != row:
            return np.empty(0, np.intp), np.empty(0)
        share = self._shares(place)
        found = np.flatnonzero((share > _SHARE) & (self.held[self.active] > 0))
        return self.active[found], share[found]

    def inflow(self) -> NDArray[np.float64]:
        """float64[N]: held time that directly waits for each port, in ports."""
        waiting = self.held[self.active].astype(np.float64)[self.src] * self.weight
        return _sums(self.active[self.dst], waiting, len(self.held))

    def _shares(self, sink: int) -> NDArray[np.float64]:
        """float[A]: how much of each active row's stall ends in `sink`."""
        a = len(self.active)
        share = np.zeros(a)
        share[sink] = 1.0
        for _ in range(HOPS):
            through = _sums(self.src, self.weight * share[self.dst], a)
            through[sink] = 1.0
            if np.allclose(through, share, atol=1e-3):
                break
            share = through
        return share

    def cycles(self, stuck: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Rows of each cycle of ports that wait for each other, among the `stuck` ones bool[N].

        Ports without a stuck predecessor or successor are peeled off until only cycles, and what
        lies between two cycles, are left.
        """
        inside = stuck[self.active]
        src, dst = self.src, self.dst
        while True:
            edge = inside[src] & inside[dst]
            src, dst = src[edge], dst[edge]
            a = len(self.active)
            left = (
                inside & (np.bincount(src, minlength=a) > 0) & (np.bincount(dst, minlength=a) > 0)
            )
            if np.array_equal(left, inside):
                break
            inside = left
        return [self.active[part] for part in _components(np.flatnonzero(inside), src, dst)]


def _sums(place: NDArray[np.intp], values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """float64[size]: the sum of `values` at each place."""
    return np.bincount(place, values, minlength=size).astype(np.float64)


def _components(
    members: NDArray[np.intp], src: NDArray[np.intp], dst: NDArray[np.intp]
) -> list[NDArray[np.intp]]:
    """Split `members` into parts connected by the edges, by passing the smallest label on."""
    if not len(members):
        return []
    label = np.arange(int(members.max()) + 1)
    while True:
        smallest = label.copy()
        np.minimum.at(smallest, src, label[dst])
        np.minimum.at(smallest, dst, label[src])
        if np.array_equal(smallest, label):
            break
        label = smallest
    return [members[label[members] == name] for name in np.unique(label[members])]
