"""The stream a fabric's pipeline is driven by: the same live, from a recording, or simulated.

Items come in time order. A recording is this stream written down, so its replay repeats the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fabricmon.model.readings import ReadingBatch
from fabricmon.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.errors import Reason


@dataclass(frozen=True, slots=True)
class Tick:
    """Now make a frame of what came since the last tick, and judge it."""

    time_ns: int
    interval_s: float


@dataclass(frozen=True, slots=True)
class PollFailure:
    """A target gave nothing at this time."""

    target: str
    collector: str
    reason: Reason
    time_ns: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The wall clock was found to have stepped: what was stamped before is of another time."""

    time_ns: int
    """By the new time."""
    step_ns: int
    """How far, beyond the time that passed; negative where it went back."""


Item: TypeAlias = Topology | ReadingBatch | PollFailure | ClockStep | Tick


class Source(Protocol):
    """A fabric that is not polled: a recording, a dump, a simulation."""

    fabric: str

    def items(self) -> Iterator[Item]:
        """The stream, from its start. May be called once."""
