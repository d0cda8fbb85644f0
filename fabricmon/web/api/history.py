"""The recent past of each fabric as the page shows it: ticks to scrub through, rates to plot.

Everything is bounded: a budget of bytes for arrays, a number of ticks, a number of closed
incidents. On a large fabric the budget holds the rates of few ticks; plots then fall back on the
pipeline's window. In a bad hour it holds fewer ticks to scrub through.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.frame import Frame
    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.topology import PortId

_MAX_TICKS = 3600
_MAX_CLOSED = 1000
_SHOWN = 0.02
"""A stall below this share is not drawn."""


@dataclass(slots=True)
class Moment:
    """One tick of one fabric.

    rows, stall   int32[M], float32[M]: ports held back more than 2 % of the time
    names         [M]: what they are called
    packed        its incidents as compressed JSON, worst first: as objects they would be ten times
                  the size, and there are thousands of ticks
    frame, table  for the plots, and the ports by row; None once the frame no longer fits
    """

    tick: int
    time_ns: int
    ports: int
    rows: NDArray[np.int32]
    stall: NDArray[np.float32]
    names: tuple[PortId, ...]
    n_incidents: int
    packed: bytes
    frame: Frame | None
    table: PortTable | None

    @property
    def worst(self) -> float:
        """The highest stall ratio."""
        return float(self.stall.max()) if len(self.stall) else 0.0

    @property
    def size(self) -> int:
        """Bytes, without the frame."""
        return len(self.packed) + self.rows.nbytes + self.stall.nbytes + 8 * len(self.names)

    def incidents(self) -> list[dict[str, Any]]:
        """The JSON of its incidents, worst first."""
        found: list[dict[str, Any]] = orjson.loads(zlib.decompress(self.packed))
        return found


def moment_of(snapshot: Snapshot) -> Moment:
    """What is kept of a tick."""
    frame = snapshot.frame
    stall = np.where(snapshot.present[: frame.n_ports], frame.ratios.stall, np.nan)
    rows = np.flatnonzero(stall > _SHOWN).astype(np.int32)
    incidents = orjson.dumps([incident.to_json() for incident in snapshot.incidents])
    return Moment(
        snapshot.tick,
        frame.time_ns,
        int(np.count_nonzero(snapshot.present)),
        rows,
        stall[rows].astype(np.float32),
        tuple(snapshot.table.ids[row] for row in rows.tolist()),
        len(snapshot.incidents),
        zlib.compress(incidents, 1),
        frame,
        snapshot.table,
    )


class History:
    """Written by the worker thread that publishes, read by the event loop."""

    def __init__(self, budget_bytes: int) -> None:
        """`budget_bytes` is for the frames of all fabrics together; a quarter more for the rest."""
        self._frame_budget, self._budget = budget_bytes, budget_bytes // 4
        self._lock = threading.Lock()
        self._moments: dict[str, deque[Moment]] = {}
        self._closed: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._framed: deque[Moment] = deque()
        """Moments of all fabrics that still have their frame, oldest first."""
        self._frames_held = self._held = 0

    def add(self, snapshot: Snapshot) -> Moment:
        """Take one tick."""
        moment = moment_of(snapshot)
        closed = [incident.to_json() for incident in snapshot.closed]
        with self._lock:
            moments = self._moments.setdefault(snapshot.fabric, deque())
            moments.append(moment)
            self._held += moment.size
            self._framed.append(moment)
            self._frames_held += frame_bytes(snapshot.frame)
            self._shed(moments)
            for one in closed:
                self._closed[one["id"]] = one
                self._closed.move_to_end(one["id"])
            while len(self._closed) > _MAX_CLOSED:
                self._closed.popitem(last=False)
        return moment

    def _shed(self, moments: deque[Moment]) -> None:
        """Give up the oldest frames, then the oldest ticks beyond the budget; never the newest."""
        while self._frames_held > self._frame_budget and len(self._framed) > 1:
            self._unframe(self._framed.popleft())
        while len(moments) > 1 and (len(moments) > _MAX_TICKS or self._held > self._budget):
            self._drop(moments.popleft())

    def _unframe(self, moment: Moment) -> None:
        if moment.frame is not None:
            self._frames_held -= frame_bytes(moment.frame)
            moment.frame = moment.table = None

    def _drop(self, moment: Moment) -> None:
        """Forget it. An empty one may stay in `_framed` until its turn comes."""
        self._held -= moment.size
        self._unframe(moment)

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
                for moment in self._moments.pop(name):
                    self._drop(moment)


def frame_bytes(frame: Frame) -> int:
    """What keeping a frame costs."""
    arrays = (frame.rate, frame.total, frame.state, frame.queue_rate, frame.queue_total)
    return sum(array.nbytes for array in arrays) + 64 * frame.n_ports
