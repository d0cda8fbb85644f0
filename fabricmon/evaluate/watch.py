"""What the product said over a run, taken from its snapshots as they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.incident import Incident, Verdict
from fabricmon.model.topology import PortId, Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.formats.interchange import Label
    from fabricmon.model.snapshot import Snapshot

THRESHOLD = 0.02
"""The one-threshold baseline: stall above this for two polls."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One alarm: an incident in its last state, or what a baseline would have raised.

    `start_ns` is when it says the trouble began, `opened_ns` when it was first told, `end_ns` when
    the trouble was last seen. `order` sorts alarms as the product does, worst first.
    """

    kind: str
    start_ns: int
    opened_ns: int
    end_ns: int
    causes: tuple[PortId, ...] = ()
    victims: frozenset[PortId] = frozenset()
    telemetry: bool = False
    order: tuple[Any, ...] = ()
    confidence: float = 0.0

    @classmethod
    def of(cls, incident: Incident, opened_ns: int) -> Observed:
        """An incident as it stands."""
        end = incident.ended_ns if incident.ended_ns is not None else incident.updated_ns
        return cls(
            incident.kind.value,
            incident.started_ns,
            opened_ns,
            max(end, opened_ns),
            tuple(PortId(c.device, c.port) for c in incident.causes),
            frozenset(PortId(v.device, v.port) for v in incident.victims),
            incident.verdict is Verdict.TELEMETRY,
            incident.sort_key()[1:],
            incident.confidence,
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One run to be judged. `poll_s` is the poll length; `ports` how many were watched."""

    name: str
    observed: tuple[Observed, ...]
    labels: tuple[Label, ...]
    topology: Topology
    poll_s: float
    start_ns: int
    end_ns: int
    ports: int
    alarms: tuple[tuple[int, tuple[PortId, ...]], ...] = ()
    """(time, ports above the one threshold for two polls), for the baseline."""
    tags: dict[str, str] = field(default_factory=dict)
    """How runs are grouped in reports: technology, poll, paused time."""

    @property
    def poll_ns(self) -> int:
        """Poll length, nanoseconds."""
        return max(1, round(self.poll_s * 1e9))


class Watcher:
    """Looks at every snapshot of a run."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._opened: dict[str, int] = {}
        self._incidents: dict[str, Incident] = {}
        self._alarms: list[tuple[int, tuple[PortId, ...]]] = []
        self._before: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._start_ns = self._end_ns = 0
        self._poll_s = 0.0
        self._topology = Topology()
        self._ports = 0

    def see(self, snapshot: Snapshot) -> None:
        """Take one tick."""
        now = snapshot.frame.time_ns
        self._start_ns = self._start_ns or now
        self._end_ns = now
        self._poll_s = snapshot.frame.interval_s
        self._topology = snapshot.topology
        self._ports = max(self._ports, len(snapshot.table))
        for incident in (*snapshot.incidents, *snapshot.closed):
            self._opened.setdefault(incident.id, now)
            self._incidents[incident.id] = incident
        self._see_threshold(snapshot, now)

    def _see_threshold(self, snapshot: Snapshot, now: int) -> None:
        above = np.nan_to_num(snapshot.frame.ratios.stall) > THRESHOLD
        before = np.pad(self._before, (0, len(above) - len(self._before)))
        rows = np.flatnonzero(above & before)
        if len(rows):
            ids = snapshot.table.ids
            self._alarms.append((now, tuple(ids[row] for row in rows)))
        self._before = above

    def run(self, name: str, labels: tuple[Label, ...], **tags: str) -> Run:
        """The run as far as it was seen."""
        observed = [Observed.of(i, self._opened[id_]) for id_, i in self._incidents.items()]
        return Run(
            name,
            tuple(sorted(observed, key=lambda o: o.order)),
            labels,
            self._topology,
            self._poll_s,
            self._start_ns,
            self._end_ns,
            self._ports,
            tuple(self._alarms),
            dict(tags),
        )
