"""What a tick publishes: everything an exporter, the status page or a report may look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fabricmon.model.frame import Frame
    from fabricmon.model.incident import Incident
    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import Topology
    from fabricmon.model.window import Window


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What the detector says of each port at one tick.

    anomaly  float32[N]  0..1, higher = worse, NaN while nothing is known of the port
    alarm    bool[N]     anomaly above its calibrated threshold for k of n polls
    why      [N]-free    index of the strongest feature per alarmed row: row -> feature names
    learning the detector has no calibrated model yet
    drift    share of healthy ports that stand out lately, per kind of port (0 is usual)
    """

    anomaly: NDArray[np.float32]
    alarm: NDArray[np.bool_]
    why: dict[int, tuple[str, ...]] = field(default_factory=dict)
    learning: bool = False
    drift: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """One target as the guard sees it."""

    fabric: str
    target: str
    collector: str
    up: bool
    last_success_ns: int | None
    last_duration_s: float
    failures: dict[str, int]
    """Failed polls by `Reason`, since start."""
    last_error: str = ""
    """For people; never a label."""
    unmatched: Mapping[str, int] = field(default_factory=dict)
    """What it sent that no mapping knows, with how many series of it; the most frequent."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One fabric after one tick.

    `present` bool[N] marks ports to publish: read within the last three polls. `incidents` holds
    open and clearing ones, worst first; `job_cost` stalled GPU-seconds per job since start.
    """

    fabric: str
    tick: int
    table: PortTable
    topology: Topology
    frame: Frame
    scores: Scores
    present: NDArray[np.bool_]
    incidents: tuple[Incident, ...]
    closed: tuple[Incident, ...]
    """Incidents that closed at this tick."""
    targets: tuple[TargetStatus, ...]
    job_cost: dict[str, float]
    job_money: dict[str, float] = field(default_factory=dict)
    """The same in the operators' currency; empty without a price."""
    window: Window | None = None
    """The recent past up to this tick, of the same rows; it moves on with the next one."""
    silent: int = 0
    """Ports that were read once, should still be there, and are not `present`."""

    def values_by_state(self) -> dict[State, int]:
        """How many values of ports that are present are in each state, queues included."""
        frame, present = self.frame, self.present[: self.frame.n_ports]
        both = (frame.state[:, present].ravel(), frame.queue_state[:, present].ravel())
        counts = np.bincount(np.concatenate(both), minlength=max(State) + 1)
        return {state: int(counts[state]) for state in State}
