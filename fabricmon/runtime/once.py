"""One poll of every target, for `once`, `targets` and `doctor`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon.model.stream import PollFailure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fabricmon.api import Target
    from fabricmon.collectors.guard import Guard
    from fabricmon.model.readings import Poll
    from fabricmon.runtime.assembly import Assembly


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one target gave; `poll` is None where it gave nothing, and why."""

    collector: str
    target: Target
    poll: Poll | None
    reason: str = ""
    message: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Counters that devices of its kind have and this one has not, and why."""


async def poll_once(assembly: Assembly, only: Collection[str] = ()) -> list[Outcome]:
    """Start the collectors, poll each target once, stop. Raises `LookupError` for unknown names."""
    guards = [guard for plan in assembly.fabrics.values() for guard in plan.guards]
    names = {target.name for guard in guards for target in guard.targets}
    if unknown := sorted(set(only) - names):
        raise LookupError(f"no target is called {', '.join(unknown)}")
    started: list[Guard] = []
    try:
        for guard in guards:
            await guard.start()
            started.append(guard)
        jobs = [
            _poll(guard, target)
            for guard in guards
            for target in guard.targets
            if not only or target.name in only
        ]
        return list(await asyncio.gather(*jobs))
    finally:
        for guard in started:
            await guard.stop()


async def _poll(guard: Guard, target: Target) -> Outcome:
    outcome = await guard.poll(target)
    if isinstance(outcome, PollFailure):
        return Outcome(guard.kind, target, None, outcome.reason.value, outcome.message)
    return Outcome(guard.kind, target, outcome, lacks=guard.lacking(target))
