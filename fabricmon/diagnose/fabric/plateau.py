"""Egress ports that carry less than their link's rate and yet have a standing queue.

Working congestion control hides a slow receiver or a slow link: senders adapt, nobody is paused,
and only two things are left: the port's traffic is clipped below its rate, and its queue stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.fabric.graph import SinkKind
from fabricmon.diagnose.past.levels import BLOCK, LONG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.graph import Sink
    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.frame import Frame

POLLS = 4
BELOW = 0.8
"""A port that reaches this share of its link in any poll is not clipped."""
_SEEN, _INFERRED = 0.75, 0.6
"""Confidence in a plateau that is seen, and in one that must be there."""
_CLIPPED = 0.85
"""It stays below this share of what it carried in a poll before."""
STANDS = 0.5
"""How far a queue, or its marks, must have risen (`FabricView.queue`, `marks`)."""
_STEADY = 0.85
"""Polls in which it sends at least this share of what it sent in the best of them are alike."""
CLEAR = 0.2
"""Share of time that a port waits beyond all its past: for less, nobody is told a guess."""
_PATIENCE = 5
"""Polls in which the real end of pressure may still show itself."""
_KNOWN = 4 * BLOCK
"""Polls until what a port reached before is more than its first bursts."""
_USED = 0.02
_WAITS = 0.002
"""Share of time from which a queue stands because of who pauses the port, now or always."""
_HARDER = 1.25
"""Times less than it carried before, beside what other ports of its device do."""
_FLOWS = 0.05
"""A port that carries less is idle rather than clipped."""


def plateaus(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: clipped below the link's rate with a queue that never stood before."""
    standing = (view.queue >= STANDS) & (view.marks >= 0.3)
    if not standing.any() or view.levels.ticks < _KNOWN:
        return np.zeros_like(standing)
    peak = np.fmax.reduce(view.polls("tx_use", POLLS), axis=0)
    clipped = (peak < BELOW) & (view.use > _USED) & (view.held <= 0)
    clipped &= peak < _CLIPPED * view.level("tx_use_poll", "high")  # without a past nothing is
    waits = view.stall > _WAITS
    clipped &= view.shape.faces_host | ~(waits | view.paused_a_little)  # or it is further on
    found: NDArray[np.bool_] = standing & clipped & _lasting(view) & (view.shape.beyond >= 0)
    return found


def _lasting(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: the queue stood in nearly all of the last polls, and not for what is offered.

    A queue that stands leaves at the rate of the link, the same in every poll; what is sent in
    bursts fills the queue for a moment and leaves at what its senders offer. A way that alone of
    its siblings cannot take what all of them are offered alike needs no queue that never empties,
    nor does a port that its host asks to stop; its job may rest in some polls more than in others.
    But a way must stay clipped for longer than the burst of one iteration.
    """
    past = 2 * np.nan_to_num(view.levels.high("depth"))
    standing = _depths(view) > past
    use = view.polls("tx_use", POLLS)[-len(standing) :]
    steady = standing & (use >= _STEADY * np.fmax.reduce(use))
    peak = np.fmax.reduce(view.polls("tx_use", LONG))
    told = _alone(view) & (peak < _CLIPPED * view.level("tx_use_poll", "high"))
    told |= view.shape.faces_host & view.pause_evident
    filled = (view.window.past("depth", POLLS) > past) & told
    lasting: NDArray[np.bool_] = (steady.sum(0) >= POLLS - 1) | (filled.sum(0) >= POLLS - 1)
    return lasting


def _alone(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: a way before which a queue stands, and before none of its siblings."""
    stands = view.queue >= STANDS
    alone: NDArray[np.bool_] = stands & (view.shape.over_ways(stands) == 1)
    return alone


def _depths(view: FabricView) -> NDArray[np.float32]:
    """float32[W,N]: what stood in the queue as each of the last polls was read."""
    depths = view.window.past("depth", POLLS)
    frames = list(view.window.frames)[-POLLS:]
    return np.array([as_read(*one) for one in zip(frames, depths[-len(frames) :], strict=True)])


def as_read(frame: Frame, depth: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[N]: what stood in each queue as the poll was read.

    The highest `depth` since the poll before, which tells of any burst, only where that is all.
    """
    queues = frame.queue_gauges.get("queue_depth_bytes")
    if queues is None:
        return depth
    out, read = depth.copy(), np.fmax.reduce(queues, axis=1)
    out[: len(read)] = np.where(np.isnan(read), out[: len(read)], read)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Clipped:
    """A port that limits traffic without being full.

    `by_host`: the host it faces slows it down, as a little pause shows; otherwise it is the link.
    """

    row: int
    victims: NDArray[np.intp]
    by_host: bool
    confidence: float


def clipped_ports(view: FabricView) -> list[Clipped]:
    """Plateaus, and what must be at the end of pressure that no full or held port explains."""
    found = [(row, view.behind(row), _SEEN) for row in map(int, np.flatnonzero(view.plateau))]
    for sink in view.sinks:
        held_for = view.window.ticks - int(view.onset[sink.row])
        unexplained = sink.kind is SinkKind.OPEN and held_for >= _PATIENCE and _clear(view, sink)
        row = _clipped_beyond(view, sink.row) if unexplained else None
        if row is not None:
            found.append((row, sink.victims, _INFERRED))
    by_host = view.shape.faces_host & view.paused_a_little
    return [Clipped(row, victims, bool(by_host[row]), sure) for row, victims, sure in found]


def _clear(view: FabricView, sink: Sink) -> bool:
    """Whether a port waits for it so clearly that it is told without a known reason."""
    return bool(np.fmax.reduce(view.held[sink.victims], initial=0.0) >= CLEAR)


def _clipped_beyond(view: FabricView, held: int) -> int | None:
    """The port of the next device at which a held chain ends without a full or held port.

    It is the one whose traffic is clipped hardest against its own past while it still flows, and
    harder than what the others carry: where all of them carry less, senders wait elsewhere.
    """
    device = int(view.shape.beyond[held])
    if device < 0 or view.shape.is_host[device]:
        return None
    rows = view.shape.rows_of(device)
    rows = rows[rows != view.shape.peer[held]]
    if np.isnan(view.stall[rows]).any():
        return None  # any port that is not read may be the one that is held back
    peak = np.fmax.reduce(view.polls("tx_use", POLLS)[:, rows], axis=0)
    before = view.level("tx_use_poll", "high")[rows]
    clipped = before / np.fmax(peak, np.float32(_USED))
    clipped = clipped[(flows := (peak > _FLOWS) & np.isfinite(before))]
    if not len(clipped) or clipped.max() < _HARDER * max(1.0, float(np.median(clipped))):
        return None
    return int(rows[flows][np.argmax(clipped)])
