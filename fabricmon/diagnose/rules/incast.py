"""Many senders, one egress port: it runs at line rate and everybody behind it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.graph import SinkKind
from fabricmon.diagnose.fabric.groups import CROWD, single_destination
from fabricmon.diagnose.fabric.plateau import BELOW, STANDS
from fabricmon.diagnose.past.levels import LONG, PAST
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView


_MORE = 1.15
"""Times what it ever carried over some iterations, or carries usually: a port that fills."""
_MANY = 1.0
"""Held time, in ports, of a crowd that is no beat of two jobs, which a short past may not have."""
_LITTLE = 0.002
"""Share of a poll from which a way waited at all."""
_FEW = 0.25
"""Share of the ports of a job in which queues stand: from here on, so it sends."""


class Incast:
    """A busy sink towards a host."""

    kind: ClassVar[str] = IncidentKind.INCAST
    signature: ClassVar[str] = (
        "An egress port towards a host sends at line rate and is not held back itself, while ports "
        "upstream of it are held back far more than in their own past; or it alone fills as never "
        "before with a marked queue in it, and congestion control spares the others."
    )
    discriminator: ClassVar[str] = (
        "The end of the pressure is busy and its peer does not pause it: a slow receiver's port is "
        "held back by its host and nearly idle. In an all-to-all phase every port of the job is "
        "about as busy as this one; here it stands out."
    )
    advice: ClassVar[str] = (
        "Find what sends to this host at the same time (checkpoint, shuffle, parameter server, "
        "storage read) and spread or pace it. Check that ECN marks at this port and that the "
        "senders' congestion control answers."
    )
    limits: ClassVar[str] = (
        "Needs the topology. Bursts shorter than a poll are seen only by the stall they cause."
    )

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """Busy sinks that face a host, or whose traffic all goes to one, and filled ports."""
        found = []
        known = view.levels.ticks >= PAST // 3  # what a job does now and then is no crowd
        for sink in view.sinks:
            row: int | None = sink.row
            if sink.kind is SinkKind.BUSY and not view.shape.faces_host[sink.row]:
                row = single_destination(view, _ways(view, sink.row))
            if sink.kind is not SinkKind.BUSY or row is None or not _stands_out(view, row):
                continue
            stands = _stands(view, row)
            crowd = (sink.mass >= CROWD and _fills(view, row)) or stands
            if view.use[row] >= view.config.busy or (crowd and known):
                behind = (sink.row, *map(int, sink.victims))
                lasting = view.levels.ticks >= PAST or sink.mass >= _MANY or stands
                found.append(self._finding(view, row, behind, sure=crowd and lasting))
        told = {finding.rows[0] for finding in found}
        absorbed = [row for row in _absorbed(view) if row not in told]
        return [*found, *(self._finding(view, row, (), sure=True) for row in absorbed)]

    def _finding(
        self, view: FabricView, row: int, behind: tuple[int, ...], *, sure: bool
    ) -> Finding:
        """`behind`: the end of pressure, and who is held back through it.

        `sure`: enough wait, or a queue stands; one collective that is a little worse for once fills
        a port, too. One poll of it is enough: who waits has waited for longer.
        """
        use = max(float(view.use[row]), float(view.level("tx_use_poll")[row]))
        full = sure and use >= view.config.busy
        drops = float(np.nan_to_num(view.levels.now("drops")[row]))
        evidence = [view.evidence(row, "tx_use", "below 0.9, or nobody waiting for it")]
        evidence += [
            view.evidence(row, name) for name in ("depth", "ecn") if _known(view, row, name)
        ]
        return Finding(
            IncidentKind.INCAST,
            Verdict.FABRIC,
            Severity.MODERATE if drops > 0 else Severity.MILD,
            0.9 if full else 0.6,
            (view.cause(row, 0.9),),
            view.victims(behind[1:]),
            (*evidence, *view.tree(behind[1:])),
            self.advice,
            rows=tuple(dict.fromkeys((row, *behind))),
        )


def _ways(view: FabricView, row: int) -> NDArray[np.intp]:
    """The way `row`, and its siblings at which pressure ends as well: an incast fills any of them.

    What goes to other hosts by each of them is no crowd before one.
    """
    ends = [sink.row for sink in view.sinks if sink.kind is SinkKind.BUSY]
    return np.intersect1d(np.append(view.shape.siblings(row), row), ends)


def _fills(view: FabricView, row: int) -> bool:
    """Whether a port that is not seen full carries clearly more than usual; yes without a past."""
    return not view.use[row] < _MORE * view.usual_use[row]


def _known(view: FabricView, row: int, signal: str) -> bool:
    return bool(np.isfinite(view.levels.now(signal)[row]))


def _stands(view: FabricView, row: int) -> bool:
    """Whether a marked queue stands in the port: senders that slow down leave some of it idle."""
    full = np.fmax.reduce(view.polls("tx_use", LONG)[:, row]) >= BELOW
    return bool(full and view.queue[row] >= STANDS and view.marks[row] >= STANDS)


def _absorbed(view: FabricView) -> list[int]:
    """Ports towards hosts that fill as never before while congestion control spares the others.

    They carry more than ever over some iterations, alone among their peers, and a marked queue
    stands in them in nearly every poll. Nobody is held back for long, but somebody is: a port that
    is only used more than it used to be harms nobody.
    """
    shape, levels = view.shape, view.levels
    stands = shape.faces_host & (view.queue >= STANDS) & (view.marks >= STANDS)
    if not stands.any() or levels.ticks < PAST // 3:
        return []
    long, high = (view.level("tx_use_long", what) for what in ("now", "high"))
    deep = view.window.past("depth", LONG) > 2 * np.nan_to_num(levels.high("depth"))
    more = (long >= _MORE * high) & (deep.sum(axis=0) >= LONG - 2)
    peak = np.fmax.reduce(view.polls("tx_use", LONG))
    crowd = np.bincount(shape.alike, stands) > _FEW * np.bincount(shape.alike, shape.faces_host)
    alone = stands & ~crowd[shape.alike] & (view.held <= 0)
    rows = np.flatnonzero(alone & more & (peak >= view.config.busy))
    asked = (_stands_out, _takes_more, _harms)
    return [row for row in map(int, rows) if all(question(view, row) for question in asked)]


def _harms(view: FabricView, row: int) -> bool:
    """Whether any way into the port's device waited of late, however little."""
    ways = np.flatnonzero(view.shape.beyond == view.shape.node[row])
    return bool((view.polls("stall", LONG)[:, ways] > _LITTLE).any())


def _takes_more(view: FabricView, row: int) -> bool:
    """Whether the host takes more over all its cards: by one instead of several, rails differ."""
    cards = np.flatnonzero(view.shape.beyond == view.shape.beyond[row])
    usual = float(np.nansum(view.usual_use[cards]))
    return float(np.nansum(view.use[cards])) >= _MORE * usual


def _stands_out(view: FabricView, row: int) -> bool:
    """Whether the port is much busier than the other ports towards hosts of its job or device."""
    shape = view.shape
    same = shape.job == shape.job[row] if shape.job[row] >= 0 else shape.node == shape.node[row]
    peers = np.flatnonzero(same & shape.faces_host)
    others = view.use[peers[peers != row]]
    others = others[np.isfinite(others)]
    return not len(others) or float(view.use[row]) >= 1.15 * float(np.median(others))


RULE = Incast
