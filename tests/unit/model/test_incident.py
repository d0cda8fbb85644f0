"""The incident's stable JSON and its identity."""

from __future__ import annotations

from fabricmon.model.incident import (
    Cause,
    Evidence,
    Incident,
    IncidentKind,
    IncidentState,
    Severity,
    Verdict,
    Victim,
    incident_id,
    rfc3339,
)

_START = 1_780_000_230_000_000_000


def _incident(severity: Severity = Severity.MODERATE, state: str = "open") -> Incident:
    cause = Cause("leaf1", "Ethernet2", 3, "host9", "eth0", 0.91)
    return Incident(
        id=incident_id("pod", IncidentKind.INCAST, cause, _START), fabric="pod",
        kind=IncidentKind.INCAST, reason="", verdict=Verdict.FABRIC, severity=severity,
        state=IncidentState(state), started_ns=_START, updated_ns=_START + 10**9, ended_ns=None,
        confidence=0.95, causes=(cause,), victims=(Victim("spine1", "1", 0.25),),
        evidence=(Evidence("stall", "spine1", "1", 0.25, "ratio", "< 0.02", "1.3.6.1"),),
        advice="Spread the senders.", anomaly_score=0.8, jobs={"train": 12.5},
        lost_bytes=1e9, stalled_port_seconds=3.0,
    )  # fmt: skip


def test_json_has_exactly_the_promised_fields() -> None:
    """Others parse this; a field that goes or comes is a decision, not an accident."""
    expected = {
        "id", "fabric", "kind", "reason", "verdict", "severity", "state", "started_at",
        "updated_at", "ended_at", "confidence", "cause", "causes_ranked", "victims", "jobs",
        "lost_bytes", "stalled_port_seconds", "evidence", "advice", "anomaly_score",
        "maintenance",
    }  # fmt: skip
    document = _incident().to_json()
    assert expected == set(document)
    assert {
        "device": "leaf1", "port": "Ethernet2", "queue": 3, "peer_device": "host9",
        "peer_port": "eth0",
    } == document["cause"]  # fmt: skip
    assert [{"name": "train", "stalled_gpu_seconds": 12.5}] == document["jobs"]
    assert "2026-05-28T20:30:30.000Z" == document["started_at"]


def test_the_id_follows_from_fabric_kind_cause_and_start() -> None:
    """The same incident has the same id in a replay; another start is another incident."""
    cause = Cause("leaf1", "1")
    same = incident_id("f", IncidentKind.INCAST, cause, 1)
    assert same == incident_id("f", IncidentKind.INCAST, Cause("leaf1", "1", 3), 1)
    assert same != incident_id("f", IncidentKind.INCAST, cause, 2)
    assert same != incident_id("f", IncidentKind.SLOW_RECEIVER, cause, 1)


def test_worst_first() -> None:
    """Open before closed, severe before mild."""
    severe, mild = _incident(Severity.SEVERE), _incident(Severity.MILD)
    closed = _incident(Severity.SEVERE, "closed")
    ordered = sorted([closed, mild, severe], key=lambda incident: incident.sort_key())
    assert [severe, mild, closed] == ordered


def test_times_are_utc_with_milliseconds() -> None:
    """RFC 3339, also before the epoch's round seconds."""
    assert "1970-01-01T00:00:01.500Z" == rfc3339(1_500_000_000)
