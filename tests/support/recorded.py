"""What a daemon recorded, and the frames that become of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.api import Context
from fabricmon.clock import SystemClock
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.normalize import Normalizer
from fabricmon.record import Recording
from fabricmon.selfmon import Reporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fabricmon.model.frame import Frame
    from fabricmon.model.ports import PortTable
    from fabricmon.model.stream import Item


def recorded(folder: Path) -> list[Item]:
    """All items, in order, of the one fabric that a daemon recorded below its `directory`."""
    return list(Recording(sorted(folder.iterdir()), Reporter(SystemClock())).items())


def frames(items: Iterable[Item], table: PortTable) -> Iterator[Frame]:
    """Each tick's, as the daemon had it; ports get their rows in `table`."""
    clock = SystemClock()
    normalizer = Normalizer(table, "fabric", Context(clock, Reporter(clock)))
    for item in items:
        if isinstance(item, ReadingBatch):
            normalizer.absorb(item)
        elif isinstance(item, Tick):
            yield normalizer.tick(item.time_ns, item.interval_s)
