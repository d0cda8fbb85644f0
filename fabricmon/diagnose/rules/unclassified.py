"""The forest says that a port is unlike its past and its peers, and physics agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.view import FabricView

_MOST = 8


class Unclassified:
    """A forest alarm with physical evidence that no other rule explains."""

    kind: ClassVar[str] = IncidentKind.UNCLASSIFIED
    signature: ClassVar[str] = (
        "The forest's score stays above its calibrated threshold, and the port is held back, "
        "drops, errs or marks more than ever before."
    )
    discriminator: ClassVar[str] = "No other rule claims the port or what it waits for."
    advice: ClassVar[str] = (
        "Look at the port's graphs beside its siblings of the same role; the features named in the "
        "evidence are the ones that set it apart."
    )
    limits: ClassVar[str] = (
        "Says where, not why. A score without physical evidence is never reported."
    )

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """The highest-scoring alarmed ports with evidence."""
        alarmed = np.flatnonzero(view.scores.alarm)
        evident = alarmed[self._evidence_at(view)[alarmed]]
        worst = evident[np.argsort(-view.scores.anomaly[evident], kind="stable")][:_MOST]
        return [self._finding(view, int(row)) for row in worst]

    @staticmethod
    def _evidence_at(view: FabricView) -> np.ndarray:
        levels = view.levels
        drops = np.nan_to_num(levels.now("drops")) > 2 * np.nan_to_num(levels.high("drops"))
        errors = np.nan_to_num(levels.now("errors")) > 2 * np.nan_to_num(levels.high("errors"))
        evident: np.ndarray = (view.held > 0) | drops | errors
        return evident

    def _finding(self, view: FabricView, row: int) -> Finding:
        score = float(view.scores.anomaly[row])
        port = view.table.ids[row]
        why = ", ".join(view.scores.why.get(row, ()))
        names = ("stall", "drops", "errors")
        shown = [n for n in names if np.nan_to_num(view.levels.now(n)[row]) > 0]
        return Finding(
            IncidentKind.UNCLASSIFIED,
            Verdict.FABRIC,
            Severity.MODERATE if len(shown) > 1 else Severity.MILD,
            0.4,
            (view.cause(row, 0.4),),
            view.victims([row]) if view.held[row] > 0 else (),
            (
                Evidence("anomaly_score", port.device, port.port, score, "", why),
                *(view.evidence(row, name) for name in shown),
            ),
            self.advice,
            anomaly_score=score,
            rows=(row,),
        )


RULE = Unclassified
