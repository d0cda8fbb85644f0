"""One tick of one fabric: from frames and scores to incidents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose import rules
from fabricmon.diagnose.config import DiagnoseConfig
from fabricmon.diagnose.evidence import complete
from fabricmon.diagnose.fabric.shape import Shape
from fabricmon.diagnose.past.levels import Levels
from fabricmon.diagnose.past.memory import Memory
from fabricmon.diagnose.past.pace import Pace
from fabricmon.diagnose.tracking.arbiter import arbitrate
from fabricmon.diagnose.tracking.cost import Cost
from fabricmon.diagnose.tracking.tracker import Tracker
from fabricmon.diagnose.view import FabricView, Past
from fabricmon.model.ports import Saved
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.api import Context, Rule
    from fabricmon.model.incident import Finding, Incident
    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Scores
    from fabricmon.model.topology import PortId, Topology
    from fabricmon.model.window import Window


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What one tick amounts to.

    `findings` are the claims that stand at this tick; `open` incidents (open or clearing), worst
    first; `closed` those that closed at this tick; `job_cost` stalled GPU-seconds since start;
    `job_money` the same in money, empty without a price.
    """

    findings: Sequence[Finding]
    open: Sequence[Incident]
    closed: Sequence[Incident]
    job_cost: dict[str, float]
    job_money: dict[str, float]


class Diagnoser:
    """The state of one fabric's diagnosis. Same frames in, same incidents out."""

    Config = DiagnoseConfig

    def __init__(self, config: DiagnoseConfig, fabric: str, context: Context) -> None:
        """Rules are built at the first tick; nothing is imported here."""
        self.config = config
        self._fabric = fabric
        self._context = context
        self._past = Past()
        self._cost = Cost()
        self._shape: Shape | None = None
        self._rules: list[Rule] | None = None
        self._tracker: Tracker | None = None

    def diagnose(
        self, window: Window, scores: Scores, table: PortTable, topology: Topology
    ) -> Diagnosis:
        """Judge the tick that was just pushed to `window`."""
        every, tracker = self._begun()
        touched = self._touched()
        self._past.levels.update(window, touched)
        view = FabricView(
            config=self.config,
            window=window,
            scores=scores,
            table=table,
            topology=topology,
            shape=self._shape_of(table, topology),
            past=self._past,
        )
        self._past.memory.before(view)
        self._past.pace.update(view, touched)
        claims = [finding for rule in every for finding in self._ask(rule, view)]
        standing = arbitrate(claims, self.config.max_causes)
        findings = [complete(finding, view) for finding in standing]
        still, closed = tracker.update(findings, view)
        self._cost.update(tracker.tracks, view)
        self._past.memory.after(view)
        return Diagnosis(findings, still, closed, dict(self._cost.jobs), self._money())

    def _begun(self) -> tuple[list[Rule], Tracker]:
        if self._rules is None or self._tracker is None:
            self._rules = rules.make(self.config.disabled)
            early = {r.kind: n for r in self._rules if (n := getattr(r, "opens_after", 0))}
            self._tracker = Tracker(self.config, self._fabric, self._context.report, early)
        return self._rules, self._tracker

    def save(self, ids: Sequence[PortId]) -> Saved:
        """What every port has shown, every job's pace and cost, and what is open."""
        saved = Saved()
        saved.add("levels", self._past.levels.save())
        saved.add("memory", self._past.memory.save())
        saved.add("pace", self._past.pace.save(ids))
        saved.add("tracker", self._begun()[1].save(ids))
        saved.write("jobs", self._cost.jobs)
        return saved

    def restore(self, saved: Saved, table: PortTable) -> None:
        """Go on from there, for the ports of `table`.

        Raises `KeyError`, `IndexError` or `ValueError` where it does not fit.
        """
        levels = Levels.restored(saved.part("levels"))
        memory = Memory.restored(saved.part("memory"))
        self._past = Past(levels, memory, Pace.restored(saved.part("pace"), table))
        self._begun()[1].restore(saved.part("tracker"), table)
        self._cost.jobs = saved.read("jobs")
        self._shape = None

    def adopt(self, incidents: Sequence[Incident]) -> None:
        """Go on, at the next tick, with incidents that another daemon has open."""
        self._begun()[1].adopt(incidents)

    def _money(self) -> dict[str, float]:
        """What each job's stalled GPU time has cost so far."""
        hourly = self.config.price_per_gpu_hour
        return {job: s / 3600 * hourly for job, s in self._cost.jobs.items()} if hourly else {}

    def _ask(self, rule: Rule, view: FabricView) -> Sequence[Finding]:
        """A rule that fails costs only itself; outsiders' rules run here too."""
        try:
            return rule.findings(view)
        except Exception as error:  # noqa: BLE001 - a component border: counted and reported
            self._context.report.emit(
                Event.COMPONENT_FAILED, f"rule {rule.kind}", error=repr(error)
            )
            return ()

    def _touched(self) -> NDArray[np.intp]:
        """Rows of what is claimed now, at both ends of each cable: they do not teach.

        A guess that is no incident does: it may be what a job does now and then.
        """
        every = self._tracker.tracks if self._tracker is not None else ()
        tracks = [track for track in every if track.incident is not None or not track.guessed]
        rows = np.array(sorted({row for track in tracks for row in track.rows}), np.intp)
        if self._shape is None or not len(rows):
            return rows
        peers = self._shape.peer[rows]
        return np.union1d(rows, peers[peers >= 0]).astype(np.intp)

    def _shape_of(self, table: PortTable, topology: Topology) -> Shape:
        if self._shape is None or self._shape.key != (table.version, id(topology)):
            self._shape = Shape(table, topology)
        return self._shape
