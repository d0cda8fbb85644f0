"""Findings and incidents: what fabricmon claims, with the evidence for it.

A *finding* is one rule's claim at one tick. An *incident* is a finding tracked over time. The JSON
of an incident is stable; `Incident.to_json` is its only writer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from fabricmon.model.topology import PortId


class IncidentKind(StrEnum):
    """What happened. Permanent ids."""

    INCAST = "incast"
    SLOW_RECEIVER = "slow-receiver"
    PFC_STORM = "pfc-storm"
    PFC_DEADLOCK = "pfc-deadlock"
    OVERSUBSCRIPTION = "oversubscription"
    PATH_IMBALANCE = "path-imbalance"
    DEGRADED_LINK = "degraded-link"
    FLAPPING_LINK = "flapping-link"
    LOSSLESS_MISCONFIG = "lossless-misconfig"
    COLLECTIVE_STALL = "collective-stall"
    UNCLASSIFIED = "unclassified"
    TELEMETRY_STALE = "telemetry-stale"
    COUNTER_RESET = "counter-reset"
    COUNTER_BROKEN = "counter-broken"


class Verdict(StrEnum):
    """Whose problem it is."""

    FABRIC = "fabric"
    HOST = "host"
    CONFIG = "config"
    TELEMETRY = "telemetry"
    NOT_FABRIC = "not-fabric"


class Severity(StrEnum):
    """mild = stall alone; moderate = loss, errors or a slowed job; severe = stopped."""

    MILD = "mild"
    MODERATE = "moderate"
    SEVERE = "severe"


class IncidentState(StrEnum):
    """Life of an incident."""

    OPEN = "open"
    CLEARING = "clearing"
    CLOSED = "closed"


SEVERITY_ORDER = {Severity.MILD: 0, Severity.MODERATE: 1, Severity.SEVERE: 2}


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one counter.

    `value` is the count in catalogue units, unwrapped (a level: what it showed), None where only
    the rate is remembered. `rate` is what it gained since the reading before, per second over
    `over_s` seconds; both are None where that says nothing. `state` is why: a name of
    `model.readings.State`.
    """

    at_ns: int
    value: int | float | None
    over_s: float | None = None
    rate: float | None = None
    state: str = "ok"

    def to_json(self) -> dict[str, Any]:
        """As it stands, the time as RFC 3339."""
        return {
            "at": rfc3339(self.at_ns),
            "value": self.value,
            "over_s": self.over_s,
            "rate": self.rate,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True)
class RawCounter:
    """A counter behind a number, over exactly the polls that the number stands for.

    `counter` is a catalogue id, `source` its origin in the vendor's own words (OID, path, field).
    The first sample of a count is the reading before those polls.
    """

    counter: str
    device: str
    port: str
    queue: int | None
    unit: str
    source: str
    samples: tuple[Sample, ...]

    def to_json(self) -> dict[str, Any]:
        """As it stands."""
        own = {name: getattr(self, name) for name in self.__slots__ if name != "samples"}
        return {**own, "samples": [sample.to_json() for sample in self.samples]}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number a person can check by hand.

    `counter` is a catalogue id or a ratio's name, `source` the origin in the vendor's own words,
    `expected` what a healthy port shows, `raw` the counters it is made of, `formula` how.
    """

    counter: str
    device: str
    port: str
    value: float
    unit: str
    expected: str = ""
    source: str = ""
    formula: str = ""
    raw: tuple[RawCounter, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it stands."""
        own = {name: getattr(self, name) for name in self.__slots__ if name != "raw"}
        return {**own, "raw": [counter.to_json() for counter in self.raw]}


