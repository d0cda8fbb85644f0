"""The first kinds on a tiny fabric whose counters are set by hand."""

from __future__ import annotations

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.model.frame import PAUSE_BITS
from fabricmon.model.incident import IncidentKind, IncidentState, Severity, Verdict
from fabricmon.model.readings import State
from fabricmon.model.topology import PortId

SINK = PortId("leaf0", "d0")
INCAST = {
    "tx_use": {SINK: 1.0, PortId("spine0", "p0"): 0.5},
    "stall": {
        PortId("spine0", "p0"): 0.5,
        PortId("leaf1", "u0"): 0.6,
        PortId("leaf2", "u0"): 0.6,
        PortId("h1-0", "nic"): 0.2,
        PortId("h2-0", "nic"): 0.2,
    },
    "queue_depth_bytes": {SINK: 250_000},
    "ecn_marked_packets": {SINK: 20_000},
}


def test_incast_names_the_full_port_and_everybody_behind_it() -> None:
    """The cause of an incast is the port at line rate, its victims are all ports held back."""
    run = Run(leaf_spine())
    run.ticks(20)
    (incident,) = run.ticks(4, INCAST).open
    assert incident.kind is IncidentKind.INCAST
    assert incident.verdict is Verdict.FABRIC
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == SINK
    assert (incident.cause.peer_device, incident.cause.peer_port) == ("h0-0", "nic")
    victims = {(v.device, v.port) for v in incident.victims}
    assert victims == set(INCAST["stall"])


def test_a_port_held_by_its_host_makes_the_host_the_cause() -> None:
    """A sink that a host holds back is a slow receiver, and the cause is the host's own port."""
    run = Run(leaf_spine())
    run.ticks(20)
    stall = {SINK: 0.7, PortId("spine0", "p0"): 0.3, PortId("leaf1", "u0"): 0.2}
    (incident,) = run.ticks(4, {"stall": stall, "tx_use": {SINK: 0.3}}).open
    assert incident.kind is IncidentKind.SLOW_RECEIVER
    assert incident.verdict is Verdict.HOST
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == ("h0-0", "nic")
    assert {(v.device, v.port) for v in incident.victims} == set(stall)


def test_errors_without_congestion_are_a_degraded_link() -> None:
    """Faulty packets at one end of a cable are a degraded link without victims."""
    run = Run(leaf_spine())
    run.ticks(20)
    (incident,) = run.ticks(4, {"rx_errors": {PortId("leaf1", "u1"): 3000.0}}).open
    assert incident.kind is IncidentKind.DEGRADED_LINK
    assert incident.severity is Severity.MODERATE
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == ("leaf1", "u1")
    assert incident.victims == ()


def test_what_happens_in_every_iteration_is_no_incident() -> None:
    """Congestion that a port has always shown opens nothing, however long it goes on."""
    run = Run(leaf_spine())
    tides = [{**INCAST, "stall": {p: s * 0.3 for p, s in INCAST["stall"].items()}}, {}, {}]
    diagnoses = [run.tick(tides[i % 3]) for i in range(120)]
    assert all(not d.open for d in diagnoses[30:])


def test_a_silent_device_is_stale_telemetry() -> None:
    """A device without a reading for several polls is reported as telemetry, not as traffic."""
    run = Run(leaf_spine())
    run.ticks(10)
    ages = {PortId("leaf2", name): 9.0 for name in ("d0", "d1", "d2", "d3", "u0", "u1")}
    (incident,) = run.ticks(2, ages=ages).open
    assert incident.kind is IncidentKind.TELEMETRY_STALE
    assert incident.verdict is Verdict.TELEMETRY
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == ("leaf2", "")


def test_a_reset_seen_on_many_devices_is_one_event_of_the_fabric() -> None:
    """A foreign reset of the whole fabric is one incident without a cause port, and no anomaly."""
    run = Run(leaf_spine())
    run.ticks(10)
    states = dict.fromkeys(run.table.ids, State.RESET)
    (incident,) = run.tick(states=states).open
    assert incident.kind is IncidentKind.COUNTER_RESET
    assert incident.reason == "fabric-wide"
    assert incident.cause is None


