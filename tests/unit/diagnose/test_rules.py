"""Each kind on a tiny fabric whose counters are set by hand: signature, and what must not be it."""

from __future__ import annotations

from support.fabrics import ROCE, Run, calm, leaf_spine, only

from fabricmon.diagnose import DiagnoseConfig
from fabricmon.diagnose.rules import catalogue
from fabricmon.model.incident import IncidentKind, Severity
from fabricmon.model.readings import State
from fabricmon.model.topology import PortId, Technology

SINK, FEED = PortId("leaf0", "d0"), PortId("spine0", "p0")
CYCLE = [
    PortId("leaf0", "u0"),
    PortId("spine0", "p1"),
    PortId("leaf1", "u1"),
    PortId("spine1", "p0"),
]


def test_every_kind_has_a_rule_that_explains_itself() -> None:
    """The catalogue covers all kinds; each names signature, discriminator, advice and limits."""
    rules = catalogue()
    assert set(rules) == {kind.value for kind in IncidentKind}
    for kind, rule in rules.items():
        for text in (rule.signature, rule.discriminator, rule.advice, rule.limits):
            assert len(text) > 40, kind


def test_a_storm_is_a_host_that_stops_its_port_altogether() -> None:
    """Paused all the time and nothing sent is a storm on RoCE, a slow receiver on InfiniBand."""
    values = {"stall": {SINK: 1.0, FEED: 0.5}, "tx_use": {SINK: 0.0}, "rx_pfc_frames": {SINK: 900}}
    storm = only(calm(leaf_spine()), values)
    assert (storm.kind, storm.severity) == (IncidentKind.PFC_STORM, Severity.SEVERE)
    slow = only(calm(leaf_spine(technology=Technology.INFINIBAND)), values)
    assert (slow.kind, slow.severity) == (IncidentKind.SLOW_RECEIVER, Severity.SEVERE)


def test_a_cycle_without_progress_is_a_deadlock_and_one_that_moves_is_not() -> None:
    """Zero bytes on every port of the cycle is what makes the difference."""
    stuck = {"stall": dict.fromkeys(CYCLE, 1.0), "tx_use": dict.fromkeys(CYCLE, 0.0)}
    dead = only(calm(leaf_spine()), stuck)
    assert (dead.kind, dead.severity) == (IncidentKind.PFC_DEADLOCK, Severity.SEVERE)
    assert (dead.causes[0].device, dead.causes[0].port) in CYCLE
    moving = {"stall": dict.fromkeys(CYCLE, 0.9), "tx_use": dict.fromkeys(CYCLE, 0.05)}
    kinds = {i.kind for i in calm(leaf_spine()).ticks(8, moving).open}
    assert IncidentKind.PFC_DEADLOCK not in kinds


def test_hosts_that_fall_silent_before_a_deadlock_are_its_victims() -> None:
    """Where pauses are only counted, the one that stops a host for good is one among many."""
    hosts = [PortId(f"h{leaf}-{n}", "nic") for leaf in (0, 1) for n in range(4)]
    run = calm(leaf_spine(leaves=3), frames_only=True)
    surge = {"rx_pfc_frames": dict.fromkeys(CYCLE, 5000.0), "stall": dict.fromkeys(CYCLE, 0.6)}
    run.tick(surge)
    found = only(run, {"tx_use": dict.fromkeys([*CYCLE, *hosts], 0.0)})
    assert found.kind is IncidentKind.PFC_DEADLOCK
    assert {(v.device, v.port) for v in found.victims} == {*CYCLE, *hosts}


def test_evenly_full_uplinks_are_oversubscription_of_their_device() -> None:
    """All ways full: the device; the cause has no port."""
    ways = [PortId("leaf1", "u0"), PortId("leaf1", "u1")]
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    values = {"tx_use": dict.fromkeys(ways, 1.0), "stall": dict.fromkeys(hosts, 0.4)}
    found = only(calm(leaf_spine()), values)
    assert found.kind is IncidentKind.OVERSUBSCRIPTION
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("leaf1", "")


def test_two_incasts_whose_victims_are_the_same_are_two_incidents() -> None:
    """Senders that wait for both do not make one of two full ports."""
    busy = [PortId("leaf0", "d0"), PortId("leaf2", "d0")]
    senders = [PortId(f"h1-{n}", "nic") for n in range(4)] + [PortId("leaf1", "u0")]
    up = [PortId(f"spine{s}", p) for s in range(2) for p in ("p0", "p2")]
    values = {"tx_use": dict.fromkeys(busy, 1.0), "stall": dict.fromkeys(senders + up, 0.5)}
    found = calm(leaf_spine()).ticks(8, values).open
    causes = {(i.cause.device, i.cause.port) for i in found if i.cause is not None}
    assert [i.kind for i in found] == [IncidentKind.INCAST] * 2
    assert causes == set(busy)


def test_a_port_that_fills_as_never_before_is_an_incast_though_nobody_waits_long() -> None:
    """Congestion control spares the others; where many ports of a device fill, so its jobs send.

    Where nobody waits at all, a port is only used more than it used to be.
    """
    ports = [PortId("leaf0", f"d{n}") for n in range(4)]
    for full in (ports[:1], ports[:2]):
        values = {
            "tx_use": dict.fromkeys(full, 0.95),
            "queue_depth_bytes": dict.fromkeys(full, 250_000.0),
            "ecn_marked_packets": dict.fromkeys(full, 500_000.0),
        }
        waits = values | {"stall": {FEED: 0.01}}
        told = calm(leaf_spine(intent=ROCE)).ticks(12, waits).open
        assert [i.kind for i in told] == [IncidentKind.INCAST][: 2 - len(full)]
        assert not calm(leaf_spine(intent=ROCE)).ticks(12, values).open


def test_a_queue_that_is_marked_makes_an_incast_of_a_port_that_is_not_quite_full() -> None:
    """Senders that heed the marks leave a little of the port idle, and few are held back."""
    values = {
        "stall": {FEED: 0.1},
        "queue_depth_bytes": {SINK: 250_000},
        "ecn_marked_packets": {SINK: 500_000.0},
    }
    run = calm(leaf_spine())
    for poll in range(12):
        run.tick(values | {"tx_use": {SINK: 0.95 if poll % 2 else 0.75}})
    found = only(run, values | {"tx_use": {SINK: 0.95}}, 1)
    assert found.kind is IncidentKind.INCAST
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == SINK


def test_an_impossible_rate_is_a_broken_counter() -> None:
    """It is told as telemetry, after it has lasted."""
    run = calm(leaf_spine(), 10)
    found = only(run, None, 4, states={SINK: State.OVER_RATE})
    assert (found.kind, found.reason) == (IncidentKind.COUNTER_BROKEN, "over-rate")


def test_a_kind_that_is_switched_off_is_not_looked_for() -> None:
    """`disabled` in the config takes a rule out."""
    run = Run(leaf_spine(), DiagnoseConfig(disabled=("degraded-link", "unclassified")))
    run.ticks(20)
    assert not run.ticks(6, {"rx_errors": {SINK: 4_000.0}}).open
