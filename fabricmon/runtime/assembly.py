"""What one config asks for, built and inert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fabricmon.api import Exporter, Page, Target
    from fabricmon.collectors.guard import Guard
    from fabricmon.model.maintenance import Maintenance
    from fabricmon.model.topology import Topology
    from fabricmon.runtime.outside import Keeper
    from fabricmon.runtime.pipeline import Pipeline
    from fabricmon.settings import Settings


@dataclass(slots=True)
class FabricPlan:
    """One fabric as the config wants it."""

    pipeline: Pipeline
    guards: list[Guard]
    interval_s: float
    rediscover_s: float
    shape: tuple[Callable[[], Topology | None] | None, ...] = (None,)
    """Where the shape comes from, the last winning: None asks the devices, others read a file."""
    jobs: Callable[[], Topology | None] | None = None
    """Reads the map of jobs."""
    jobs_s: float = 60.0
    """How often the map of jobs is read."""
    close: Callable[[], None] = lambda: None
    """Called when the plan ends (its recording)."""
    keeper: Keeper | None = None
    """Saves the fabric's state, and restores it at the start."""


@dataclass(slots=True)
class Assembly:
    """Everything one config asks for, built and inert."""

    fabrics: dict[str, FabricPlan]
    exporters: dict[str, Exporter]
    settings: dict[str, Settings]
    """What each exporter was made with."""
    maintenance: Maintenance
    probe: Callable[[Target, Guard], Awaitable[Page]]
    refresh_s: float = 0.0
    """How often targets kept elsewhere are read again; 0 never."""

    def work(self) -> dict[str, list[tuple[Any, ...]]]:
        """Fabric -> what its collectors are to poll, and how."""
        return {name: [guard.key for guard in plan.guards] for name, plan in self.fabrics.items()}

    def close(self) -> None:
        """End what was opened to build it (recordings)."""
        for plan in self.fabrics.values():
            plan.close()
