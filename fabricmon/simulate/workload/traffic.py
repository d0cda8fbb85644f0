"""What is sent in a fabric: collectives of training jobs, background, and what events add.

A collective is a group of flows that advance together. Its demand is what a network card sustains;
how long it lasts at that speed is the job's `communicate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.engine.flows import Flows, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.fabric.routing import Router
    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.scenario import JobConfig, TrafficConfig

_MESH_CARDS = 32
"""All-to-all among more cards than this uses evenly spaced shifts instead of every pair."""

_SHIFTS = 16

_EXCHANGES = 3
"""An all-to-all is this many exchanges, each with receivers of its own that more is sent to."""

_BURSTY = 0.12
"""Share of time congestion control has not converged for the short messages of an all-to-all."""


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """Flows between cards before they have a way: start, end int32[F], share of the card's rate."""

    start: NDArray[np.int32]
    end: NDArray[np.int32]
    share: NDArray[np.float64]
    coupled: bool = True
    stepping: bool = True
    uncontrolled: float = 0.02
    backlog: bool = False
    """Never runs dry, as storage or a burst of many small messages does."""
    path: NDArray[np.int32] | None = None
    """The way, where it is not the router's to choose."""


@dataclass(slots=True, eq=False)
class Plan:
    """Flows with ways, by group name."""

    flows: Flows
    groups: dict[tuple[str, str], int] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    """Collectives with a flow that has no way: nobody in them sends or advances."""

    def mask(self, names: Sequence[tuple[str, str]]) -> NDArray[np.bool_]:
        """bool[G]: which groups are on."""
        on = np.zeros(max(1, len(self.groups)), np.bool_)
        for name in names:
            if name in self.groups:
                on[self.groups[name]] = self.groups[name] not in self.dead
        return on


class Planner:
    """Gives wishes their ways under the present conditions."""

    def __init__(
        self, wiring: Wiring, router: Router, conditions: Conditions, traffic: TrafficConfig
    ) -> None:
        """One planner per change of conditions."""
        self._wiring, self._router = wiring, router
        self._conditions, self._traffic = conditions, traffic
        self._parts: list[Flows] = []
        self._groups: dict[tuple[str, str], int] = {}
        self._dead: set[int] = set()

    def add(self, name: tuple[str, str], wish: Wish) -> None:
        """One group."""
        group = self._groups.setdefault(name, len(self._groups))
        if not len(wish.start):
            return
        wish = self._by_one_card(wish)
        if wish.path is not None:
            path, flow = wish.path, np.arange(len(wish.path))
        else:
            path, flow = self._router.paths(
                wish.start, wish.end, mode=self._traffic.routing, salt=self._traffic.salt
            )
        ways = np.bincount(flow, minlength=len(wish.start))
        if wish.coupled and (ways == 0).any():
            self._dead.add(group)
        path = self._pinned(path)
        rate = self._wiring.capacity[wish.start] * wish.share
        host = self._wiring.source[wish.start]
        n = len(flow)
        control = self._traffic.congestion_control
        if control is None:
            control = not self._wiring.infiniband
        self._parts.append(
            Flows(
                path,
                (rate / np.maximum(ways, 1))[flow],
                np.full(n, group, np.int32),
                np.full(n, np.inf if wish.backlog else self._traffic.in_flight),
                np.full(n, wish.uncontrolled if control else 1.0),
                self._conditions.priority[host][flow],
                np.full(n, wish.coupled),
                np.full(n, wish.coupled and wish.stepping),
            )
        )

    def _by_one_card(self, wish: Wish) -> Wish:
        """What such a host sends leaves, and arrives, by the same rail or plane."""
        start, end = wish.start.copy(), wish.end.copy()
        for node, card in self._conditions.cards.items() if wish.path is None else ():
            own = self._wiring.source[start] == node
            start[own] = self._card(node, card)
            end[own] = [self._card(int(self._wiring.source[e]), card) for e in end[own]]
        return replace(wish, start=start, end=end)

    def _card(self, node: int, number: int) -> int:
        own = self._wiring.cards[self._wiring.source[self._wiring.cards] == node]
        return int(own[min(number, len(own) - 1)])

    def _pinned(self, path: NDArray[np.int32]) -> NDArray[np.int32]:
        """Send what leaves a pinned switch upwards by its one uplink, and on from there."""
        wiring = self._wiring
        for node, (uplink, share) in self._conditions.pins.items():
            for f, row in enumerate(path):
                if f * 0.618034 % 1 >= share:
                    continue
                at = next((h for h in range(1, len(row) - 1) if _leaves(wiring, row[h], node)), 0)
                if not at:
                    continue
                tail = self._router.onward(wiring.target[uplink], row[row >= 0][-1])
                new = [*row[:at], uplink, *tail]
                if len(new) <= len(row):
                    path[f, : len(new)] = new
        return path

    def finish(self) -> Plan:
        """All groups added so far."""
        return Plan(join(self._parts), self._groups, self._dead)


