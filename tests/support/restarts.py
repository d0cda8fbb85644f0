"""Runs that are broken off: what they go on from, and what they would have been."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon import app
from fabricmon.model.stream import Tick
from fabricmon.simulate import catalogue, load
from support.pipelines import batch, ports

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item
    from fabricmon.runtime.pipeline import Pipeline

S = 10**9
START = 1_780_000_000 * S
_AFTER = 16
"""Ticks that are looked at from the first incident on."""


@dataclass
class Story:
    """The items of a scenario by tick, and how a run that is never broken off sees them."""

    fabric: str
    ticks: list[list[Item]]
    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def opened(self) -> int:
        """The tick at which the incident was first told of."""
        return len(self.snapshots) - _AFTER + 3


def tell(name: str) -> Story:
    """A scenario, until its incident has lasted for a while."""
    simulation = load(next(s for s in catalogue() if s.name == name))
    story = Story(simulation.fabric, [[]])
    for item in simulation.items():
        story.ticks[-1].append(item)
        if isinstance(item, Tick):
            story.ticks.append([])
    pipeline = app.make_pipeline(story.fabric, app.make_context(quiet=True))
    for items in story.ticks:
        story.snapshots.append(feed(pipeline, items))
        if len(story.snapshots) >= _AFTER and story.snapshots[-_AFTER].incidents:
            break
    del story.ticks[len(story.snapshots) :]
    return story


def feed(pipeline: Pipeline, items: Iterable[Item]) -> Snapshot:
    """The snapshot of one tick's items."""
    snapshots = [pipeline.feed(item) for item in items]
    assert snapshots[-1] is not None
    return snapshots[-1]


def steady(context: Context, polls: Iterable[int], pipeline: Pipeline | None = None) -> Pipeline:
    """Two ports that move 1000 bytes a second, polled every ten seconds."""
    pipeline = pipeline or app.make_pipeline("pod", context)
    for poll in polls:
        now = START + poll * 10 * S
        pipeline.feed(batch("t", ports("leaf", "1", "2"), 5_000 + poll * 10_000, now))
        pipeline.feed(Tick(now, 10.0))
    return pipeline
