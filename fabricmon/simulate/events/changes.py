"""Jobs that change, and trouble with the reading while the fabric is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from fabricmon.settings import Duration
from fabricmon.simulate.events.base import EventConfig, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.workload.jobs import Habit


class Straggler(EventConfig):
    """One rank of a job computes longer than the others, which wait for it."""

    do: Literal["straggler"]
    job: str
    host: str
    late: Duration

    def habits(self, jobs: Mapping[str, Habit]) -> None:
        """The job waits for its slowest rank."""
        jobs[self.job].late = max(jobs[self.job].late, self.late)
        jobs[self.job].late_host = self.host


class JobChange(EventConfig):
    """A job that stops, or works differently."""

    do: Literal["job"]
    job: str
    running: bool = True
    compute: float = Field(1.0, gt=0, description="factor on its compute time")
    volume: float = Field(1.0, gt=0, description="factor on what it communicates")

    def habits(self, jobs: Mapping[str, Habit]) -> None:
        """Change the job."""
        habit = jobs[self.job]
        habit.running = habit.running and self.running
        habit.compute *= self.compute
        habit.volume *= self.volume


class Collector(EventConfig):
    """Trouble with the reading: the fabric is well."""

    do: Literal["silent", "stale", "reset", "saturated", "skew"]
    device: str
    seconds: float = Field(30.0, description="skew: how far the device's clock is off")

    def changes(self, end: float) -> list[float]:
        """A reset happens once."""
        return [self.at] if self.do == "reset" and self.at < end else super().changes(end)

    def reading(self, reading: Reading, wiring: Wiring) -> None:
        """Tell the reader."""
        match self.do:
            case "silent":
                reading.silent.add(self.device)
            case "stale":
                reading.stale.add(self.device)
            case "reset":
                reading.reset.add(self.device)
            case "saturated":
                reading.stuck_at_top.update(int(p) for p in wiring.of_device(self.device))
            case "skew":
                reading.skew_s[self.device] = self.seconds
