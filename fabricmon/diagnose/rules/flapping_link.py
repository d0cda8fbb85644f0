"""A link that goes down and comes back, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.view import FabricView


class FlappingLink:
    """Two or more downs within a short while."""

    kind: ClassVar[str] = IncidentKind.FLAPPING_LINK
    signature: ClassVar[str] = (
        "The link-down counter of an end moves repeatedly, the port's state changes, or both "
        "directions fall silent together again and again while traffic is offered."
    )
    discriminator: ClassVar[str] = (
        "Errors on a link that stays up are a degraded link. One down is maintenance or a broken "
        "cable; two or more within a score of polls is flapping."
    )
    advice: ClassVar[str] = (
        "Take the link out of service until it is repaired: reseat, clean or replace the module or "
        "cable; check both ends' firmware and the auto-negotiation and FEC settings."
    )
    limits: ClassVar[str] = (
        "Without link-down counters or port state, gaps shorter than a poll are seen only by the "
        "queues at both ends of the cable, and a silent link counts as broken only where loss or "
        "retransmission is counted: at the host itself if it is a host's."
    )

    opens_after: ClassVar[int] = 1  # it takes two downs already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per link."""
        drops = view.memory.breaks().astype(np.float32)
        both = np.fmax(drops, np.nan_to_num(view.shape.at_peer(drops)))
        rows = np.flatnonzero(both >= 2)
        found: list[Finding] = []
        seen: set[int] = set()
        for row in rows[np.argsort(-drops[rows], kind="stable")]:
            if int(row) in seen:
                continue
            peer = int(view.shape.peer[row])
            seen.update((int(row), peer))
            found.append(self._finding(view, int(row), peer, float(both[row])))
        return found

    def _finding(self, view: FabricView, row: int, peer: int, breaks: float) -> Finding:
        port = view.table.ids[row]
        ends = (row, peer) if peer >= 0 else (row,)
        victims = view.behind_break(ends)
        evidence = (
            Evidence("link_downed", port.device, port.port, breaks, "breaks, recent polls", "0"),
            view.evidence(row, "tx_use"),
            *view.tree(victims),
        )
        return Finding(
            IncidentKind.FLAPPING_LINK,
            Verdict.FABRIC,
            Severity.MODERATE,
            0.9,
            (view.cause(row, 0.9),),
            view.victims(victims),
            evidence,
            self.advice,
            rows=tuple(dict.fromkeys((*ends, *map(int, victims)))),
        )


RULE = FlappingLink
