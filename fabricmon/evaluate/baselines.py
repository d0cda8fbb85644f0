"""What doing next to nothing would have scored on the same runs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from fabricmon.evaluate.figures import Figures, score
from fabricmon.evaluate.match import MERGE_POLLS
from fabricmon.evaluate.watch import Observed
from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.evaluate.watch import Run

_SEED = 20_240_524
_RANDOM_EVERY = 100
"""The random score raises one alarm in so many polls."""
_GUESS = "incast"
"""The kind a baseline names: the most frequent one."""


def baselines(runs: Sequence[Run]) -> dict[str, Figures]:
    """Figures of a random score, of an alarm that is always on, and of one threshold."""
    makers = {"random": _random, "always_on": _always_on, "one_threshold": _one_threshold}
    return {
        name: score(runs, {run.name: make(run) for run in runs}) for name, make in makers.items()
    }


def _ports(run: Run) -> list[PortId]:
    return sorted({end for link in run.topology.links for end in (link.a, link.b)})


def _random(run: Run) -> list[Observed]:
    """Any port at any time, without looking."""
    rng = random.Random(f"{_SEED}:{run.name}")  # noqa: S311 - a baseline, not a secret
    ports = _ports(run)
    polls = max(1, (run.end_ns - run.start_ns) // run.poll_ns)
    alarms = []
    for poll in range(polls):
        if ports and rng.randrange(_RANDOM_EVERY) == 0:
            at = run.start_ns + poll * run.poll_ns
            alarms.append(_alarm(at, at, (rng.choice(ports),)))
    return alarms


def _always_on(run: Run) -> list[Observed]:
    """A new alarm as soon as the last one may not be merged any more."""
    step = (MERGE_POLLS + 2) * run.poll_ns
    ports = tuple(_ports(run)) or (PortId("", ""),)
    return [_alarm(at, at, ports[:1]) for at in range(run.start_ns, run.end_ns, step)]


def _one_threshold(run: Run) -> list[Observed]:
    """Stall above two per cent for two polls; the cause is the first port that shows it."""
    gap = MERGE_POLLS * run.poll_ns
    alarms: list[Observed] = []
    first = last = 0
    held: dict[PortId, None] = {}
    for at, ports in run.alarms:
        if held and at - last > gap:
            alarms.append(_alarm(first, last, tuple(held)))
            held = {}
        first = at if not held else first
        last = at
        held.update(dict.fromkeys(ports))
    if held:
        alarms.append(_alarm(first, last, tuple(held)))
    return alarms


def _alarm(start: int, end: int, ports: tuple[PortId, ...]) -> Observed:
    return Observed(_GUESS, start, start, end, ports[:1], frozenset(ports), order=(start,))
