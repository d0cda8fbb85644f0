"""Training jobs in time: compute, communicate, again; and who makes the others wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fabricmon.simulate.scenario import JobConfig

LEAD = 0.12
"""Share of a collective that ranks can send before the slowest one joins in."""

_NEVER = 1e18


@dataclass(slots=True)
class Habit:
    """How a job behaves now; events change it."""

    running: bool = True
    compute: float = 1.0
    """Factor on the compute time."""
    volume: float = 1.0
    """Factor on what is communicated."""
    late: float = 0.0
    """Seconds one rank takes longer than the others."""
    late_host: str = ""


@dataclass(slots=True)
class JobRun:
    """Where one job stands. `phases` of the present iteration, first is now: (group, amount).

    Amounts are seconds of compute (group empty) or seconds of communication at full speed.
    """

    config: JobConfig
    stages: tuple[str, ...]
    rng: np.random.Generator
    habit: Habit = field(default_factory=Habit)
    phases: list[tuple[str, float]] = field(default_factory=list)
    iterations: int = 0

    @property
    def group(self) -> tuple[str, str] | None:
        """The group that sends now, None while computing."""
        if not self.habit.running or not self.phases or not self.phases[0][0]:
            return None
        return (self.config.name, self.phases[0][0])

    def left(self, progress: float) -> float:
        """Seconds until this phase ends at the present progress."""
        if not self.habit.running:
            return _NEVER
        if not self.phases:
            self._next_iteration()
        name, amount = self.phases[0]
        pace = progress if name else 1.0
        return amount / pace if pace > 1e-9 else _NEVER

    def advance(self, seconds: float, progress: float) -> bool:
        """Let time pass inside the present phase; True where it ended."""
        if not self.habit.running:
            return False
        name, amount = self.phases[0]
        amount -= seconds * (progress if name else 1.0)
        if amount > 1e-9:
            self.phases[0] = (name, amount)
            return False
        self.phases.pop(0)
        if not self.phases:
            self.iterations += 1
            self._next_iteration()
        return True

    def restart(self) -> None:
        """Begin a new iteration, as after a job's start."""
        self.phases.clear()

    def _next_iteration(self) -> None:
        config, habit = self.config, self.habit
        noise = float(np.exp(self.rng.normal(0.0, config.noise)))
        compute = config.compute * habit.compute * noise
        amount = config.communicate * habit.volume
        if self.iterations == 0:  # jobs do not start in step with each other
            compute *= float(self.rng.uniform(0.05, 1.0))
        phases = [("", compute)]
        share = amount / len(self.stages)
        if habit.late > 0:
            lead = min(LEAD, 0.5)
            phases += [("early", amount * lead), ("", habit.late)]
            share = amount * (1 - lead) / len(self.stages)
        phases += [(stage, share) for stage in self.stages]
        if config.checkpoint and (self.iterations + 1) % config.checkpoint == 0:
            phases.append(("checkpoint", config.checkpoint_time))
        self.phases[:] = phases
