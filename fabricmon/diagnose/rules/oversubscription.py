"""A whole group of parallel ways is full, evenly: there is simply too little of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.groups import full_groups
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.fabric.groups import Group
    from fabricmon.diagnose.view import FabricView


class Oversubscription:
    """Every way of a group is full."""

    kind: ClassVar[str] = IncidentKind.OVERSUBSCRIPTION
    signature: ClassVar[str] = (
        "All uplinks of a device (or all ways down to it) run full at the same time, evenly, far "
        "above what they usually carry, with queues or waiting ports before them."
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
        even = [group for group in full_groups(view) if group.even]
        first = [group for group in even if group.up] or even  # what fills ways down came up first
        return [self._finding(view, group) for group in first]

    def _finding(self, view: FabricView, group: Group) -> Finding:
        victims = view.behind_all(group.rows)
        evidence = [view.evidence(int(row), "tx_use", "below 0.9") for row in group.rows[:8]]
        return Finding(
            IncidentKind.OVERSUBSCRIPTION,
            Verdict.FABRIC,
            Severity.MILD,
            0.85,
            (view.device_cause(group.device, 0.85),),
            view.victims(victims),
            (*evidence, *view.tree(victims)),
            self.advice,
            rows=(*map(int, group.rows), *map(int, np.setdiff1d(victims, group.rows))),
        )


RULE = Oversubscription
