"""One fabric's way from readings to incidents, driven by `feed`.

    ReadingBatch -> Normalizer -> Frame -> Window -> detector -> Scores -> Diagnoser -> Snapshot

Same items in, same snapshots out: no clock is read here, and nothing depends on threads.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.interchange import read_topology, write_topology
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.snapshot import Snapshot
from fabricmon.model.stream import ClockStep, PollFailure, Tick
from fabricmon.model.topology import Topology
from fabricmon.runtime.pipeline.presence import Presence
from fabricmon.runtime.pipeline.stages import Lasting
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from fabricmon.api import Context
    from fabricmon.model.incident import Incident
    from fabricmon.model.maintenance import Maintenance
    from fabricmon.model.ports import PortTable, Saved
    from fabricmon.model.snapshot import Scores, TargetStatus
    from fabricmon.model.stream import Item
    from fabricmon.model.topology import Intent
    from fabricmon.model.window import Window
    from fabricmon.runtime.pipeline.stages import Stages

_PRESENT_POLLS = 3.5
"""A port is published until it has missed three polls."""
_MISSED_POLLS = 2.5
"""Without readings for longer than this, a narrow counter may have wrapped unseen."""
_REST_TICKS = 20
"""Rows are given back this seldom: a device that invents ports must not make every tick dear."""
_FEW_GONE = 64
"""Rows of ports long gone that are not worth the copying, unless the table is full."""


class Pipeline:
    """The state of one fabric. Not thread-safe: one caller at a time."""

    def __init__(
        self,
        fabric: str,
        stages: Stages,
        context: Context,
        *,
        intent: Intent | None = None,
        maintenance: Maintenance | None = None,
        taps: Sequence[Callable[[Item], None]] = (),
    ) -> None:
        """`taps` see every item before it is used (a recorder is one)."""
        self.fabric = fabric
        self._topology, self._shapes = Topology(), list[Topology]()
        self.ticks = 0
        self.latest: Snapshot | None = None
        self._stages = stages
        self._context = context
        self._intent = intent
        self.maintenance = maintenance
        self._taps = list(taps)
        self._presence = Presence()
        self._refused = 0
        self._named: tuple[Topology | None, NDArray[np.bool_]] = None, np.zeros(0, np.bool_)
        self._fed: Topology | None = None
        self._last = Tick(0, 1.0)
        self._rest = 0
        """Ticks until rows may be given back again."""
        self.targets: Callable[[], tuple[TargetStatus, ...]] = tuple
        """Who knows the targets' books; the daemon sets it."""

    @property
    def topology(self) -> Topology:
        """The fabric's shape. Discoveries tell it piece by piece; pieces are merged all at once."""
        self._settle_shape()
        return self._topology

    def _settle_shape(self) -> None:
        if self._shapes:
            shapes, self._shapes = self._shapes, []
            self._adopt(*shapes)

    @property
    def table(self) -> PortTable:
        """The ports of this fabric."""
        return self._stages.table

    @property
    def window(self) -> Window:
        """The recent past."""
        return self._stages.window

    def fit_with(self, executor: Executor) -> None:
        """Let the detector learn in this executor, off the path of the tick."""
        self._stages.detector.fit_with(executor)

    def inherit(self, old: Pipeline) -> None:
        """Go on where `old` was, under this pipeline's own config (a reload).

        Counters, history and topology stay; detector and diagnoser stay too unless their config
        changed, in which case they begin to learn anew.
        """
        self._stages = self._stages.inheriting(old._stages)
        self.ticks, self.latest, self.targets = old.ticks, old.latest, old.targets
        self._presence, self._refused = old._presence, old._refused
        self.maintenance = old.maintenance
        for tap in self._taps:
            tap(old.topology)
        self._adopt(old.topology)

    def adopt(self, incidents: Sequence[Incident]) -> None:
        """Go on, at the next tick, with incidents that another daemon has open."""
        self._stages.diagnoser.adopt(incidents)

    def feed(self, item: Item) -> Snapshot | None:
        """Take one item; a `Tick` gives a snapshot."""
        for tap in self._taps:
            tap(item)
        match item:
            case ReadingBatch():
                self._absorb(item)
            case Tick():
                return self._tick(item)
            case Topology():
                self._shapes.append(item)
            case ClockStep():
                self._stages.normalizer.shift(item.step_ns)
            case PollFailure():
                pass
        return None

    def save(self) -> Saved:
        """Everything that a restart should not lose, as it is now."""
        saved = self._stages.save()
        saved.add("table", self.table.save())
        saved.other["topology"] = np.frombuffer(write_topology(self.topology), np.uint8)
        tick = self._last
        about = {"ticks": self.ticks, "time_ns": tick.time_ns, "interval_s": tick.interval_s}
        saved.write("pipeline", about)
        return saved

    def restore(self, saved: Saved, now_ns: int) -> float:
        """Go on where an earlier run was when it was saved. For a pipeline that was fed nothing.

        What is normal (training rows, levels) and what is open stay whatever the age. Readings and
        the window stay while the window would still hold the last tick. Gives the age, seconds.
        Raises `KeyError`, `IndexError`, `ValueError` or `FormatError` where it does not fit; the
        pipeline is of no use then.
        """
        about = saved.read("pipeline")
        age_s = (now_ns - about["time_ns"]) / 1e9
        polls = age_s / about["interval_s"]
        table = self.table.restored(saved.part("table"))
        if any(array.shape[-1] > len(table) for array in saved.ports.values()):
            raise ValueError("the arrays are of more ports than there are names")
        stages = replace(self._stages, table=table)
        if 0 <= polls <= stages.window.capacity:
            stages = stages.recalling(saved)
            stages.normalizer.wake(now_ns, gap=polls > _MISSED_POLLS)
        else:
            stages.normalizer.restart(table)
        stages.relearn(saved)
        self._stages = stages
        topology = read_topology(saved.other["topology"].tobytes())
        for tap in self._taps:
            tap(topology)
        self._adopt(topology)
        table.recall(saved.part("table"))
        self.ticks, self._fed = int(about["ticks"]), Topology()
        return age_s

    def rediscovered(self) -> None:
        """Every target was asked since the start: what only an earlier run knew is let go."""
        jobs = self.topology.jobs
        fed, self._fed = self._fed, None
        if fed is not None and fed.nodes:
            self._topology = Topology(jobs=jobs)
            self._adopt(fed)

    def _reclaim(self) -> None:
        """Give back the rows of ports that nobody has told of for a whole window.

        A new table takes the place of the old one, which snapshots and their readers keep.
        """
        stages, frame = self._stages, self.window.frame
        self._rest -= 1
        if frame is None or self._rest > 0 or not isinstance(stages.detector, Lasting):
            return
        gone = frame.age_s > stages.window.capacity * frame.interval_s
        few = max(_FEW_GONE, len(gone) // 8) if not self.table.full else 0
        if np.count_nonzero(gone) <= few:
            return
        gone &= ~self._named_rows()
        if np.count_nonzero(gone) <= few:
            return
        self._rest = _REST_TICKS
        rows = np.flatnonzero(~gone)
        saved, facts = stages.save().only(rows), self.table.save().only(rows)
        table = self.table.restored(facts)
        table.adopt(self.topology)
        table.recall(facts)
        self._stages = replace(stages, table=table).recalling(saved)
        self._stages.relearn(saved)
        self._presence.only(rows)
        self._context.report.emit(Event.PORTS_FORGOTTEN, self.fabric, ports=int(gone.sum()))

    def _named_rows(self) -> NDArray[np.bool_]:
        """bool[N]: ports that the topology names."""
        if self._named[0] is not self.topology or len(self._named[1]) != len(self.table):
            named = np.zeros(len(self.table), np.bool_)
            ends = (end for link in self.topology.links for end in (link.a, link.b))
            for port in (*ends, *(facts.id for facts in self.topology.ports)):
                row = self.table.row(port)
                if row is not None:
                    named[row] = True
            self._named = self.topology, named
        return self._named[1]

    def forget(self, target: str) -> None:
        """A target was taken from the config: its ports are not published any more."""
        self._presence.forget(target)

    def _adopt(self, *shapes: Topology) -> None:
        if self._fed is not None:
            self._fed = self._fed.merged(*shapes)
        merged = self._topology.merged(*shapes).with_inferred_roles()
        if self._intent is not None:
            merged = merged.with_intent(self._intent)
        if merged == self._topology:
            return
        self._topology = merged
        self.table.adopt(merged)
        self._stages.normalizer.adopt(merged.intent)
        self._context.report.emit(
            Event.TOPOLOGY_CHANGED, self.fabric, nodes=len(merged.nodes), links=len(merged.links)
        )

    def _absorb(self, batch: ReadingBatch) -> None:
        if not self._topology.nodes:
            self._settle_shape()  # the first one gives ports their rows
        rows = self.table.rows(batch.ports)
        self._stages.normalizer.absorb(batch)
        if self.table.refused > self._refused:
            refused, self._refused = self.table.refused - self._refused, self.table.refused
            self._context.report.emit(Event.PORTS_REFUSED, batch.target, ports=refused)
        self._presence.hear(batch.target, rows, partial=batch.partial)

    def _tick(self, tick: Tick) -> Snapshot:
        stages, topology = self._stages, self.topology
        with self._timed("normalize"):
            frame = stages.normalizer.tick(tick.time_ns, tick.interval_s)
            stages.window.push(frame)
        with self._timed("detect"):
            scores = stages.detector.score(stages.window, self.table, topology)
        with self._timed("diagnose"):
            diagnosis = stages.diagnoser.diagnose(stages.window, scores, self.table, topology)
            stages.detector.feedback(diagnosis.findings)
        if self.maintenance is not None:
            for incident in diagnosis.open:
                incident.maintenance = self.maintenance.covers(incident, tick.time_ns)
        self._last = tick
        self._count(scores, tick)
        known = self._presence.settle(len(self.table))[: frame.n_ports]
        present = known & (frame.age_s <= _PRESENT_POLLS * tick.interval_s)
        self.ticks += 1
        self.latest = Snapshot(
            self.fabric,
            self.ticks,
            self.table,
            topology,
            frame,
            scores,
            present,
            tuple(diagnosis.open),
            tuple(diagnosis.closed),
            self.targets(),
            dict(diagnosis.job_cost),
            dict(diagnosis.job_money),
            stages.window,
            int(np.count_nonzero(known & ~present)),
        )
        self._reclaim()
        return self.latest

    def _count(self, scores: Scores, tick: Tick) -> None:
        metrics = self._context.report.metrics
        metrics.detector_learning.labels(self.fabric).set(scores.learning)
        for kind, share in scores.drift.items():
            metrics.detector_drift.labels(self.fabric, kind).set(share)
        metrics.detector_last_run.labels(self.fabric).set(tick.time_ns / 1e9)
        metrics.ports.labels(self.fabric).set(len(self.table))

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        clock = self._context.clock
        begun = clock.monotonic()
        yield
        duration = self._context.report.metrics.stage_duration.labels(self.fabric, stage)
        duration.observe(clock.monotonic() - begun)