def _leaves(wiring: Wiring, link: int, node: int) -> bool:
    """Whether `link` goes up from `node`."""
    return (
        link >= 0
        and wiring.source[link] == node
        and wiring.tier[wiring.target[link]] > wiring.tier[node]
    )


def collective(
    job: JobConfig, cards: NDArray[np.int32], rng: np.random.Generator
) -> dict[str, Wish]:
    """The groups of one job, by phase; `cards[R, N]` are its cards per rail in rank order."""
    match job.collective:
        case "ring":
            return {"ring": _joined([_ring(job, rail) for rail in cards])}
        case "tree":
            up = _joined([_tree(job, rail) for rail in cards])
            down = Wish(up.end, up.start, up.share)
            return {"reduce": up, "broadcast": down}
        case _:
            return {
                f"exchange {i}": _joined(
                    [_all_to_all(job, rail, rng) for rail in cards], _BURSTY, stepping=False
                )
                for i in range(_EXCHANGES)
            }


def _joined(wishes: list[Wish], uncontrolled: float = 0.02, *, stepping: bool = True) -> Wish:
    return Wish(
        np.concatenate([w.start for w in wishes]),
        np.concatenate([w.end for w in wishes]),
        np.concatenate([w.share for w in wishes]),
        stepping=stepping,
        uncontrolled=uncontrolled,
    )


def _ring(job: JobConfig, cards: NDArray[np.int32]) -> Wish:
    return Wish(cards, np.roll(cards, -1), np.full(len(cards), job.intensity))


def _tree(job: JobConfig, cards: NDArray[np.int32]) -> Wish:
    """A binary tree towards rank 0: two children share their parent's card."""
    child = np.arange(1, len(cards))
    return Wish(cards[child], cards[(child - 1) // 2], np.full(len(child), job.intensity / 2))


def _all_to_all(job: JobConfig, cards: NDArray[np.int32], rng: np.random.Generator) -> Wish:
    n = len(cards)
    shifts = np.arange(1, n)
    if n > _MESH_CARDS:
        shifts = np.unique(np.linspace(1, n - 1, _SHIFTS).astype(int))
    start = np.repeat(np.arange(n), len(shifts))
    end = (start + np.tile(shifts, n)) % n
    popular = np.exp(rng.normal(0.0, job.skew, n)) if job.skew else np.ones(n)
    share = popular[end] / np.bincount(start, popular[end])[start]
    return Wish(cards[start], cards[end], share * job.intensity)


def background(wiring: Wiring, share: float, rng: np.random.Generator) -> Wish:
    """A random permutation among all cards of each plane, each at `share` of its card."""
    plane = {facts.id: facts.plane for facts in wiring.topology.ports}
    own = np.array([plane.get(wiring.ports[card], "") for card in wiring.cards])
    wishes = []
    for name in np.unique(own):
        cards = rng.permutation(wiring.cards[own == name])
        amount = share * rng.uniform(0.5, 1.5, len(cards))
        wishes.append(Wish(cards, np.roll(cards, -1), amount))
    return replace(_joined(wishes), coupled=False)
