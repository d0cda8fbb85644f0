"""What can happen in a scenario: faults, harmless changes, and trouble with the reading itself.

Each class is one value of `do:`; its fields are what the file may say, and its methods turn the
knobs of the fabric (`touch`), add traffic (`wishes`), change jobs (`habits`) or how counters are
read (`reading`). The engine knows none of them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabricmon.simulate.events.base import EventConfig, Reading
from fabricmon.simulate.events.changes import Collector, JobChange, Straggler
from fabricmon.simulate.events.settings import (
    Degrade,
    Ecn,
    GlobalPause,
    LinkDown,
    OneCard,
    Pfc,
    Pin,
    Priority,
    SlowReceiver,
)
from fabricmon.simulate.events.traffic import Incast, Load, Loop

__all__ = [
    "AnyEvent",
    "Collector",
    "Degrade",
    "Ecn",
    "EventConfig",
    "GlobalPause",
    "Incast",
    "JobChange",
    "LinkDown",
    "Load",
    "Loop",
    "OneCard",
    "Pfc",
    "Pin",
    "Priority",
    "Reading",
    "SlowReceiver",
    "Straggler",
]

AnyEvent = Annotated[
    Incast
    | SlowReceiver
    | Degrade
    | LinkDown
    | Pin
    | OneCard
    | Load
    | Pfc
    | Ecn
    | Priority
    | GlobalPause
    | Loop
    | Straggler
    | JobChange
    | Collector,
    Field(discriminator="do"),
]
"""Whatever a scenario may list under `events`."""
