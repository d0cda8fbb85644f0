"""Drive a pipeline from a recording or a simulation: faster than real time, deterministically."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fabricmon.model.incident import Incident
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item
    from fabricmon.runtime.pipeline import Pipeline


@dataclass(slots=True)
class Outcome:
    """What a run of items led to."""

    ticks: int = 0
    incidents: dict[str, Incident] = field(default_factory=dict)
    """Every incident in its last state, by id."""
    latest: Snapshot | None = None

    def worst_first(self) -> list[Incident]:
        """The incidents, worst first."""
        return sorted(self.incidents.values(), key=lambda incident: incident.sort_key())


def thinned(items: Iterable[Item], factor: int) -> Iterator[Item]:
    """The stream a poller `factor` times slower would have seen: every so many-th poll."""
    held: list[Item] = []
    ticks = 0
    for item in items:
        if isinstance(item, Topology):
            yield item
            continue
        held.append(item)
        if not isinstance(item, Tick):
            continue
        ticks += 1
        if ticks % factor == 0:
            yield from held[:-1]
            yield Tick(item.time_ns, item.interval_s * factor)
        held.clear()


def drive(
    items: Iterable[Item],
    pipeline: Pipeline,
    on_snapshot: Callable[[Snapshot], None] | None = None,
) -> Outcome:
    """Feed every item; `on_snapshot` sees each tick."""
    outcome = Outcome()
    for item in items:
        snapshot = pipeline.feed(item)
        if snapshot is None:
            continue
        outcome.ticks += 1
        outcome.latest = snapshot
        for incident in (*snapshot.incidents, *snapshot.closed):
            outcome.incidents[incident.id] = incident
        if on_snapshot is not None:
            on_snapshot(snapshot)
    return outcome
