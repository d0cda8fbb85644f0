"""Snapshots made by hand, for what reads them: exporters, the web server, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.counters import BY_ID, Scope
from fabricmon.model.frame import Frame, Ratios
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
)
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import PortSet
from fabricmon.model.snapshot import Scores, Snapshot, TargetStatus
from fabricmon.model.topology import (
    Job,
    Link,
    Node,
    PortFacts,
    PortId,
    Role,
    Technology,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_NS = 1_700_000_000_000_000_000

PORT_COUNTERS = ("rx_bytes", "tx_bytes", "tx_discards", "rx_errors", "tx_wait_ticks")
QUEUE_COUNTERS = ("rx_pfc_frames", "tx_pfc_frames", "rx_pfc_ns", "ecn_marked_packets")


def make_table(ports: Sequence[tuple[str, str]]) -> PortTable:
    """A table that knows these (device, port) pairs, and that they run at 400 Gb/s."""
    table = PortTable()
    rows = table.rows(PortSet(tuple(d for d, _ in ports), tuple(p for _, p in ports)))
    table.set_speed(rows, np.full(len(rows), 400e9))
    return table


def make_frame(
    n: int,
    *,
    counters: Sequence[str] = PORT_COUNTERS,
    queue_counters: Sequence[str] = QUEUE_COUNTERS,
    queues: tuple[int, ...] = (0, 3),
    stall: Sequence[float] | None = None,
    time_ns: int = START_NS,
    step: int = 1,
) -> Frame:
    """A frame in which every value is known; counter k of port i stands at (k + 1) * (i + step)."""
    k, kq, q = len(counters), len(queue_counters), len(queues)
    ids = [BY_ID[c] for c in counters]
    queue_ids = [BY_ID[c] for c in queue_counters]
    assert all(c.scope is Scope.PORT for c in ids)
    assert all(c.scope is Scope.QUEUE for c in queue_ids)
    ports = np.arange(n, dtype=np.uint64) + np.uint64(step)
    total = np.arange(1, k + 1, dtype=np.uint64)[:, None] * ports
    queue_total = np.broadcast_to(
        np.arange(1, kq + 1, dtype=np.uint64)[:, None, None] * ports[None, :, None], (kq, n, q)
    ).copy()
    share = np.zeros(n, np.float32) if stall is None else np.asarray(stall, np.float32)
    zero = np.zeros(n, np.float32)
    ratios = Ratios(
        share,
        zero.copy(),
        zero.copy(),
        zero.copy(),
        np.zeros(n, np.bool_),
        share.copy(),
        share.copy(),
        np.zeros((n, q), np.float32),
        np.zeros((n, q), np.float32),
    )
    return Frame(
        time_ns,
        10.0,
        tuple(ids),
        np.ones((k, n), np.float32),
        total,
        np.zeros((k, n), np.uint8),
        tuple(queue_ids),
        queues,
        np.ones((kq, n, q), np.float32),
        queue_total,
        np.zeros((kq, n, q), np.uint8),
        {},
        {},
        np.full(n, 10.0, np.float32),
        np.zeros(n, np.float32),
        ratios,
    )


def make_incident(
    cause: Cause | None = None, victims: Sequence[Victim] = (), **changes: Any
) -> Incident:
    """An open slow-receiver with evidence, unless `changes` say otherwise."""
    cause = cause or Cause("host1", "mlx5_0/1", 3, "leaf1", "Ethernet1", 0.9)
    values: dict[str, Any] = {
        "id": incident_id("pod1", IncidentKind.SLOW_RECEIVER, cause, START_NS),
        "fabric": "pod1",
        "kind": IncidentKind.SLOW_RECEIVER,
        "reason": "",
        "verdict": Verdict.HOST,
        "severity": Severity.MODERATE,
        "state": IncidentState.OPEN,
        "started_ns": START_NS,
        "updated_ns": START_NS + 30_000_000_000,
        "ended_ns": None,
        "confidence": 0.9,
        "causes": (cause,),
        "victims": tuple(victims),
        "evidence": (
            Evidence("stall", "leaf1", "Ethernet1", 0.83, "ratio", "below 0.02", "rx_pfc_ns"),
        ),
        "advice": "Look at the host's PCIe and memory before the network.",
        "anomaly_score": 0.97,
        "jobs": {"llm-1": 120.5},
        "lost_bytes": 4e11,
        "stalled_port_seconds": 33.0,
    }
    return Incident(**{**values, **changes})


def make_status(target: str = "leaf1", **changes: Any) -> TargetStatus:
    """A target that answers, with two time-outs in its past."""
    values: dict[str, Any] = {
        "fabric": "pod1",
        "target": target,
        "collector": "snmp",
        "up": True,
        "last_success_ns": START_NS,
        "last_duration_s": 0.25,
        "failures": {"timeout": 2},
    }
    return TargetStatus(**{**values, **changes})


def make_snapshot(
    table: PortTable,
    frame: Frame,
    *,
    fabric: str = "pod1",
    tick: int = 1,
    topology: Topology | None = None,
    incidents: Sequence[Incident] = (),
    closed: Sequence[Incident] = (),
    targets: Sequence[TargetStatus] = (),
    job_cost: Mapping[str, float] | None = None,
    job_money: Mapping[str, float] | None = None,
    anomaly: Sequence[float] | None = None,
    present: Sequence[bool] | None = None,
) -> Snapshot:
    """A snapshot of everything given; all ports present and calm otherwise."""
    n = frame.n_ports
    score = np.zeros(n, np.float32) if anomaly is None else np.asarray(anomaly, np.float32)
    here = np.ones(n, np.bool_) if present is None else np.asarray(present, np.bool_)
    return Snapshot(
        fabric,
        tick,
        table,
        topology or Topology(),
        frame,
        Scores(score, score > 0.9),
        here,
        tuple(incidents),
        tuple(closed),
        tuple(targets),
        dict(job_cost or {}),
        dict(job_money or {}),
    )


def leaf_spine(
    leaves: int, spines: int, hosts: int, technology: Technology = Technology.ROCE
) -> Topology:
    """`leaves` x `spines` with `hosts` under each leaf, one cable each, one job over all hosts."""
    nodes, links, facts = [], [], []

    def cable(a: PortId, b: PortId) -> None:
        links.append(Link(a, b, 400e9))
        facts.extend(PortFacts(end, 400e9, 400e9, 4.0, 4) for end in (a, b))

    nodes += [Node(f"spine{s}", "switch", Role.SPINE, technology) for s in range(spines)]
    names: list[str] = []
    for leaf in range(leaves):
        nodes.append(Node(f"leaf{leaf}", "switch", Role.LEAF, technology))
        for s in range(spines):
            cable(PortId(f"leaf{leaf}", f"up{s}"), PortId(f"spine{s}", f"p{leaf}"))
        for h in range(hosts):
            names.append(f"host{leaf}-{h}")
            nodes.append(Node(names[-1], "host", Role.HOST, technology))
            cable(PortId(f"leaf{leaf}", f"down{h}"), PortId(names[-1], "mlx5_0/1"))
    return Topology(tuple(nodes), tuple(links), tuple(facts), (Job("llm-1", tuple(names)),))
