"""How far a confidence can be believed: what share of the incidents told with so much was right."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fabricmon.evaluate.match import GRACE_POLLS, Cables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.evaluate.watch import Observed, Run

_EDGES = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Band:
    """Incidents told with a confidence in (low, high]: their mean, and the share that was right."""

    low: float
    high: float
    count: int
    told: float
    right: float


def reliability(runs: Iterable[Run]) -> list[Band]:
    """Every incident about the fabric, fragments too; bands without one are left out."""
    judged = [judgement for run in runs for judgement in _judged(run)]
    bands = []
    for low, high in pairwise(_EDGES):
        inside = [(told, right) for told, right in judged if low < told <= high]
        if inside:
            told, right = (sum(values) / len(inside) for values in zip(*inside, strict=True))
            bands.append(Band(low, high, len(inside), told, right))
    return bands


def _judged(run: Run) -> list[tuple[float, bool]]:
    cables = Cables(run)
    about = (event for event in run.observed if not event.telemetry)
    return [(event.confidence, _is_right(event, run, cables)) for event in about]


def _is_right(event: Observed, run: Run, cables: Cables) -> bool:
    """Whether some fault of that time has this cause and this kind.

    Where the label names no cause, or `unclassified` names no kind, the other one decides. The
    trigger of a fault is right, too: it is there.
    """
    for label in run.labels:
        until = label.end_ns + GRACE_POLLS * run.poll_ns
        if event.opened_ns > until or event.end_ns < label.start_ns:
            continue
        kinds = {label.kind, label.trigger, *label.accept, "unclassified"}
        named = bool(event.causes) and cables.right(event.causes[0], label)
        if event.kind in kinds and (named or not label.causes or event.kind == label.trigger):
            return True
    return False
