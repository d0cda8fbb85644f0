"""When an event is in force, and the hooks through which it acts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field

from fabricmon.settings import Duration, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.workload.jobs import Habit
    from fabricmon.simulate.workload.traffic import Wish

_FOREVER = 1e15


@dataclass(slots=True)
class Reading:
    """How targets are read now; ports (E) and devices by name."""

    silent: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    reset: set[str] = field(default_factory=set)
    stuck_at_top: set[int] = field(default_factory=set)
    skew_s: dict[str, float] = field(default_factory=dict)


class EventConfig(Settings):
    """When."""

    at: Duration
    lasts: Duration | None = Field(None, description="until the end where left out")

    @property
    def until(self) -> float:
        """Second at which it is over."""
        return self.at + self.lasts if self.lasts is not None else _FOREVER

    def changes(self, end: float) -> list[float]:
        """Seconds at which something changes, up to `end`."""
        return [t for t in (self.at, self.until) if t < end]

    def active(self, second: float) -> bool:
        """Whether it is in force."""
        return self.at - 1e-9 <= second < self.until - 1e-9

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Turn the knobs."""

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """Traffic it adds while active."""
        del wiring
        return []

    def habits(self, jobs: Mapping[str, Habit]) -> None:
        """How it changes jobs while active."""

    def reading(self, reading: Reading, wiring: Wiring) -> None:
        """How it changes the reading of counters while active."""
