"""The recent past of each fabric as the page shows it: ticks to scrub through, rates to plot.

Everything is bounded: a budget of bytes for arrays, a number of ticks, a number of closed
incidents. On a large fabric the budget holds the rates of few ticks; plots then fall back on the
pipeline's window.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.frame import Frame
    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Snapshot

_MAX_TICKS = 3600
_MAX_CLOSED = 1000
_SHOWN = 0.02
"""A stall below this share is not drawn."""


@dataclass(slots=True)
class Moment:
    """One tick of one fabric.

    table         the ports by row, as they were then
    rows, stall   int32[M], float32[M]: ports held back more than 2 % of the time
    incidents     their JSON, worst first
    frame         for the plots; None once it no longer fits
    """

    tick: int
    time_ns: int
    table: PortTable
    ports: int
    rows: NDArray[np.int32]
    stall: NDArray[np.float32]
    incidents: tuple[dict[str, Any], ...]
    frame: Frame | None

    @property
    def worst(self) -> float:
        """The highest stall ratio."""
        return float(self.stall.max()) if len(self.stall) else 0.0


class History:
    """Written by the worker thread that publishes, read by the event loop."""

    def __init__(self, budget_bytes: int) -> None:
        """`budget_bytes` is for the frames of all fabrics together."""
        self._budget = budget_bytes
        self._lock = threading.Lock()
        self._moments: dict[str, deque[Moment]] = {}
        self._closed: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._framed: deque[Moment] = deque()
        """Moments of all fabrics that still have their frame, oldest first."""
        self._held = 0

    def add(self, snapshot: Snapshot) -> Moment:
        """Take one tick."""
        frame = snapshot.frame
        stall = np.where(snapshot.present[: frame.n_ports], frame.ratios.stall, np.nan)
        rows = np.flatnonzero(stall > _SHOWN).astype(np.int32)
        moment = Moment(
            snapshot.tick,
            frame.time_ns,
            snapshot.table,
            int(np.count_nonzero(snapshot.present)),
            rows,
            stall[rows].astype(np.float32),
            tuple(incident.to_json() for incident in snapshot.incidents),
            frame,
        )
        closed = [incident.to_json() for incident in snapshot.closed]
        with self._lock:
            moments = self._moments.setdefault(snapshot.fabric, deque(maxlen=_MAX_TICKS))
            moments.append(moment)
            self._framed.append(moment)
            self._held += frame_bytes(frame)
            self._shed()
            for one in closed:
                self._closed[one["id"]] = one
                self._closed.move_to_end(one["id"])
            while len(self._closed) > _MAX_CLOSED:
                self._closed.popitem(last=False)
        return moment

    def _shed(self) -> None:
        """Give up the oldest frames beyond the budget, never the newest."""
        while self._held > self._budget and len(self._framed) > 1:
            old = self._framed.popleft()
            assert old.frame is not None
            self._held -= frame_bytes(old.frame)
            old.frame = None

    def moments(self, fabric: str) -> list[Moment]:
        """Every tick that is kept, oldest first."""
        with self._lock:
            return list(self._moments.get(fabric, ()))

    def closed(self) -> list[dict[str, Any]]:
        """JSON of incidents that closed, latest first."""
        with self._lock:
            return list(reversed(self._closed.values()))

    def retain(self, fabrics: set[str]) -> None:
        """Forget fabrics that are no longer there."""
        with self._lock:
            for name in set(self._moments) - fabrics:
                del self._moments[name]


def frame_bytes(frame: Frame) -> int:
    """What keeping a frame costs."""
    arrays = (frame.rate, frame.total, frame.state, frame.queue_rate, frame.queue_total)
    return sum(array.nbytes for array in arrays) + 64 * frame.n_ports
