"""The forest says that a port is unlike its past and its peers, and physics agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.plateau import CLEAR
from fabricmon.diagnose.past.levels import PAST
from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_MOST = 8


class Unclassified:
    """A forest alarm with physical evidence that no other rule explains."""

    kind: ClassVar[str] = IncidentKind.UNCLASSIFIED
    signature: ClassVar[str] = (
        "The forest's score stays above its calibrated threshold, and the port drops or errs more "
        "than twice as much as ever, or waits a fifth more of its time."
    )
    discriminator: ClassVar[str] = "No other rule claims the port or what it waits for."
    advice: ClassVar[str] = (
        "Look at the port's graphs beside its siblings of the same role; the features named in the "
        "evidence are the ones that set it apart."
    )
    limits: ClassVar[str] = (
        "Says where, not why. A score without physical evidence is never reported."
    )

    opens_after: ClassVar[int] = 5  # a job that begins a new phase is over its first bursts by then

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """The highest-scoring alarmed ports with evidence, those that wait for one port as one."""
        alarmed = np.flatnonzero(view.scores.alarm)
        evident = alarmed[self._evidence_at(view)[alarmed]]
        worst = evident[np.argsort(-view.scores.anomaly[evident], kind="stable")]
        found = []
        for sink in view.sinks:
            behind = np.isin(worst, sink.victims)
            if behind.any():
                found.append(self._finding(view, sink.row, int(worst[behind][0]), sink.victims))
                worst = worst[~behind]
        alone = worst[: max(0, _MOST - len(found))]
        return found + [self._finding(view, int(r), int(r), view.behind(int(r))) for r in alone]

    @staticmethod
    def _evidence_at(view: FabricView) -> np.ndarray:
        levels = view.levels
        drops = np.nan_to_num(levels.now("drops")) > 2 * np.nan_to_num(levels.high("drops"))
        errors = np.nan_to_num(levels.now("errors")) > 2 * np.nan_to_num(levels.high("errors"))
        evident: np.ndarray = drops | errors
        if not view.scores.learning and levels.ticks >= PAST:
            evident |= view.held >= CLEAR  # before that, nobody knows what a port usually waits
        return evident

    def _finding(
        self, view: FabricView, row: int, alarmed: int, victims: NDArray[np.intp]
    ) -> Finding:
        """The cause is `row`, where the chain of the `alarmed` port ends."""
        score = float(view.scores.anomaly[alarmed])
        port = view.table.ids[alarmed]
        why = ", ".join(view.scores.why.get(alarmed, ()))
        names = ("stall", "drops", "errors")
        shown = [n for n in names if np.nan_to_num(view.levels.now(n)[alarmed]) > 0]
        return Finding(
            IncidentKind.UNCLASSIFIED,
            Verdict.FABRIC,
            Severity.MODERATE if len(shown) > 1 else Severity.MILD,
            0.4,
            (view.cause(row, 0.4),),
            view.victims(victims),
            (
                Evidence("anomaly_score", port.device, port.port, score, "", why),
                *(view.evidence(alarmed, name) for name in shown),
                *view.tree(victims),
            ),
            self.advice,
            anomaly_score=score,
            rows=tuple(dict.fromkeys((row, alarmed, *map(int, victims)))),
        )


RULE = Unclassified