def test_an_incident_clears_with_hysteresis_and_keeps_its_id() -> None:
    """A finding that goes away for a few polls and comes back is the same incident."""
    run = Run(leaf_spine())
    run.ticks(40)
    (incident,) = run.ticks(4, INCAST).open
    first = incident.id
    (clearing,) = run.ticks(5).open
    assert (clearing.id, clearing.state) == (first, IncidentState.CLEARING)
    (again,) = run.ticks(3, INCAST).open
    assert (again.id, again.state) == (first, IncidentState.OPEN)
    closed = [c for _ in range(20) for c in run.tick().closed]
    assert [(c.id, c.state) for c in closed] == [(first, IncidentState.CLOSED)]
    assert closed[0].ended_ns is not None


def test_a_forest_alarm_needs_physical_evidence() -> None:
    """A high score alone is never an incident; with stall behind it, it is `unclassified`."""
    run = Run(leaf_spine())
    run.ticks(20)
    odd = PortId("leaf1", "u0")
    run.alarms[odd] = 0.9
    assert not run.ticks(6).open
    dropped = run.ticks(6, {"tx_discards": {odd: 50.0}}).open
    assert [i.kind for i in dropped] == [IncidentKind.UNCLASSIFIED]
    assert dropped[0].anomaly_score > 0.5


