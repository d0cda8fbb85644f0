"""A whole group of parallel ways is full, evenly: there is simply too little of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.groups import crowded_groups, first_full
from fabricmon.diagnose.past.levels import PAST
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.fabric.groups import Group
    from fabricmon.diagnose.view import FabricView

_FULL, _CROWDED = 0.85, 0.6
"""Confidence in a group that is seen full, and in one before which many wait."""


class Oversubscription:
    """Every way of a group is full."""

    kind: ClassVar[str] = IncidentKind.OVERSUBSCRIPTION
    signature: ClassVar[str] = (
        "All uplinks of a device (or all ways down to it) run full at the same time, evenly, far "
        "above what they usually carry, with queues or waiting ports before them. Where polls are "
        "longer than bursts: pressure ends evenly at all its uplinks, which carry far more than "
        "usual, and than those of other devices."
    )
    discriminator: ClassVar[str] = (
        "Evenly full is over-subscription; one full way beside idle ones is a path imbalance."
    )
    advice: ClassVar[str] = (
        "Place the job so that less of its traffic crosses this tier, or add uplinks. Check that "
        "no uplink of the group is down: the rest then carries its share."
    )
    limits: ClassVar[str] = "Needs at least two parallel ways that are both read."

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per group that is evenly full."""
        full = view.full_groups
        even = [group for group in full if group.even]
        first = [group for group in even if group.up] or even  # what fills ways down came up first
        found = [self._finding(view, group, _FULL) for group in first]
        if view.levels.ticks < PAST // 3:  # what a job does now and then is no crowd
            return found
        told = {group.device for group in full}
        crowded = [group for group in crowded_groups(view) if group.device not in told]
        return [*found, *(self._finding(view, group, _sure(view, group)) for group in crowded)]

    def _finding(self, view: FabricView, group: Group, confidence: float) -> Finding:
        victims = view.behind_all(group.rows)
        evidence = [view.evidence(int(row), "tx_use", "below 0.9") for row in group.rows[:8]]
        return Finding(
            IncidentKind.OVERSUBSCRIPTION,
            Verdict.FABRIC,
            Severity.MILD,
            confidence,
            (view.device_cause(group.device, confidence),),
            view.victims(victims),
            (*evidence, *view.tree(victims)),
            self.advice,
            rows=(*map(int, group.rows), *map(int, np.setdiff1d(victims, group.rows))),
        )


def _sure(view: FabricView, group: Group) -> float:
    """Confidence in a crowded group: every way of it may be full by now, as never in a poll."""
    return _FULL if first_full(view)[group.rows].all() else _CROWDED


RULE = Oversubscription
