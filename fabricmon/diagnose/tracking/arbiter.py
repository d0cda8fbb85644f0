"""Of several claims about the same trouble, keep the one that explains it best."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fabricmon.model.incident import Cause, Finding, IncidentKind, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANK = {
    kind: rank
    for rank, kind in enumerate(
        (
            IncidentKind.PFC_DEADLOCK,
            IncidentKind.FLAPPING_LINK,
            IncidentKind.LOSSLESS_MISCONFIG,
            IncidentKind.DEGRADED_LINK,
            IncidentKind.PFC_STORM,
            IncidentKind.SLOW_RECEIVER,
            IncidentKind.PATH_IMBALANCE,
            IncidentKind.OVERSUBSCRIPTION,
            IncidentKind.INCAST,
            IncidentKind.COLLECTIVE_STALL,
        )
    )
}
"""The more specific signature first: it needs more to be true."""


_ENDS = {IncidentKind.INCAST, IncidentKind.SLOW_RECEIVER, IncidentKind.PFC_STORM}
"""Kinds whose cause is the port towards a host at which chains of waiting end."""
_WAYS = {IncidentKind.PATH_IMBALANCE, IncidentKind.DEGRADED_LINK}
"""Kinds whose cause is a way through the fabric: no host is sent more, or takes less, for it."""
GUESS = 0.65
"""A claim below this confidence never takes the place of a surer one."""


def _order(finding: Finding) -> tuple[bool, int, float, int]:
    rank = _RANK.get(finding.kind, len(_RANK))
    return (finding.confidence < GUESS, rank, -finding.confidence, -len(finding.victims))


def same_place(a: Cause, b: Cause) -> bool:
    """Whether two causes mean the same device, the same port, or the two ends of one cable."""
    if not a.port or not b.port:
        return a.device == b.device
    own = (a.device, a.port)
    return own in ((b.device, b.port), (b.peer_device, b.peer_port))


def arbitrate(findings: Sequence[Finding], most_causes: int) -> list[Finding]:
    """Claims that stand, the most specific first.

    A claim falls when its cause lies among the rows of one that stands, or when they share a cause,
    or most of its rows. Its causes stay as further candidates of the one that stands. Claims about
    telemetry are about something else and always stand.
    """
    kept: list[Finding] = [f for f in findings if f.verdict is Verdict.TELEMETRY]
    for finding in sorted((f for f in findings if f.verdict is not Verdict.TELEMETRY), key=_order):
        for place, other in enumerate(kept):
            if other.verdict is not Verdict.TELEMETRY and _covers(other, finding):
                kept[place] = _with_candidates(other, finding, most_causes)
                break
        else:
            kept.append(finding)
    return kept


def _covers(standing: Finding, finding: Finding) -> bool:
    if any(same_place(a, b) for a in standing.causes[:1] for b in finding.causes[:1]):
        return True
    if _apart(standing, finding):
        return False
    inside = set(standing.rows)
    if finding.rows and finding.rows[0] in inside:
        return True
    shared = len(inside.intersection(finding.rows))
    return bool(finding.rows) and shared > len(finding.rows) // 2


def _apart(standing: Finding, finding: Finding) -> bool:
    """Whether neither can be what the other one does; whoever waits for both is shared."""
    if finding.kind in _ENDS:
        return standing.kind in _ENDS | _WAYS
    return finding.kind in _WAYS and standing.kind in _ENDS and finding.confidence >= GUESS


def _with_candidates(standing: Finding, other: Finding, most: int) -> Finding:
    causes = list(standing.causes)
    for cause in other.causes:
        if len(causes) < most and not any(same_place(cause, known) for known in causes):
            causes.append(replace(cause, confidence=cause.confidence * 0.5))
    return replace(standing, causes=tuple(causes))
