"""Groups of parallel ways: which are full, whether evenly, and where their traffic went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.fabric.graph import SinkKind
from fabricmon.diagnose.fabric.plateau import STANDS
from fabricmon.diagnose.past.levels import PAST, TRACKED, known_mean
from fabricmon.model.ports import PortRole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_IDLE = 0.7
"""A sibling that carries less than this share of the fullest one has room."""
_RISE = 0.15
"""How much more than usual a full way must carry."""
_LEFT = 0.3
"""A way that carries less than this share of the least it ever carried was left by its traffic."""
_MOST_OF = 0.5
"""Share of what its siblings lost that a way must gain to have taken it over."""
_EMPTIER = 0.5
"""A way that kept less than this of what the slowest sender below it kept was left, not slowed."""
_HALF = 0.5
"""Siblings that all send less than this of a line rate leave most of their room to a full way."""
_KNOWN = 0.75
"""Share of a span's polls that must be known."""
_USED = 0.02
_LESS, _FAR_MORE, _MOVED = 0.6, 1.3, 1.1
"""Times what siblings usually carry, what a way ever did, and what all of them usually do."""
CROWD = 0.3
"""Held time, in ports, behind what is not seen full: polls may be longer than bursts."""
_MORE = 1.15
"""How much more than the ways of other devices a crowded group carries."""
_FULL = 3
"""Polls over which a way must be full, or be left: two of them are a burst."""
_SINGLE = 0.6
"""A full way most of whose traffic is for one host is no matter of ways."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Parallel ways of one device.

    rows    int[M]  all of them; `full` int[F] the full ones, fullest first
    even    whether all of them are full
    up      whether they lead to a higher tier
    """

    device: int
    rows: NDArray[np.intp]
    full: NDArray[np.intp]
    even: bool
    up: bool


