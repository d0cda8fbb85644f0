"""A host that pauses its switch port without a break: nothing gets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.past.levels import SPAN
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.view import FabricView

_SILENT = 0.01
_JITTER = 0.03
"""How far readings that are not taken exactly a poll apart make a mean of one fall short."""


class PfcStorm:
    """Paused for more than 99 % of the interval, with backlog, and nothing sent."""

    kind: ClassVar[str] = IncidentKind.PFC_STORM
    signature: ClassVar[str] = (
        "A switch port towards a host is paused for more than 99 % of several intervals in a row, "
        "has data waiting, and sends nothing."
    )
    discriminator: ClassVar[str] = (
        "A slow receiver still takes something. A deadlock is a cycle of switch ports. On "
        "InfiniBand the same stays `slow-receiver`, severe."
    )
    advice: ClassVar[str] = (
        "Take the host's port down or drain the host now: the pause spreads through the fabric. "
        "Then look for a hung NIC or a dead host; enable the PFC watchdog on switch ports towards "
        "hosts and the NIC's own storm prevention."
    )
    limits: ClassVar[str] = (
        "With pause frames only, a steady stream of refreshes and no bytes sent stand for the time."
    )

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per port that a host has stopped altogether."""
        sent = view.polls("tx_use", SPAN)
        with_host = view.shape.faces_host & ~view.table.infiniband
        stopped = (view.stall >= view.config.continuous - _JITTER) & (sent <= _SILENT).all(axis=0)
        rows = np.flatnonzero(
            stopped & with_host & (view.pause_evident | ~view.frame.ratios.estimated)
        )
        return [self._finding(view, int(row)) for row in rows]

    def _finding(self, view: FabricView, row: int) -> Finding:
        host = int(view.shape.peer[row])
        victims = view.behind(row)
        return Finding(
            IncidentKind.PFC_STORM,
            Verdict.HOST,
            Severity.SEVERE,
            0.97,
            (view.cause(host, 0.97),),
            view.victims(victims),
            (
                view.evidence(row, "stall", "below 0.99"),
                view.evidence(host, "press", "below 0.99"),
                view.evidence(row, "tx_use", "above 0 while data waits"),
                view.evidence(row, "rx_pause"),
                view.evidence(host, "tx_pause"),
                *view.tree(victims[victims != row]),
            ),
            self.advice,
            rows=(host, *map(int, victims)),
        )


RULE = PfcStorm
