"""Back-pressure without loss (PFC or credits) as a fixed point, without congestion control.

Every egress link serves its ingress links max-min fairly; an ingress link is a FIFO, so all of it
slows to its most constrained next hop; a link that is slowed from below offers that much less to
those above it. Sources back off to what their network card may send and press again each round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.engine.flows import total_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.flows import Network

RELEASE = 1.1
"""How hard sources press against what holds them, per round."""

_TRICKLE = 1e-4
"""Share of its demand a source adds per round, so that a stopped one starts again."""

OVERSHOOT = 0.04
"""Excess that arrives where flow control does not bite: what a source that lives on loss sends."""

_EPS = 1e-6

_BUSY, _NEARLY = 0.93, 0.9
"""A link is the reason where it runs at this share of its capacity and is itself hardly held."""


@dataclass(frozen=True, slots=True, eq=False)
class Pressed:
    """The steady state.

    rate    float64[F]  bit/s each flow gets
    slow    float64[E]  factor by which each link is held back from below (1: not at all)
    ratio   float64[P]  what each pair got of what it pressed for (1: all of it)
    full    bool[E]     links that are the reason: more wants through than they carry
    """

    rate: NDArray[np.float64]
    slow: NDArray[np.float64]
    ratio: NDArray[np.float64]
    full: NDArray[np.bool_]


class BackPressure:
    """One network under given capacities."""

    def __init__(
        self,
        network: Network,
        capacity: NDArray[np.float64],
        deaf: NDArray[np.bool_],
    ) -> None:
        """`capacity[E]` bit/s; `deaf[P]`: pairs whose ingress cannot be paused."""
        self._net = network
        self._capacity = capacity
        self._deaf = deaf
        self._any_deaf = bool(deaf.any())

    def solve(
        self,
        demand: NDArray[np.float64],
        start: NDArray[np.float64] | None = None,
        rounds: int = 40,
    ) -> Pressed:
        """Iterate `rounds` times from `start` (rates of a similar epoch) or from `demand`."""
        net = self._net
        rate = demand.copy() if start is None else np.minimum(start, demand)
        total = np.zeros_like(rate)
        slow = np.zeros(net.n_links)
        full = np.zeros(net.n_links)
        ratios = np.zeros(len(net.pair_link))
        half = rounds // 2
        for i in range(rounds):
            rate = np.minimum(demand, rate * RELEASE + demand * _TRICKLE)
            factor, s, f, ratio = self._sweep(rate)
            rate = rate * factor
            if i >= half:
                total += rate
                slow += s
                full += f
                ratios += ratio
        n = rounds - half
        rate = self._fit(total / n)
        busy = net.load(rate) >= self._capacity * _BUSY
        return Pressed(rate, slow / n, ratios / n, (full / n > 0.05) & busy)

    def _fit(self, rate: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average rates may break a capacity by what pressing adds: never let them."""
        net = self._net
        load = net.load(rate)
        over = np.minimum(1.0, self._capacity / np.maximum(load, _EPS))
        if self._any_deaf:  # what is dropped does not count against the link behind the drop
            over = np.maximum(over, 1 / (1 + OVERSHOOT))
        return rate * np.minimum.reduceat(over[net.hop_link], net.first) if len(rate) else rate

    def _sweep(
        self, rate: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """One pass from sinks to sources: factor per flow, slow per link, full, ratio per pair."""
        net = self._net
        pair = total_by(net.hop_pair, rate[net.hop_flow], len(net.pair_link))
        load = total_by(net.pair_link, pair, net.n_links)
        slow = np.ones(net.n_links + len(rate))
        full = np.zeros(net.n_links)
        ratio = np.ones(len(pair))
        for _ in range(3 if net.cyclic else 1):
            for links in net.levels:
                capacity = np.minimum(self._capacity[links], slow[links] * load[links])
                crowded = load[links] > capacity * (1 + _EPS)
                if not crowded.any():
                    continue
                hot = links[crowded]
                full[hot] = slow[hot] > _NEARLY
                chosen, owner = net.pairs_of(hot)
                share = water_fill(pair[chosen], owner, capacity[crowded])
                ratio[chosen] = share
                heard = chosen[~self._deaf[chosen]] if self._any_deaf else chosen
                np.minimum.at(slow, net.pair_ingress[heard], ratio[heard])
        factor = slow[net.n_links :]
        if self._any_deaf:
            factor = np.minimum(factor, self._by_loss(ratio))
        return factor, slow[: net.n_links], full, ratio

    def _by_loss(self, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[F]: sources that lose packets slow down to a little above what gets through."""
        net = self._net
        kept = np.where(self._deaf, np.minimum(1.0, ratio * (1 + OVERSHOOT)), 1.0)
        result: NDArray[np.float64] = np.minimum.reduceat(kept[net.hop_pair], net.first)
        return result


def water_fill(
    want: NDArray[np.float64], owner: NDArray[np.intp], capacity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Max-min shares inside each owner.

    `want[P]` belongs to `owner[P]` (ascending, every owner present); each owner has
    `capacity[O]` and wants more than that. Gives float64[P], the share of its want each one gets.
    """
    order = np.lexsort((want, owner))
    sorted_want, seg = want[order], owner[order]
    starts = np.searchsorted(seg, np.arange(len(capacity)))
    length = np.diff(np.r_[starts, len(seg)])
    before = np.cumsum(sorted_want) - sorted_want
    before -= before[starts][seg]
    left = length[seg] - (np.arange(len(seg)) - starts[seg])
    level = (capacity[seg] - before) / left
    position = np.where(sorted_want >= level, np.arange(len(seg)), len(seg) - 1)
    first = np.minimum.reduceat(position, starts)
    water = np.maximum(level[first], 0.0)
    share = np.empty(len(want))
    share[order] = np.minimum(1.0, water[seg] / np.maximum(sorted_want, _EPS))
    return share
