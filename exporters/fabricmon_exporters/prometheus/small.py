"""The small families: incidents, jobs, targets, coverage. A few lines each, so plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.incident import IncidentKind
from fabricmon_exporters.prometheus.families import Metric
from fabricmon_exporters.prometheus.labels import labels, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.model.incident import Incident
    from fabricmon.model.snapshot import Snapshot

OPENED = "fabricmon_incidents_opened_total"
MAX_VICTIMS = 256
"""Victims of one incident that get a series; the rest are in the JSON."""


@dataclass(frozen=True, slots=True)
class SmallFamily(Metric):
    """A metric whose lines are made one by one."""

    labels: tuple[str, ...]


_FIL = ("fabric", "id")
_FT = ("collector", "fabric", "target")

SMALL: tuple[SmallFamily, ...] = (
    SmallFamily(
        "fabricmon_target_up",
        "gauge",
        "1 if the last poll of the target gave something",
        "targets",
        _FT,
    ),
    SmallFamily(
        "fabricmon_target_last_success_timestamp_seconds",
        "gauge",
        "When the target last gave something; a port's values are from then",
        "targets",
        _FT,
    ),
    SmallFamily(
        "fabricmon_target_poll_duration_seconds",
        "gauge",
        "How long the last poll of the target took",
        "targets",
        _FT,
    ),
    SmallFamily(
        "fabricmon_target_poll_failures_total",
        "counter",
        "Polls of the target that gave nothing, by reason",
        "targets",
        (*_FT, "reason"),
    ),
    SmallFamily(
        "fabricmon_fabric_ports",
        "gauge",
        "Ports by when they were read: in the last poll, within three (held), longer ago (silent)",
        "coverage",
        ("fabric", "state"),
    ),
    SmallFamily(
        "fabricmon_fabric_values",
        "gauge",
        "Counter values of the last tick by what is known of them",
        "coverage",
        ("fabric", "state"),
    ),
    SmallFamily(
        "fabricmon_incident_active",
        "gauge",
        "1 for every incident that is open or clearing, with its cause",
        "incidents",
        ("device", "fabric", "id", "kind", "port", "severity", "verdict"),
    ),
    SmallFamily(
        "fabricmon_incident_info",
        "gauge",
        "More about an active incident; always 1",
        "incidents",
        ("fabric", "id", "peer_device", "peer_port", "queue", "reason", "state"),
    ),
    SmallFamily(
        "fabricmon_incident_maintenance",
        "gauge",
        "1 for an active incident under declared maintenance: do not alert",
        "incidents",
        _FIL,
    ),
    SmallFamily(
        "fabricmon_incident_start_timestamp_seconds",
        "gauge",
        "When the incident began",
        "incidents",
        _FIL,
    ),
    SmallFamily(
        "fabricmon_incident_confidence_ratio",
        "gauge",
        "Share of such claims that are right, as calibrated on the simulator",
        "incidents",
        _FIL,
    ),
    SmallFamily(
        "fabricmon_incident_victims",
        "gauge",
        "Egress ports the incident holds back",
        "incidents",
        _FIL,
    ),
    SmallFamily(
        "fabricmon_incident_victim_stall_ratio",
        "gauge",
        "Stall ratio of each port the incident holds back",
        "incidents",
        ("device", "fabric", "id", "port"),
    ),
    SmallFamily(
        "fabricmon_incident_lost_bytes",
        "gauge",
        "What the held-back ports could have sent and did not, so far",
        "incidents",
        _FIL,
    ),
    SmallFamily(
        OPENED,
        "counter",
        "Incidents seen since start, by kind",
        "incidents",
        ("fabric", "kind"),
    ),
    SmallFamily(
        "fabricmon_job_stalled_gpu_seconds_total",
        "counter",
        "GPU time a job lost waiting for the network",
        "jobs",
        ("fabric", "job"),
    ),
    SmallFamily(
        "fabricmon_job_stalled_cost_total",
        "counter",
        "What that GPU time cost, in the operators' currency; only with a price per GPU hour",
        "jobs",
        ("fabric", "job"),
    ),
)


@dataclass
class Opened:
    """Counts incidents by kind, each once."""

    counts: dict[str, int] = field(default_factory=lambda: {k.value: 0 for k in IncidentKind})
    latest: dict[str, str] = field(default_factory=dict)
    """The id of the last one of a kind."""
    _active: frozenset[str] = frozenset()

    def see(self, snapshot: Snapshot) -> dict[str, int]:
        """Count what is new in `snapshot`; a copy of all counts."""
        every = (*snapshot.incidents, *snapshot.closed)
        for incident in every:
            if incident.id not in self._active:
                self.counts[incident.kind.value] += 1
                self.latest[incident.kind.value] = incident.id
        self._active = frozenset(incident.id for incident in every)
        return dict(self.counts)


def small_lines(
    snapshot: Snapshot, opened: dict[str, int], shard: tuple[int, int] | None
) -> dict[str, list[str]]:
    """Lines (with newline) by family name. What is not per port is in shard 0."""
    out: dict[str, list[str]] = {family.name: [] for family in SMALL}
    for name, label, value in _targets(snapshot, shard):
        out[name].append(f"{name}{label} {value}\n")
    if shard is None or shard[0] == 0:
        for name, label, value in (
            *_coverage(snapshot),
            *(line for incident in snapshot.incidents for line in _incident(incident)),
            *_counts(snapshot, opened),
        ):
            out[name].append(f"{name}{label} {value}\n")
    return out


def with_exemplars(fabric: str, opened: Opened) -> bytes:
    """The lines of `OPENED` for OpenMetrics: each count names the incident it counted last."""
    lines = []
    for kind, count in sorted(opened.counts.items()):
        latest = opened.latest.get(kind)
        named = f" # {labels(incident_id=latest)} 1" if latest else ""
        lines.append(f"{OPENED}{labels(fabric=fabric, kind=kind)} {count}{named}\n")
    return "".join(lines).encode()


def _targets(snapshot: Snapshot, shard: tuple[int, int] | None) -> Iterator[tuple[str, str, float]]:
    for status in snapshot.targets:
        if shard is not None and shard_of(status.target) % shard[1] != shard[0]:
            continue
        own = {"collector": status.collector, "fabric": status.fabric, "target": status.target}
        plain = labels(**own)
        yield "fabricmon_target_up", plain, int(status.up)
        if status.last_success_ns is not None:
            when = status.last_success_ns / 1e9
            yield "fabricmon_target_last_success_timestamp_seconds", plain, when
        yield "fabricmon_target_poll_duration_seconds", plain, status.last_duration_s
        for reason, count in sorted(status.failures.items()):
            yield "fabricmon_target_poll_failures_total", labels(**own, reason=reason), count


def _coverage(snapshot: Snapshot) -> Iterator[tuple[str, str, float]]:
    frame, fabric = snapshot.frame, snapshot.fabric
    present = snapshot.present[: frame.n_ports]
    fresh = int(np.count_nonzero(present & (frame.age_s <= 1.5 * frame.interval_s)))
    held = int(np.count_nonzero(present)) - fresh
    for state, count in (("fresh", fresh), ("held", held), ("silent", snapshot.silent)):
        yield "fabricmon_fabric_ports", labels(fabric=fabric, state=state), count
    for known, count in snapshot.values_by_state().items():
        text = labels(fabric=fabric, state=known.name.lower())
        yield "fabricmon_fabric_values", text, count


def _incident(incident: Incident) -> Iterator[tuple[str, str, float]]:
    own, cause = {"fabric": incident.fabric, "id": incident.id}, incident.cause
    yield (
        "fabricmon_incident_active",
        labels(
            **own,
            kind=incident.kind.value,
            verdict=incident.verdict.value,
            severity=incident.severity.value,
            device=cause.device if cause else "",
            port=cause.port if cause else "",
        ),
        1,
    )
    yield (
        "fabricmon_incident_info",
        labels(
            **own,
            reason=incident.reason,
            state=incident.state.value,
            peer_device=cause.peer_device if cause else "",
            peer_port=cause.peer_port if cause else "",
            queue=str(cause.queue) if cause and cause.queue is not None else "",
        ),
        1,
    )
    plain = labels(**own)
    if incident.maintenance:
        yield "fabricmon_incident_maintenance", plain, 1
    yield "fabricmon_incident_start_timestamp_seconds", plain, incident.started_ns / 1e9
    yield "fabricmon_incident_confidence_ratio", plain, round(float(incident.confidence), 4)
    yield "fabricmon_incident_victims", plain, len(incident.victims)
    yield "fabricmon_incident_lost_bytes", plain, round(float(incident.lost_bytes))
    victims = {(victim.device, victim.port): victim.stall_ratio for victim in incident.victims}
    hardest = sorted(victims.items(), key=lambda item: -item[1])[:MAX_VICTIMS]
    for (device, port), stall in hardest:
        where = labels(**own, device=device, port=port)
        yield "fabricmon_incident_victim_stall_ratio", where, round(float(stall), 6)


def _counts(snapshot: Snapshot, opened: dict[str, int]) -> Iterator[tuple[str, str, float]]:
    fabric = snapshot.fabric
    for kind, count in sorted(opened.items()):
        yield OPENED, labels(fabric=fabric, kind=kind), count
    for job, cost in sorted(snapshot.job_cost.items()):
        text = labels(fabric=fabric, job=job)
        yield "fabricmon_job_stalled_gpu_seconds_total", text, round(float(cost), 6)
    for job, money in sorted(snapshot.job_money.items()):
        text = labels(fabric=fabric, job=job)
        yield "fabricmon_job_stalled_cost_total", text, round(float(money), 6)