@dataclass(frozen=True, slots=True)
class Cause:
    """The port that started it. `port` is empty where the whole device is meant."""

    device: str
    port: str = ""
    queue: int | None = None
    peer_device: str = ""
    peer_port: str = ""
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Victim:
    """A port that is held back, and for which share of the time."""

    device: str
    port: str
    stall_ratio: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's claim at one tick.

    `causes` are ranked, the first is the cause; empty means "none can be named". `rows` are port
    rows the finding stands on (cause, victims), by which the tracker recognises it again.
    """

    kind: IncidentKind
    verdict: Verdict
    severity: Severity
    confidence: float
    causes: tuple[Cause, ...]
    victims: tuple[Victim, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    reason: str = ""
    anomaly_score: float = 0.0
    rows: tuple[int, ...] = ()


@dataclass(slots=True)
class Incident:
    """A finding tracked over time. The tracker is the only one that changes it."""

    id: str
    fabric: str
    kind: IncidentKind
    reason: str
    verdict: Verdict
    severity: Severity
    state: IncidentState
    started_ns: int
    updated_ns: int
    ended_ns: int | None
    confidence: float
    causes: tuple[Cause, ...]
    victims: tuple[Victim, ...]
    evidence: tuple[Evidence, ...]
    advice: str
    anomaly_score: float
    maintenance: bool = False
    jobs: dict[str, float] = field(default_factory=dict)
    """Job name -> stalled GPU-seconds so far."""
    price_per_gpu_hour: float = 0.0
    """In the operators' currency; 0 leaves money out."""
    lost_bytes: float = 0.0
    stalled_port_seconds: float = 0.0

    @property
    def cause(self) -> Cause | None:
        """The first of the ranked causes."""
        return self.causes[0] if self.causes else None

    def sort_key(self) -> tuple[Any, ...]:
        """Worst first: open before closed, then severity, cost, victims; the id breaks ties."""
        return (
            self.state is IncidentState.CLOSED,
            -SEVERITY_ORDER[self.severity],
            -sum(self.jobs.values()),
            -self.stalled_port_seconds,
            self.started_ns,
            self.id,
        )

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form. Times are RFC 3339 UTC."""
        return {
            "id": self.id,
            "fabric": self.fabric,
            "kind": self.kind.value,
            "reason": self.reason or None,
            "verdict": self.verdict.value,
            "severity": self.severity.value,
            "state": self.state.value,
            "started_at": rfc3339(self.started_ns),
            "updated_at": rfc3339(self.updated_ns),
            "ended_at": rfc3339(self.ended_ns) if self.ended_ns is not None else None,
            "confidence": round(self.confidence, 4),
            "cause": _cause_json(self.cause) if self.cause else None,
            "causes_ranked": [
                {**_cause_json(cause), "confidence": round(cause.confidence, 4)}
                for cause in self.causes
            ],
            "victims": [
                {"device": v.device, "port": v.port, "stall_ratio": round(v.stall_ratio, 4)}
                for v in self.victims
            ],
            "jobs": [self._job_json(name) for name in sorted(self.jobs)],
            "lost_bytes": round(self.lost_bytes),
            "stalled_port_seconds": round(self.stalled_port_seconds, 3),
            "evidence": [item.to_json() for item in self.evidence],
            "advice": self.advice,
            "anomaly_score": round(self.anomaly_score, 4),
            "maintenance": self.maintenance,
        }

    def _job_json(self, name: str) -> dict[str, Any]:
        seconds = self.jobs[name]
        found: dict[str, Any] = {"name": name, "stalled_gpu_seconds": round(seconds, 3)}
        if self.price_per_gpu_hour:
            found["cost"] = round(seconds / 3600 * self.price_per_gpu_hour, 2)
        return found


def _cause_json(cause: Cause) -> dict[str, Any]:
    return {
        "device": cause.device,
        "port": cause.port or None,
        "queue": cause.queue,
        "peer_device": cause.peer_device or None,
        "peer_port": cause.peer_port or None,
    }


def incident_id(fabric: str, kind: IncidentKind, cause: Cause | None, started_ns: int) -> str:
    """12 hex digits from what makes an incident the same incident."""
    where = f"{cause.device}\0{cause.port}" if cause else ""
    text = f"{fabric}\0{kind.value}\0{where}\0{started_ns}"
    return blake2b(text.encode(), digest_size=6).hexdigest()


def rfc3339(time_ns: int) -> str:
    """Milliseconds are enough for people and exact for our ticks."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    stamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{stamp}.{rest // 1_000_000:03d}Z"


def port_id(cause: Cause | Victim) -> PortId:
    """The port a cause or victim names."""
    return PortId(cause.device, cause.port)
