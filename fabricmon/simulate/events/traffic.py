"""Traffic that comes on top: incasts, load, routes in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from fabricmon.errors import FabricmonError
from fabricmon.simulate.events.base import EventConfig
from fabricmon.simulate.workload.traffic import Wish

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.fabric.wiring import Wiring


class Incast(EventConfig):
    """Many hosts send to one, beside what they do otherwise."""

    do: Literal["incast"]
    to: str
    senders: int | list[str] = Field(8, description="how many, spread over other leaves, or which")
    intensity: float = Field(0.9, gt=0, le=1)
    uncontrolled: float = Field(
        0.6, ge=0, le=1, description="share of the time congestion control has not converged"
    )

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """A flow from each sender that never runs dry."""
        to = wiring.card(self.to)
        cards = senders_of(wiring, self.senders, to)
        amount = np.full(len(cards), self.intensity)
        into = np.full(len(cards), to, np.int32)
        return [_backlog(cards, into, amount, self.uncontrolled)]


def _backlog(
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    share: NDArray[np.float64],
    uncontrolled: float,
    path: NDArray[np.int32] | None = None,
) -> Wish:
    """Flows that never run dry and wait for nobody."""
    return Wish(
        start, end, share, coupled=False, uncontrolled=uncontrolled, backlog=True, path=path
    )


def senders_of(wiring: Wiring, senders: int | list[str], to: int) -> NDArray[np.int32]:
    """int32[]: cards of the named hosts, or of that many spread evenly over other leaves."""
    if isinstance(senders, list):
        return np.array([wiring.card(name) for name in senders], np.int32)
    cards = wiring.cards
    other = cards[wiring.target[cards] != wiring.target[to]]
    if len(other) < senders:
        other = cards[cards != to]
    if not len(other):
        raise FabricmonError("an incast needs other hosts")
    pick = np.linspace(0, len(other) - 1, min(senders, len(other))).round().astype(int)
    return np.unique(other[pick])


class Load(EventConfig):
    """Extra traffic between two sets of hosts, in pairs."""

    do: Literal["load"]
    sources: list[str] = Field(description="hosts, or a switch for all its hosts")
    sinks: list[str]
    intensity: float = Field(0.5, gt=0, le=1)
    uncontrolled: float = Field(0.02, ge=0, le=1)

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """Each source sends to one sink; sinks repeat where there are fewer."""
        start, end = cards_of(wiring, self.sources), cards_of(wiring, self.sinks)
        end = np.resize(end, len(start))
        keep = start != end
        share = np.full(int(keep.sum()), self.intensity)
        return [_backlog(start[keep], end[keep], share, self.uncontrolled)]


def cards_of(wiring: Wiring, names: list[str]) -> NDArray[np.int32]:
    """int32[]: the cards of hosts, and of all hosts of a switch."""
    found: list[NDArray[np.int32]] = []
    for name in names:
        node = wiring.device(name)
        side = wiring.source if wiring.tier[node] == 0 else wiring.target
        found.append(wiring.cards[side[wiring.cards] == node])
    return np.concatenate(found)


class Loop(EventConfig):
    """Routes that bounce between leaves and spines in a circle, under load: a deadlock."""

    do: Literal["loop"]
    through: list[str] = Field(min_length=4, description="leaf, spine, leaf, spine, ...")
    senders: int = Field(4, ge=1, description="flows that enter at each leaf")
    refresh: float = Field(0.0, ge=0, le=1, description="how regularly its pauses are renewed")

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Remember how its switches renew pauses."""
        del wiring, second
        conditions.refresh = self.refresh

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """From every leaf of the circle once around it, to another host of the same leaf."""
        circle = [wiring.device(name) for name in self.through]
        n = len(circle)
        hops = [_link(wiring, circle[i], circle[(i + 1) % n]) for i in range(n)]
        paths: list[list[int]] = []
        for i, node in enumerate(circle):
            if wiring.tier[node] != 1:
                continue
            cards = wiring.cards[wiring.target[wiring.cards] == node]
            for k in range(min(self.senders, len(cards))):
                out = int(cards[(k + 1) % len(cards)]) ^ 1
                around = [hops[(i + j) % n] for j in range(n)]
                paths.append([int(cards[k]), *around, out])
        path = np.array(paths, np.int32)
        share = np.full(len(path), 0.9)
        return [_backlog(path[:, 0], path[:, -1] ^ 1, share, 1.0, path)]


def _link(wiring: Wiring, a: int, b: int) -> int:
    found = np.flatnonzero((wiring.source == a) & (wiring.target == b))
    if not len(found):
        names = wiring.topology.nodes
        raise FabricmonError(f"no link from {names[a].name!r} to {names[b].name!r}")
    return int(found[0])
