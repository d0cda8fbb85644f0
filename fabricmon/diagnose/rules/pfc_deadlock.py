"""Ports that wait for each other in a circle: nothing moves, and nothing will."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_POLLS = 2
_STILL = 1e-3
_BLOCKED = 0.8
"""Nothing is sent at all; that the stall is not 1 exactly is the jitter of the readings."""


class PfcDeadlock:
    """A cycle of blocked ports with zero progress."""

    kind: ClassVar[str] = IncidentKind.PFC_DEADLOCK
    signature: ClassVar[str] = (
        "Egress ports of three or more switches are blocked all the time, each by the next one, "
        "the last by the first, and none of them sends a byte."
    )
    discriminator: ClassVar[str] = (
        "A cycle of *possible* dependencies is harmless, and a cycle that still moves is "
        "congestion: only zero progress on every port of it is a deadlock."
    )
    advice: ClassVar[str] = (
        "Break the cycle: take one of its links down and up, or let the PFC watchdog flush the "
        "queue. Then remove the cause: a route that goes down and up again, or a flooded MAC."
    )
    limits: ClassVar[str] = (
        "Needs the topology of the switches in the cycle. With pause frames only, a burst of "
        "pauses followed by complete silence stands for the blocked time."
    )

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per cycle."""
        still = view.polls("tx_use", _POLLS) <= _STILL
        stuck = still.all(axis=0) & (view.blocked >= _BLOCKED)
        measured = ~view.frame.ratios.estimated  # then one whole poll without a byte is enough
        stuck |= still[-1] & (np.nan_to_num(view.stall_now) >= _BLOCKED) & measured
        unread = still.all(axis=0) & (view.presumed >= _BLOCKED)
        cycles = view.graph.cycles(stuck | unread)
        return [self._finding(view, cycle) for cycle in cycles if stuck[cycle].any()]

    def _finding(self, view: FabricView, cycle: NDArray[np.intp]) -> Finding:
        read = cycle[np.isfinite(view.stall[cycle])]
        first = read[np.argsort(view.onset[read], kind="stable")]
        causes = tuple(view.cause(int(row), 0.9) for row in first[: view.config.max_causes])
        behind = np.unique(np.concatenate([view.behind(int(row)) for row in cycle]))
        victims = np.union1d(first, behind)
        evidence = [view.evidence(int(row), "stall", "below 0.95") for row in first[:6]]
        evidence += [view.evidence(int(row), "tx_use", "above 0") for row in first[:6]]
        return Finding(
            IncidentKind.PFC_DEADLOCK,
            Verdict.FABRIC,
            Severity.SEVERE,
            0.97,
            causes,
            view.victims(victims),
            tuple(evidence),
            self.advice,
            rows=(*map(int, first), *map(int, np.setdiff1d(victims, first))),
        )


RULE = PfcDeadlock
