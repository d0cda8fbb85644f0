"""One of several parallel ways is full while its siblings idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.groups import full_groups
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.groups import Group
    from fabricmon.diagnose.view import FabricView


class PathImbalance:
    """A full way beside idle ones."""

    kind: ClassVar[str] = IncidentKind.PATH_IMBALANCE
    signature: ClassVar[str] = (
        "One uplink of a device runs full and holds others back, or builds a queue, while its "
        "parallel ways have room."
    )
    discriminator: ClassVar[str] = (
        "Its siblings idle; in over-subscription they are full as well. A sibling that is down or "
        "slow is a degraded link, not an imbalance."
    )
    advice: ClassVar[str] = (
        "Look at the hash (ECMP polarisation, few large flows), at adaptive routing (off on one "
        "switch?), at rail or plane placement, and at routes that leave out a sibling."
    )
    limits: ClassVar[str] = (
        "Needs the topology. A job whose few flows always share a way shows this in its normal "
        "state too; only a clear rise over the port's own past is reported."
    )

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per group with a full way and idle ones."""
        odd = [group for group in full_groups(view) if not group.even]
        first = [group for group in odd if group.up] or odd  # what fills a way down came up first
        return [self._finding(view, group) for group in first]

    def _finding(self, view: FabricView, group: Group) -> Finding:
        full = group.full
        victims = self._victims(view, full)
        evidence = [view.evidence(int(row), "tx_use", "like its siblings") for row in full[:4]]
        idle = np.setdiff1d(group.rows, full)
        evidence += [view.evidence(int(row), "tx_use", "like its siblings") for row in idle[:6]]
        return Finding(
            IncidentKind.PATH_IMBALANCE,
            Verdict.FABRIC,
            Severity.MILD,
            0.85,
            tuple(view.cause(int(row), 0.85) for row in full[: view.config.max_causes]),
            view.victims(victims),
            (*evidence, *view.tree(victims)),
            self.advice,
            rows=tuple(dict.fromkeys(map(int, (*full, *victims, *group.rows)))),
        )

    @staticmethod
    def _victims(view: FabricView, full: NDArray[np.intp]) -> NDArray[np.intp]:
        """Whoever waits for the full ways, and for ways that they overfill further on.

        Not for a host further on: by whatever way, it is sent as much as before.
        """
        behind = view.behind_all(full)
        onward = [
            sink.victims
            for sink in view.sinks
            if not view.shape.faces_host[sink.row] and np.isin(full, sink.victims).any()
        ]
        return np.unique(np.concatenate([behind, *onward]))


RULE = PathImbalance
