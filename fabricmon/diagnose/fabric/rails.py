"""Rails and planes: how evenly a host divides what it sends among its network cards.

A collective uses all rails of a host alike, and an adapter spreads its packets over all planes. So
a card that fills up while the others of its host empty was given their share. What a card carries
goes up and down with its job, its share of the host's traffic does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.past.levels import SPAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import PortFacts, Topology

_IDLE = {"plane": 0.7, "rail": 0.3}
"""A card that carries less than this share of what it usually does beside the fullest one was left
out. An adapter spreads packets over planes; over rails it is whoever sends, and something else may
come on top of one of them."""
_EVEN = 0.5
"""A card that usually carries less than this share of the one that is full now is no sibling."""
_MORE = 1.1
"""What a card must carry of the most it ever did, where polls are too long to show it full."""
_FEW = 0.5
"""Where this share of a job's hosts prefers the same rail, that is how the job sends."""


@dataclass(frozen=True, slots=True, eq=False)
class Cards:
    """The cards of hosts by rail, or by plane. Ports of switches and single cards have none.

    reason  `rail` or `plane`
    group   int64[N]  cards among which a host divides its traffic, -1 none
    on    int64[N]  which rail or plane, -1 none
    """

    reason: str
    group: NDArray[np.int64]
    on: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Uneven:
    """A rail or plane that some hosts send by, and leave others out.

    full  int[F]  their cards on it, the fullest first; `idle` int[I] their cards that were left out
    """

    reason: str
    full: NDArray[np.intp]
    idle: NDArray[np.intp]


def cards_of(
    table: PortTable, topology: Topology, host_port: NDArray[np.bool_]
) -> tuple[Cards, ...]:
    """Planes of the same rail of a host, and rails of the same plane, where there are any."""
    return tuple(
        cards
        for reason, across in (("plane", "rail"), ("rail", "plane"))
        if (cards := _cards(table, topology.ports, host_port, reason, across)) is not None
    )


def _cards(
    table: PortTable,
    ports: Sequence[PortFacts],
    host_port: NDArray[np.bool_],
    reason: str,
    across: str,
) -> Cards | None:
    on, group = (np.full(len(table), -1, np.int64) for _ in range(2))
    names: dict[str, int] = {}
    groups: dict[tuple[int, str], int] = {}
    for facts in ports:
        name, row = getattr(facts, reason), table.row(facts.id)
        if not name or row is None or not host_port[row]:
            continue
        own = int(table.node[row]), getattr(facts, across)
        on[row] = names.setdefault(name, len(names))
        group[row] = groups.setdefault(own, len(groups))
    return Cards(reason, group, on) if len(names) > 1 else None


def uneven(view: FabricView) -> list[Uneven]:
    """One per rail or plane that took over what hosts used to divide."""
    return [found for cards in view.shape.cards for found in _uneven(view, cards)]


def _uneven(view: FabricView, cards: Cards) -> Iterator[Uneven]:
    rows = np.flatnonzero(cards.group >= 0)
    group = cards.group[rows]
    now, usual = (view.level("tx_use_long", what)[rows] for what in ("now", "usual"))
    known = np.isfinite(now) & np.isfinite(usual)
    top = _largest(group, np.where(known, now, 0))
    full = known & (now >= top[group]) & _fills(view)[rows] & (view.held[rows] <= 0)
    before = _largest(group, np.where(full, usual, 0))[group]
    least = _IDLE[cards.reason] * usual / np.fmax(before, np.float32(1e-9))
    idle = (now < least * top[group]) & (usual >= _EVEN * before) & (before > 0)
    broken = np.bincount(group, (view.down | view.slow)[rows] | ~known, len(top)) > 0
    odd = (np.bincount(group, idle, len(top)) > 0) & ~broken
    hot = rows[full & odd[group]]
    left = rows[idle & odd[group]]
    for number in np.unique(cards.on[hot]):
        own = hot[cards.on[hot] == number]
        own = own[np.argsort(-view.use[own], kind="stable")]
        if cards.reason == "rail":
            own = own[~_as_its_job(view, cards, own)]
        if len(own):
            aside = left[np.isin(cards.group[left], cards.group[own])]
            yield Uneven(cards.reason, own, aside)


def _largest(group: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[G]: the largest value of each group; 0 where there is none."""
    most = np.zeros(int(group.max(initial=-1)) + 1, np.float32)
    np.maximum.at(most, group, values.astype(np.float32))
    return most


def _fills(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: full in one of the last polls, or carries more than it ever did."""
    full = np.fmax.reduce(view.polls("tx_use", SPAN), axis=0) >= view.config.busy
    more = view.level("tx_use_long") > _MORE * view.level("tx_use_long", "high")
    fills: NDArray[np.bool_] = full | more
    return fills


def _as_its_job(view: FabricView, cards: Cards, full: NDArray[np.intp]) -> NDArray[np.bool_]:
    """bool[F]: half of the job's cards on this rail are full alike."""
    job = view.shape.job
    mates = cards.on == cards.on[full[0]]
    count = {int(j): np.count_nonzero(mates & (job == j)) for j in np.unique(job[full])}
    alike = {j: np.count_nonzero(job[full] == j) for j in count}
    return np.array([alike[int(j)] >= _FEW * count[int(j)] for j in job[full]], np.bool_)
