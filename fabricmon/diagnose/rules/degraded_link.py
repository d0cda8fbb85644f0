"""A cable that errs, loses, or runs below what it should."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.plateau import clipped_ports
from fabricmon.diagnose.past.optics import SIGNALS, Optics
from fabricmon.model.counters import BY_ID
from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.plateau import Clipped
    from fabricmon.diagnose.view import FabricView


class DegradedLink:
    """Errors without congestion, or a link slower than its peers."""

    kind: ClassVar[str] = IncidentKind.DEGRADED_LINK
    signature: ClassVar[str] = (
        "Faulty packets, symbol or uncorrected FEC errors at an end of a link; or a link whose "
        "speed is below what it can do; or one that went down and came back at once; or traffic "
        "that stands on a plateau below the link's rate with a standing queue and nobody pausing "
        "it; or light received, or errors still corrected, that get worse than they ever were."
    )
    discriminator: ClassVar[str] = (
        "Errors come without pause and without ECN. A plateau with pause from the host is a slow "
        "receiver; a plateau without it is the link."
    )
    advice: ClassVar[str] = (
        "Reseat, clean or replace the cable or module; compare speed and width of both ends with "
        "their siblings; read optical power and FEC counters of both ends."
    )
    limits: ClassVar[str] = (
        "Either end may be the bad one. Symbol errors on links with FEC are expected and ignored "
        "unless they rise far above the port's own past."
    )

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._optics = Optics()

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """Links with errors, links below their speed, plateaus, light that fades."""
        found = [*self._erring(view), *self._slow(view), *self._bounced(view)]
        found += [self._clipped(view, port) for port in clipped_ports(view) if not port.by_host]
        self._optics.update(view.frame)
        return [*found, *self._fading(view, {row for one in found for row in one.rows})]

    def _fading(self, view: FabricView, told: set[int]) -> list[Finding]:
        """Links whose light or pre-FEC errors get worse, and that lose nothing yet."""
        found = []
        for row, signal in self._optics.fading().tolist():
            if row in told:
                continue
            told |= {row, int(view.shape.peer[row])}
            port, (now, past) = view.table.ids[row], self._optics.levels(row, signal)
            name = SIGNALS[signal]
            evidence = Evidence(
                name, port.device, port.port, now, BY_ID[name].unit, f"{past:.3g} before"
            )
            finding = self._finding(view, [row], (evidence,), Severity.MILD, 0.6)
            found.append(replace(finding, reason="fading"))
        return found

    def _erring(self, view: FabricView) -> list[Finding]:
        latest = view.window.now("errors")  # one poll is enough: errors are no phase of a job
        errors = np.nan_to_num(np.fmax(view.levels.now("errors"), latest))
        past = np.nan_to_num(view.levels.high("errors"))
        share = errors / np.fmax(_packets(view), 1.0)
        bad = np.flatnonzero((share > view.config.loss) & (errors > 3 * past))
        found: list[Finding] = []
        seen: set[int] = set()
        for row in bad[np.argsort(-share[bad], kind="stable")]:
            peer = int(view.shape.peer[row])
            if int(row) in seen:
                continue
            seen.update((int(row), peer))
            ends = [int(row)] + ([peer] if peer >= 0 else [])
            evidence = [view.evidence(r, "errors", "0") for r in ends]
            found.append(self._finding(view, ends, tuple(evidence), Severity.MODERATE, 0.9))
        return found

    def _bounced(self, view: FabricView) -> list[Finding]:
        """Links that went down once and came back at once; another time, and they flap."""
        found = []
        down = view.memory.bounced() & (view.memory.breaks() > 0)
        for row in np.flatnonzero(down):
            peer = int(view.shape.peer[row])
            if peer >= 0 and down[peer] and peer < row:
                continue
            port = view.table.ids[row]
            evidence = Evidence(
                "link_downed", port.device, port.port, 1.0, "breaks, recent polls", "0"
            )
            ends = [int(row)] + ([peer] if peer >= 0 else [])
            finding = self._finding(view, ends, (evidence,), Severity.MODERATE, 0.7)
            finding = _with_victims(view, finding, view.behind_break(ends))
            found.append(replace(finding, reason="link-down"))
        return found

    def _slow(self, view: FabricView) -> list[Finding]:
        table = view.table
        found = []
        for row in np.flatnonzero(view.slow):
            port = table.ids[row]
            evidence = Evidence(
                "speed_bps",
                port.device,
                port.port,
                float(table.speed_bps[row]),
                "bits/s",
                f"{table.nominal_bps[row]:.3g}",
            )
            found.append(self._finding(view, [int(row)], (evidence,), Severity.MODERATE, 0.95))
        return [_with_victims(view, finding) for finding in found]

    def _clipped(self, view: FabricView, port: Clipped) -> Finding:
        evidence = (
            view.evidence(port.row, "tx_use", "near 1 while others wait for it"),
            view.evidence(port.row, "depth"),
            view.evidence(port.row, "ecn"),
            *view.tree(port.victims),
        )
        finding = self._finding(view, [port.row], evidence, Severity.MILD, port.confidence)
        return _with_victims(view, finding, port.victims)

    def _finding(
        self,
        view: FabricView,
        ends: list[int],
        evidence: tuple[Evidence, ...],
        severity: Severity,
        confidence: float,
    ) -> Finding:
        return Finding(
            IncidentKind.DEGRADED_LINK,
            Verdict.FABRIC,
            severity,
            confidence,
            (view.cause(ends[0], confidence),),
            (),
            evidence,
            self.advice,
            rows=tuple(ends),
        )


def _with_victims(
    view: FabricView, finding: Finding, victims: NDArray[np.intp] | None = None
) -> Finding:
    """The finding with those who wait for its link, or for what `victims` says."""
    row = finding.rows[0]
    if victims is None:
        ends = np.array([row, *([peer] if (peer := int(view.shape.peer[row])) >= 0 else [])])
        victims = view.behind_all(ends)
    rows = tuple(dict.fromkeys((*finding.rows, *map(int, victims))))
    return replace(finding, victims=view.victims(victims), rows=rows)


def _packets(view: FabricView) -> NDArray[np.float32]:
    """float32[N]: packets per second in both directions, as far as they are known."""
    rx, tx = view.frame.rate_of("rx_packets"), view.frame.rate_of("tx_packets")
    return np.nan_to_num(rx) + np.nan_to_num(tx)


RULE = DegradedLink