@pytest.mark.parametrize(
    ("waits", "stays", "told"), [(0.35, True, True), (0.35, False, False), (0.1, True, False)]
)
def test_waiting_that_no_rule_describes_is_told_where_it_is_much_and_stays(
    waits: float, stays: bool, told: bool
) -> None:
    """A tenth of the time is no matter for a guess, nor is an end of pressure that moves about."""
    run = Run(leaf_spine())
    run.ticks(100)
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    run.alarms = dict.fromkeys(hosts, 0.9)
    for tick in range(16):
        end = PortId("leaf1", "u0" if stays or tick // 3 % 2 else "u1")
        found = run.tick({"stall": dict.fromkeys(hosts, waits), "tx_use": {end: 0.62}}).open
    assert [i.kind for i in found] == [IncidentKind.UNCLASSIFIED] * told


@pytest.mark.parametrize("idle", [1.0, 0.02])
def test_two_polls_are_enough_where_no_poll_was_ever_full(idle: float) -> None:
    """Polls longer than the bursts of a job are steady; shorter ones are full every iteration."""
    ways = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    full = {"tx_use": dict(zip(ways, (1.0, idle), strict=True)), "stall": dict.fromkeys(hosts, 0.4)}
    steady, bursts = Run(leaf_spine()), Run(leaf_spine())
    steady.ticks(40)
    for poll in range(40):
        bursts.tick({"tx_use": dict.fromkeys(ways, (1.0, 0.0, 0.0, 0.6)[poll % 4])})
    assert not steady.tick(full).open
    kind = IncidentKind.OVERSUBSCRIPTION if idle == 1.0 else IncidentKind.PATH_IMBALANCE
    assert [i.kind for i in steady.tick(full).open] == [kind]
    assert kind not in {i.kind for i in bursts.ticks(2, full).open}


@pytest.mark.parametrize("kept", [0.02, 0.25])
def test_a_way_that_was_left_shows_however_little_still_goes_through(kept: float) -> None:
    """A host that takes next to nothing slows every sender alike, and both ways with them."""
    way, idle = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    stall = dict.fromkeys([SINK, way, PortId("spine0", "p0"), *hosts], 0.9)
    use = dict.fromkeys([SINK, *hosts], 0.04) | {way: 0.08 - 0.16 * kept, idle: 0.16 * kept}
    run = Run(leaf_spine())
    run.ticks(40)
    found = run.ticks(8, {"tx_use": use, "stall": stall}).open
    told = {i.kind: (i.cause.device, i.cause.port) for i in found if i.cause is not None}
    left = {IncidentKind.PATH_IMBALANCE: way} if kept < 0.1 else {}
    assert told == {IncidentKind.SLOW_RECEIVER: ("h0-0", "nic"), **left}


def test_a_slow_host_is_found_though_its_job_rests_in_some_polls_more_than_in_others() -> None:
    """A queue stands, the port is clipped, and its host asks it to stop now and then."""
    run = Run(leaf_spine())
    run.ticks(40)
    slow = {"queue_depth_bytes": {SINK: 2e5}, "ecn_marked_packets": {SINK: 9_000}}
    slow["rx_pfc_frames"] = {SINK: 40.0}
    for poll in range(8):
        found = run.tick(slow | {"tx_use": {SINK: (0.15, 0.23)[poll % 2]}}).open
    assert [i.kind for i in found] == [IncidentKind.SLOW_RECEIVER]


def test_few_pauses_are_long_ones_where_a_queue_cannot_leave_meanwhile() -> None:
    """Frames tell how often, not how long: a queue that stands beside an idle link tells it."""
    longest = (
        100e9 / PAUSE_BITS
    )  # so many frames a second can hold a port of this speed for all of it
    few = {"rx_pfc_frames": {SINK: 0.2 * longest}, "tx_use": {SINK: 0.3}, "stall": {SINK: 0.01}}
    waits = {"queue_depth_bytes": {SINK: 250_000.0}}
    alone, stands = (Run(leaf_spine(), frames_only=True) for _ in range(2))
    for run in (alone, stands):
        run.ticks(40)
    assert not alone.ticks(8, few).open
    (incident,) = stands.ticks(2, few | waits).open
    assert incident.kind is IncidentKind.SLOW_RECEIVER
    (victim,) = incident.victims
    assert (victim.device, victim.port) == (SINK.device, SINK.port)
    assert victim.stall_ratio > 0.1


def test_a_collective_that_is_worse_now_and_then_is_learned_and_no_incident() -> None:
    """Others wait for the busiest of a job's ports before the past is known, again and again."""
    run = Run(leaf_spine())
    waits = {"stall": dict.fromkeys(INCAST["stall"], 0.7), "tx_use": {SINK: 0.85}}
    for poll in range(120):
        assert not run.tick(waits if poll % 17 > 13 else {}).open, poll
    (incident,) = run.ticks(16, INCAST).open
    assert incident.kind is IncidentKind.INCAST


def test_what_a_rule_describes_is_not_unclassified_however_long_it_was() -> None:
    """An alarm came first and lasted; the incident keeps its id and gets the kind of the rule."""
    run = Run(leaf_spine())
    run.ticks(40)
    odd = PortId("leaf1", "u0")
    run.alarms[odd] = 0.9
    (first,) = run.ticks(12, {"tx_discards": {odd: 50.0}}).open
    assert first.kind is IncidentKind.UNCLASSIFIED
    (later,) = run.ticks(4, {**INCAST, "tx_discards": {odd: 50.0}}).open
    assert (later.id, later.kind) == (first.id, IncidentKind.INCAST)


def test_an_alarm_within_an_incident_that_has_its_claim_is_none_of_its_own() -> None:
    """A victim stays held back a little longer and is alarmed; the incident goes on elsewhere."""
    run = Run(leaf_spine())
    run.ticks(40)
    odd, sink = PortId("h1-0", "nic"), PortId("spine0", "p0")
    assert run.ticks(6, INCAST).open
    run.alarms[odd] = 0.9
    rest = {
        "tx_use": INCAST["tx_use"],
        "stall": {sink: 0.5, odd: 0.2},
        "queue_depth_bytes": INCAST["queue_depth_bytes"],
        "ecn_marked_packets": INCAST["ecn_marked_packets"],
    }
    assert [i.kind for i in run.ticks(10, rest).open] == [IncidentKind.INCAST]


def test_pressure_passes_through_a_port_that_waits_no_more_than_it_always_does() -> None:
    """The job congests a spine a little in every iteration; now a host behind it is the reason."""
    run = Run(leaf_spine())
    spine = PortId("spine0", "p0")
    run.ticks(120, {"stall": {spine: 0.3}})
    waits = {spine: 0.3, PortId("leaf1", "u0"): 0.6, PortId("h1-0", "nic"): 0.2}
    (incident,) = run.ticks(6, {"stall": waits, "tx_use": {SINK: 1.0, spine: 0.5}}).open
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == SINK
    assert {(v.device, v.port) for v in incident.victims} == set(waits) - {spine}
