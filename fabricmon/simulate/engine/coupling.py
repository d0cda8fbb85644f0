"""Collectives move in step: a group advances as fast as its slowest flow lets it.

In a ring or a tree every flow waits for the one before it, so none asks for more than that. In an
all-to-all each presses until it is done; on average it sends no more either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.flows import Network

SLACK = 1.03
"""A collective's flows press this much harder than its slowest one moves."""

_LATE = 0.8
"""A group that gets less than this share of what is free for it stands behind somebody else."""


class Coupling:
    """Coupled flows of one epoch: `want[F]` is their full speed, `demand[F]` what is possible."""

    def __init__(
        self,
        network: Network,
        capacity: NDArray[np.float64],
        want: NDArray[np.float64],
        demand: NDArray[np.float64],
    ) -> None:
        """Bit/s throughout."""
        self._net, self._capacity = network, capacity
        self._want, self._demand = want, demand
        self._group = network.flows.group
        self._bound = network.flows.coupled & (want > 0)
        self._steps = self._bound & network.flows.stepping
        self._count = int(self._group.max(initial=-1)) + 1

    @property
    def any(self) -> bool:
        """Whether any flows wait for each other."""
        return bool(self._steps.any())

    def own_pace(self, rate: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[G]: each group's slowest flow, as share of its full speed."""
        pace = np.ones(self._count)
        bound = self._bound
        np.minimum.at(pace, self._group[bound], rate[bound] / self._want[bound])
        return pace

    def free_pace(self, rate: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[G]: max-min paces in what the uncoupled flows leave, given their `rate`."""
        net, bound = self._net, self._steps
        room = self._capacity - net.load(np.where(bound, 0.0, rate))
        room = np.maximum(room, 0.0)
        best = self.own_pace(self._demand)
        active = [int(g) for g in np.unique(self._group[bound])]
        loads = {g: net.load(np.where(bound & (self._group == g), self._want, 0.0)) for g in active}
        pace = np.ones(self._count)
        while active:
            together = np.sum([loads[g] for g in active], axis=0)
            level = np.min(room / np.maximum(together, 1e-9), where=together > 0, initial=1.0)
            low = [g for g in active if best[g] <= level * (1 + 1e-9)]
            tight = (together > 0) & (room <= together * level * (1 + 1e-9))
            done = low or [g for g in active if (loads[g][tight] > 0).any()] or active
            for g in done:
                pace[g] = min(level, best[g])
                room -= loads[g] * pace[g]
            room = np.maximum(room, 0.0)
            active = [g for g in active if g not in done]
        return pace

    def ask(self, pace: NDArray[np.float64], slack: float = 1.0) -> NDArray[np.float64]:
        """float64[F]: what flows demand when their group moves at `pace`."""
        wish = self._want * pace[self._group] * slack
        return np.where(self._steps, np.minimum(self._demand, wish), self._demand)

    def in_step(self, rate: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[F]: `rate` without the slack that groups press with."""
        pace = self.own_pace(rate)
        return np.where(self._bound, np.minimum(rate, self._want * pace[self._group]), rate)

    def held_up(
        self, free: NDArray[np.float64], rate: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """float64[G]: paces of groups that stand behind others; None where nobody does."""
        own = self.own_pace(rate)
        late = own < free * _LATE
        late &= np.bincount(self._group, self._steps, self._count) > 0
        return np.where(late, own, free) if late.any() else None