def _newly_full(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways at line rate, far above their past, with somebody waiting.

    Whether something further on holds them back as well says little: it leaves them at line rate.
    """
    busy = view.config.busy
    full = known_mean(view.polls("tx_use", _FULL)) >= busy
    # of polls that even out bursts, two are enough, and one beside idle ways
    enough = (view.polls("tx_use", 2).min(axis=0) >= busy) | _beside_idle(view)
    full |= first_full(view) & enough
    full &= view.shape.parallel >= 0
    full &= view.use - view.usual_use >= _RISE  # a port without a past says nothing
    return full & view.waited_for


def first_full(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: at line rate in the latest poll, as in none before."""
    busy = view.config.busy
    return (view.level("tx_use_poll") >= busy) & (view.level("tx_use_poll", "high") < busy)


def _beside_idle(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways up none of whose siblings sends half of a line rate.

    No burst leaves them so, once it is known what a poll ever shows. What fills a way down came up
    first.
    """
    if view.levels.ticks < PAST:
        return np.zeros(view.frame.n_ports, np.bool_)
    sends = ~(view.level("tx_use_poll") < _HALF * view.config.busy)
    return (view.shape.role == PortRole.UP) & (view.shape.over_ways(sends) - sends == 0)


def _took_over(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways that carry more than ever before while siblings were left by their traffic."""
    shape = view.shape
    way = shape.parallel >= 0
    left, more = np.zeros(len(way), np.bool_), np.zeros(len(way), np.bool_)
    for name, polls in (("tx_use", _FULL), ("tx_use_long", TRACKED["tx_use_long"][1])):
        low, high = (view.level(name, what) for what in ("low", "high"))
        now = known_mean(view.polls("tx_use", polls))
        now = np.where(_whole(view, "tx_use", polls), now, np.float32(np.nan))
        left |= (low > _USED) & (now <= _LEFT * low)
        more |= (now > 1.1 * high) & (now > high + _USED)
    two = view.polls("tx_use", 2)  # of polls that even out bursts, two say the same
    low, high = (view.level("tx_use_poll", what) for what in ("low", "high"))
    left |= (low > _USED) & (two.max(axis=0) <= _LEFT * low)
    more |= two.min(axis=0) > np.fmax(1.1 * high, high + _USED)
    left &= way & ~_rerouted(view) & ~_cut_short(view)
    left &= view.held <= 0  # who may not send was not left
    if _broken_ways(view).any():  # what comes down otherwise was sent up otherwise
        left &= shape.role == PortRole.UP
    inherits = _inherits(view, left & way)
    peak = np.fmax.reduce(view.polls("tx_use", 6), axis=0)
    told = np.isfinite(view.levels.now("depth")) & np.isfinite(view.levels.now("ecn"))
    unseen = (peak >= view.config.busy) & ~told  # else a queue would stand, or be marked
    room = unseen | view.waited_for
    rises = (view.use - view.usual_use >= _RISE) & room  # of a job that stopped, none
    more &= way & (inherits | ((view.held <= 0) & rises))
    kept = _kept(view, left & _emptier_than_hosts(view))
    more |= (view.held > 0) & (view.use >= _USED) & kept
    if not left.any() or not more.any():
        return np.zeros(len(way), np.bool_)
    groups = np.unique(shape.parallel[left])
    return more & room & np.isin(shape.parallel, groups)


def _drawn(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways up in which a marked queue stands, by what their siblings used to carry.

    Where polls even out bursts, the way is never seen full, nor need its siblings be empty. Moved
    and not added: all of them together carry no more than usual.
    """
    shape = view.shape
    stands = (view.queue >= STANDS) & (view.marks >= STANDS) & (view.held <= 0)
    stands &= shape.role == PortRole.UP
    if view.levels.ticks < PAST or not stands.any():
        return np.zeros(len(stands), np.bool_)
    stands &= ~_rerouted(view) & (shape.over_ways(_cut_short(view)) == 0)
    now, usual = shape.over_ways(view.use), shape.over_ways(view.usual_use)
    fewer = now - view.use < _LESS * (usual - view.usual_use)
    more = view.use >= _FAR_MORE * view.level("tx_use", "high")
    drawn: NDArray[np.bool_] = stands & fewer & more & (now <= _MOVED * usual)
    return drawn


def _inherits(view: FabricView, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[N]: gained most of what its siblings lost, held back further on or not."""
    gain = np.nan_to_num(view.use - view.usual_use)
    lost = view.shape.over_ways(np.where(left, -gain, 0))
    inherits: NDArray[np.bool_] = gain > _MOST_OF * np.fmax(lost, _USED)
    return inherits


def _emptier_than_hosts(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways up that lost far more of their traffic than any sender below them did.

    Who is held back further on sends less by every way alike; only a route leaves out one.
    """
    shape, devices = view.shape, len(view.shape.is_host)
    pace = view.use / np.fmax(view.usual_use, np.float32(_USED))
    up = shape.role == PortRole.UP
    below = (shape.beyond >= 0) & (shape.host_port | up) & (view.usual_use > _USED)
    slowest = np.full(devices, np.inf)
    np.minimum.at(slowest, shape.beyond[below], np.nan_to_num(pace[below]))
    empty: NDArray[np.bool_] = up & (pace <= _EMPTIER * slowest[shape.node])
    return empty & np.isfinite(slowest[shape.node])


def _kept(view: FabricView, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[N]: ways all of whose siblings, one at least, were `left` by their traffic.

    Where others are merely slower, too, one end of pressure may be what slows them all.
    """
    way = view.shape.parallel >= 0
    others, ways = view.shape.over_ways(~left), view.shape.over_ways(way)
    kept: NDArray[np.bool_] = way & ~left & (others == 1) & (ways > 1)
    return kept


def _whole(view: FabricView, signal: str, span: int) -> NDArray[np.bool_]:
    """bool[N]: enough polls are known for a level: one poll is a phase of a job and no level."""
    known = np.isfinite(view.polls(signal, span)).mean(axis=0)
    whole: NDArray[np.bool_] = known >= _KNOWN
    return whole


def _rerouted(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways that are down, or that begin or end at a device with a link that is down."""
    shape = view.shape
    broken = np.bincount(shape.node, view.down, len(shape.is_host)) > 0
    rerouted: NDArray[np.bool_] = broken[shape.node] | ((shape.beyond >= 0) & broken[shape.beyond])
    return rerouted


def _cut_short(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways up that lead, by whatever tiers, to a device that lately lost a way down.

    What is for those below it goes by the siblings, however far away.
    """
    shape = view.shape
    broke = _broken_ways(view)
    if not broke.any():
        return broke
    broke |= shape.at_peer(broke.astype(np.float32), 0.0) > 0
    up = (shape.role == PortRole.UP) & (shape.beyond >= 0)
    leads = np.zeros(len(shape.is_host), np.bool_)
    leads[shape.node[broke & (shape.role == PortRole.ACROSS)]] = True
    low, high = shape.node[up], shape.beyond[up]
    for begin, end in ((low, high), (high, low)):  # what is above it, then all that leads there
        before = 0
        while before < (before := int(leads.sum())):
            leads[end[leads[begin]]] = True
    cut: NDArray[np.bool_] = up & leads[shape.beyond]
    return cut


def _broken_ways(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways that broke lately."""
    broken: NDArray[np.bool_] = (view.memory.breaks() > 0) & (view.shape.parallel >= 0)
    return broken


def _broke_lately(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ways that begin or end where a way broke lately: the others carry its share."""
    shape = view.shape
    broke = _broken_ways(view)
    devices = np.bincount(shape.node, broke, len(shape.is_host)) > 0
    near: NDArray[np.bool_] = devices[shape.node] | ((shape.beyond >= 0) & devices[shape.beyond])
    return near


def full_groups(view: FabricView) -> list[Group]:
    """Groups in which a way is newly full, or took over what its siblings carried."""
    shape = view.shape
    full = _newly_full(view)
    taken = _took_over(view) | _drawn(view)
    broke = _broke_lately(view)
    found = []
    for number in np.unique(shape.parallel[full | taken]):
        rows = np.flatnonzero(shape.parallel == number)
        known = rows[np.isfinite(view.use[rows])]
        if len(known) < 2 or broke[rows].any():
            continue
        hot = known[(full | taken)[known]]
        hot = hot[np.argsort(-view.use[hot], kind="stable")]
        if single_destination(view, hot[:1]) is not None:
            continue
        idle = view.use[known] < _IDLE * float(view.use[hot[0]])
        even = not idle.any() and not taken[known].any()
        found.append(_group(view, known, hot, even=even))
    return found


def _group(
    view: FabricView, rows: NDArray[np.intp], full: NDArray[np.intp], *, even: bool
) -> Group:
    up = bool(view.shape.role[rows[0]] == PortRole.UP)
    device = int(view.shape.node[rows[0]] if up else view.shape.beyond[rows[0]])
    return Group(device, rows, full, even, up)


def crowded_groups(view: FabricView) -> list[Group]:
    """Groups of ways up at which pressure ends evenly, although no poll shows them full.

    Polls that are longer than bursts never do. They carry clearly more than they used to, and than
    the ways of other devices do: in an all-to-all phase those fill as much.
    """
    shape = view.shape
    up = shape.role == PortRole.UP
    group = np.where(up, shape.parallel, 0)
    ends = [sink for sink in view.sinks if sink.kind is SinkKind.BUSY and up[sink.row]]
    mass = np.bincount([group[s.row] for s in ends], [s.mass for s in ends], group.max() + 1)
    found = []
    for number in np.flatnonzero(mass >= CROWD):
        rows = np.flatnonzero(up & (shape.parallel == number))
        use, usual = view.use[rows], view.usual_use[rows]
        even = use.min() >= _IDLE * use.max()  # what is not read, or has no past, is not even
        rises = use.mean() >= max(usual.mean() + _RISE, _MORE * _others(view, up, rows))
        if len(rows) > 1 and even and rises and single_destination(view, rows) is None:
            full = rows[np.argsort(-use, kind="stable")]
            found.append(_group(view, rows, full, even=True))
    return found


def _others(view: FabricView, up: NDArray[np.bool_], rows: NDArray[np.intp]) -> float:
    """What a way up of another device carries, as a median; 0 where there is none."""
    others = view.use[up & (view.shape.parallel != view.shape.parallel[rows[0]])]
    return float(np.nanmedian(others)) if np.isfinite(others).any() else 0.0


def single_destination(view: FabricView, ways: NDArray[np.intp]) -> int | None:
    """The port towards the host that takes most of what came newly through the `ways`, if any."""
    more = np.fmax(np.nan_to_num(view.use - view.usual_use)[ways], 0)
    ends = np.array([_destination(view, int(way)) for way in ways])
    for end in np.unique(ends[ends >= 0]):
        if more[ends == end].sum() >= _SINGLE * more.sum():
            return int(end)
    return None


def _destination(view: FabricView, row: int) -> int:
    """The same of one way; -1 for none.

    Followed from device to device: most of what a device sends more than usual leaves by one port.
    """
    shape = view.shape
    more = (view.use - view.usual_use) * view.table.speed_bps
    at = row
    for _ in range(4):
        device = int(shape.beyond[at])
        if device < 0 or shape.is_host[device]:
            return -1
        onward = shape.rows_of(device)
        onward = onward[onward != shape.peer[at]]
        rise = np.fmax(np.nan_to_num(more[onward]), 0.0)
        if not len(onward) or float(rise.max()) < max(_SINGLE * float(rise.sum()), 1.0):
            return -1
        at = int(onward[np.argmax(rise)])
        if view.use[at] - view.usual_use[at] < _RISE:
            return -1
        if shape.faces_host[at]:
            return at
    return -1
