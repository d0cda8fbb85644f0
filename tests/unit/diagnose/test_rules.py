"""Each kind on a tiny fabric whose counters are set by hand: signature, and what must not be it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.diagnose import DiagnoseConfig
from fabricmon.diagnose.rules import catalogue
from fabricmon.model.incident import IncidentKind, Severity, Verdict
from fabricmon.model.readings import State
from fabricmon.model.topology import Ecn, Intent, Job, PortId, Technology

if TYPE_CHECKING:
    from fabricmon.model.incident import Incident
    from fabricmon.model.topology import Topology

SINK, FEED = PortId("leaf0", "d0"), PortId("spine0", "p0")
ROCE = Intent(lossless_queues=(3,), ecn=Ecn.REQUIRED)


def only(run: Run, values: object, polls: int = 8, **options: object) -> Incident:
    """The one incident after some polls of these values."""
    found = run.ticks(polls, values, **options).open  # type: ignore[arg-type]
    assert len(found) == 1, [(i.kind, i.cause) for i in found]
    return found[0]


def calm(topology: Topology, polls: int = 40, **options: object) -> Run:
    """A fabric that has been healthy for a while."""
    run = Run(topology, **options)  # type: ignore[arg-type]
    run.ticks(polls)
    return run


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
    cycle = [
        PortId("leaf0", "u0"),
        PortId("spine0", "p1"),
        PortId("leaf1", "u1"),
        PortId("spine1", "p0"),
    ]
    stuck = {"stall": dict.fromkeys(cycle, 1.0), "tx_use": dict.fromkeys(cycle, 0.0)}
    dead = only(calm(leaf_spine()), stuck)
    assert (dead.kind, dead.severity) == (IncidentKind.PFC_DEADLOCK, Severity.SEVERE)
    assert (dead.causes[0].device, dead.causes[0].port) in cycle
    moving = {"stall": dict.fromkeys(cycle, 0.9), "tx_use": dict.fromkeys(cycle, 0.05)}
    kinds = {i.kind for i in calm(leaf_spine()).ticks(8, moving).open}
    assert IncidentKind.PFC_DEADLOCK not in kinds


def test_evenly_full_uplinks_are_oversubscription_of_their_device() -> None:
    """All ways full: the device; the cause has no port."""
    ways = [PortId("leaf1", "u0"), PortId("leaf1", "u1")]
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    values = {"tx_use": dict.fromkeys(ways, 1.0), "stall": dict.fromkeys(hosts, 0.4)}
    found = only(calm(leaf_spine()), values)
    assert found.kind is IncidentKind.OVERSUBSCRIPTION
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("leaf1", "")


def test_a_full_way_beside_an_idle_one_is_an_imbalance() -> None:
    """The cause is the full way, and its feeders are the victims."""
    full, idle = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    values = {"tx_use": {full: 1.0, idle: 0.02}, "stall": dict.fromkeys(hosts, 0.4)}
    found = only(calm(leaf_spine()), values)
    assert found.kind is IncidentKind.PATH_IMBALANCE
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == full
    assert {(v.device, v.port) for v in found.victims} == set(hosts)


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


def test_an_imbalance_whose_way_waits_for_an_incast_is_an_incident_of_its_own() -> None:
    """The way a leaf's traffic went to is held up further on: two causes, two sets of victims."""
    busy, full, idle = PortId("leaf0", "d0"), PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    others = [PortId(f"h2-{n}", "nic") for n in range(4)]
    held = [*hosts, *others, full, PortId("leaf2", "u0"), PortId("spine0", "p0")]
    use = {busy: 1.0, full: 0.8, idle: 0.0}
    found = calm(leaf_spine()).ticks(8, {"tx_use": use, "stall": dict.fromkeys(held, 0.4)}).open
    victims = {i.cause: {(v.device, v.port) for v in i.victims} for i in found if i.cause}
    told = {(c.device, c.port): victims[c] for c in victims}
    assert told == {busy: set(held), full: {*hosts, full}}


@pytest.mark.parametrize("kept", [0.02, 0.25])
def test_a_way_is_left_where_it_loses_more_than_its_senders(kept: float) -> None:
    """Behind a slow receiver everybody sends less; only a route leaves out one way and not both."""
    slow, way, idle = PortId("leaf0", "d0"), PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    stall = dict.fromkeys([slow, way, PortId("spine0", "p0"), *hosts], 0.8)
    use = dict.fromkeys([slow, *hosts], 0.1) | {way: 0.2 - 0.4 * kept, idle: 0.4 * kept}
    found = calm(leaf_spine()).ticks(8, {"tx_use": use, "stall": stall}).open
    causes = {i.kind: (i.cause.device, i.cause.port) for i in found if i.cause is not None}
    told = {IncidentKind.SLOW_RECEIVER: ("h0-0", "nic")}
    assert causes == told | ({IncidentKind.PATH_IMBALANCE: way} if kept < 0.25 else {})


def test_a_way_that_took_over_is_named_though_no_poll_shows_it_full() -> None:
    """Bursts shorter than a poll: the way carries half of the time, but its sibling nothing."""
    full, idle = PortId("leaf0", "u0"), PortId("leaf0", "u1")
    hosts = [PortId(f"h0-{n}", "nic") for n in range(4)]
    values = {"tx_use": {full: 0.6, idle: 0.0}, "stall": dict.fromkeys(hosts, 0.4)}
    found = only(calm(leaf_spine()), values)
    assert found.kind is IncidentKind.PATH_IMBALANCE
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == full


def test_a_way_that_speeds_up_when_a_job_stops_is_no_imbalance() -> None:
    """The sibling was left by a job that ended; where no queue stands, nobody waits for the way."""
    way, left = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    run = calm(leaf_spine())
    faster = {"tx_use": {way: 0.95, left: 0.0}}
    assert not any(run.tick(faster if poll % 4 else {}).open for poll in range(24))


def test_a_link_that_goes_down_twice_flaps_and_once_is_a_bad_cable() -> None:
    """The first down that nobody ordered is told; with the second it becomes flapping."""
    run = calm(leaf_spine())
    port = PortId("leaf2", "u1")
    run.tick({"link_downed": {port: 1.0}})
    once = only(run, None, 2)
    assert (once.kind, once.reason) == (IncidentKind.DEGRADED_LINK, "link-down")
    run.tick({"link_downed": {port: 1.0}})
    found = only(run, None, 6)
    assert found.kind is IncidentKind.FLAPPING_LINK
    assert found.id == once.id


def test_who_was_held_back_while_a_link_was_down_is_its_victim() -> None:
    """A poll is enough, whether it bounced once or flaps; who waits for another way is not."""
    run = calm(leaf_spine())
    behind, other = PortId("spine1", "p1"), PortId("spine0", "p2")
    down = {"link_downed": {PortId("leaf1", "u1"): 1.0}}
    waits = {"stall": {PortId("leaf0", "u1"): 0.8, other: 0.8}, "tx_use": {behind: 0.0}}
    for kind in (IncidentKind.DEGRADED_LINK, IncidentKind.FLAPPING_LINK):
        run.tick({**down, **waits})
        found = next(i for i in run.ticks(5).open if i.kind is kind)
        assert [v.device for v in found.victims] == ["leaf0"]


def test_a_link_that_stays_down_for_a_while_is_somebody_at_work() -> None:
    """Down over several polls and up again: maintenance, or a device that restarts."""
    run = calm(leaf_spine())
    port = PortId("leaf2", "u1")
    run.tick({"link_downed": {port: 1.0}, "oper_up": {port: 0.0}})
    run.ticks(3, {"oper_up": {port: 0.0}})
    assert not run.ticks(4).open


@pytest.mark.parametrize("paused", [True, False])
def test_a_plateau_with_a_queue_is_the_host_if_it_pauses_and_the_link_if_not(paused: bool) -> None:
    """Working congestion control hides both; a little pause tells them apart."""
    run = calm(leaf_spine(intent=ROCE))
    values = {
        "tx_use": {SINK: 0.2},
        "queue_depth_bytes": {SINK: 200_000},
        "ecn_marked_packets": {SINK: 9_000},
        "stall": {SINK: 0.01 if paused else 0.0},
    }
    found = only(run, values, 12)
    assert found.kind is (IncidentKind.SLOW_RECEIVER if paused else IncidentKind.DEGRADED_LINK)


def _with_peaks() -> Run:
    """A calm fabric that also tells how deep its queues were at most since the last reading."""
    run = Run(leaf_spine(intent=ROCE))
    run.levels["queue_depth_peak_bytes"] = 0.0
    run.ticks(40)
    return run


def test_a_way_that_alone_cannot_take_its_share_is_slow() -> None:
    """Its queue fills in every poll and its siblings' do not; where all fill, that is the load."""
    ways = [PortId("leaf1", "u0"), PortId("leaf1", "u1")]
    for full in (ways[:1], ways):
        values = {
            "tx_use": dict.fromkeys(full, 0.2),
            "queue_depth_peak_bytes": dict.fromkeys(full, 200_000.0),
            "ecn_marked_packets": dict.fromkeys(full, 9_000.0),
        }
        run = _with_peaks()
        assert not run.ticks(5, values).open, "a burst of one iteration"
        told = run.ticks(7, values).open
        assert [i.kind for i in told] == [IncidentKind.DEGRADED_LINK][: 2 - len(full)]


def test_bursts_that_fill_a_queue_for_a_moment_are_no_plateau() -> None:
    """A queue that stands leaves at one rate; where both are read, the peak is not what stands."""
    marked = {"ecn_marked_packets": {SINK: 9_000.0}}
    run = calm(leaf_spine(intent=ROCE))
    for poll in range(16):
        bursts = {"tx_use": {SINK: (0.1, 0.25)[poll % 2]}, "queue_depth_bytes": {SINK: 200_000}}
        assert not run.tick({**marked, **bursts}).open, poll
    run = _with_peaks()
    peaks = {"tx_use": {SINK: 0.2}, "queue_depth_peak_bytes": {SINK: 200_000.0}}
    assert not run.ticks(12, {**marked, **peaks}).open


def test_a_burst_in_the_first_polls_of_a_fabric_is_no_plateau() -> None:
    """Before some blocks of the past are known, a queue deeper than before says little."""
    values = {
        "tx_use": {SINK: 0.2},
        "queue_depth_bytes": {SINK: 200_000},
        "ecn_marked_packets": {SINK: 9_000},
    }
    assert not calm(leaf_spine(intent=ROCE), 20).ticks(8, values).open


INCAST = {
    "tx_use": {SINK: 1.0, FEED: 0.5},
    "stall": {FEED: 0.5, PortId("leaf1", "u0"): 0.6, PortId("leaf2", "u0"): 0.6},
    "queue_depth_bytes": {SINK: 250_000},
}


def test_a_port_that_fills_as_never_before_is_an_incast_though_nobody_is_paused() -> None:
    """Congestion control spares the others; where many ports of a device fill, so its jobs send."""
    ports = [PortId("leaf0", f"d{n}") for n in range(4)]
    for full in (ports[:1], ports[:2]):
        values = {
            "tx_use": dict.fromkeys(full, 0.95),
            "queue_depth_bytes": dict.fromkeys(full, 250_000.0),
            "ecn_marked_packets": dict.fromkeys(full, 500_000.0),
        }
        told = calm(leaf_spine(intent=ROCE)).ticks(12, values).open
        assert [i.kind for i in told] == [IncidentKind.INCAST][: 2 - len(full)]


def test_a_full_queue_that_is_not_marked_is_ecn_set_wrong() -> None:
    """The device is the cause; a fabric that declares ECN off is left alone."""
    found = only(calm(leaf_spine(intent=ROCE)), INCAST)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "ecn-silent")
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("leaf0", "")
    off = only(calm(leaf_spine(intent=Intent((3,), Ecn.OFF))), INCAST)
    assert off.kind is IncidentKind.INCAST


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


def test_a_switch_that_marks_is_not_blamed_for_a_queue_that_may_stand_elsewhere() -> None:
    """Who waits for a port that is not full may wait for its neighbour, which marks."""
    values = {
        "tx_use": {SINK: 0.2, PortId("leaf0", "d1"): 0.85},
        "stall": INCAST["stall"],
        "queue_depth_bytes": {SINK: 250_000, PortId("leaf0", "d1"): 250_000},
        "ecn_marked_packets": {PortId("leaf0", "d1"): 500_000.0},
    }
    found = calm(leaf_spine(intent=ROCE)).ticks(8, values).open
    assert IncidentKind.LOSSLESS_MISCONFIG not in {incident.kind for incident in found}


def test_congestion_does_not_outvote_the_drops_it_brought_to_light() -> None:
    """Congestion control ends the drops of a port without PFC; the incast goes on."""
    ingress = PortId("leaf0", "u0")
    more = {"tx_pfc_frames": {PortId("leaf0", "u1"): 500.0}}
    run = calm(leaf_spine(intent=ROCE))
    heeds = {"stall": {**INCAST["stall"], PortId("spine1", "p0"): 0.3}}
    marked = INCAST | more | heeds | {"ecn_marked_packets": {SINK: 500_000.0}}
    run.ticks(3, marked | {"rx_discards": {ingress: 5_000.0}})
    found = only(run, marked, 20)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "pfc-off")
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ingress


def test_drops_without_any_pause_sent_are_pfc_off_at_the_device() -> None:
    """Lossless drops at a switch that never pauses anybody."""
    drops = {"queue_discards": {SINK: 5_000.0}, "tx_discards": {SINK: 5_000.0}}
    found = only(calm(leaf_spine(intent=ROCE)), drops)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "pfc-off")
    assert (found.verdict, found.severity) == (Verdict.CONFIG, Severity.MODERATE)


def test_a_port_that_is_asked_and_does_not_stop_is_one_sided() -> None:
    """The cause is the port that ignores the pause, not the one that drops."""
    ingress, deaf = PortId("leaf0", "u0"), PortId("spine0", "p0")
    values = {
        "tx_pfc_frames": {ingress: 50_000.0},
        "rx_pfc_frames": {deaf: 50_000.0},
        "queue_discards": {ingress: 3_000.0},
        "tx_discards": {ingress: 3_000.0},
        "tx_use": {deaf: 0.8},
        "rx_use": {ingress: 0.8},
    }
    found = only(calm(leaf_spine(intent=ROCE)), values)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "pfc-one-sided")
    assert found.cause is not None
    assert {(found.cause.device, found.cause.port)} & {deaf, ingress}


def test_the_only_way_that_asks_for_no_pause_is_the_one_without_pfc() -> None:
    """Drops are counted where the packets were to go: who came in by which way shows elsewhere."""
    drops = {"queue_discards": {SINK: 5_000.0}, "tx_discards": {SINK: 5_000.0}}
    ask = dict.fromkeys((PortId("leaf0", "u1"), PortId("leaf0", "u2")), 500.0)
    heed = dict.fromkeys((PortId("spine1", "p0"), PortId("spine2", "p0")), 0.01)
    values = drops | {"tx_pfc_frames": ask, "stall": heed}
    found = only(calm(leaf_spine(spines=3, intent=ROCE)), values)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "pfc-off")
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("leaf0", "u0")
    spared = values | {"rx_use": {PortId("leaf0", "u0"): 0.02}}
    found = only(calm(leaf_spine(spines=3, intent=ROCE)), spared)
    assert found.reason == "lossless-drops"


def told(found: Incident) -> dict[tuple[str, str, str], tuple[float, str]]:
    """Evidence of settings: (device, port, counter) -> value and unit."""
    names = {"no_drop", "xoff_bytes", "headroom_bytes", "pfc_enabled", "peer_pfc_enabled"}
    return {
        (e.device, e.port, e.counter): (e.value, e.unit)
        for e in found.evidence
        if e.counter in names
    }


def test_a_port_that_is_set_to_drop_among_others_is_pfc_off_before_it_drops() -> None:
    """Most ports say no-drop for the lossless queue: the one that does not is the cause."""
    run = calm(leaf_spine(intent=ROCE))
    run.levels = {"no_drop": 1.0, "xoff_bytes": 36_352.0}
    assert not run.ticks(8).open
    found = only(run, {"no_drop": {SINK: 0.0}})
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "pfc-off")
    assert (found.severity, found.cause.port if found.cause else "") == (Severity.MILD, SINK.port)
    assert told(found)[*SINK, "no_drop"] == (0, "bool in queue 3")
    assert told(found)[*SINK, "xoff_bytes"] == (36_352, "bytes in queue 3")
    everywhere = calm(leaf_spine(intent=ROCE))
    everywhere.levels = {"no_drop": 0.0}
    assert not everywhere.ticks(8).open, "numbers that may mean something else prove nothing"
    undeclared = calm(leaf_spine())
    undeclared.levels = {"no_drop": 1.0}
    assert not undeclared.ticks(8, {"no_drop": {SINK: 0.0}}).open


def test_a_port_without_pfc_whose_peer_has_it_is_one_sided_before_anything_is_lost() -> None:
    """The cause is the end where it is off, whichever end tells."""
    for values in (
        {"pfc_enabled": {FEED: 0.0}},
        {"peer_pfc_enabled": {PortId("leaf0", "u0"): 0.0}},
    ):
        run = calm(leaf_spine(intent=ROCE))
        run.levels = {"pfc_enabled": 1.0, "peer_pfc_enabled": 1.0}
        found = only(run, values)
        assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "pfc-one-sided")
        assert found.cause is not None
        assert (found.cause.device, found.cause.port) == FEED
        assert (0.0, "bool") in told(found).values()


def test_what_a_dropping_port_is_set_to_is_evidence() -> None:
    """Headroom in use and the threshold stand beside the drops."""
    run = calm(leaf_spine(intent=ROCE))
    run.levels = {"headroom_bytes": 0.0, "xoff_bytes": 36_352.0, "no_drop": 1.0}
    drops = {
        "queue_discards": {SINK: 5_000.0},
        "tx_discards": {SINK: 5_000.0},
        "headroom_bytes": {SINK: 19_000.0},
    }
    evidence = told(only(run, drops))
    assert evidence[*SINK, "headroom_bytes"] == (19_000, "bytes in queue 3")
    assert evidence[*SINK, "xoff_bytes"] == (36_352, "bytes in queue 3")
    assert evidence[*SINK, "no_drop"] == (1, "bool in queue 3")


def job_of(hosts: int = 8) -> tuple[Job, ...]:
    """One job on the first hosts of two leaves."""
    return (Job("llm", tuple(f"h{n % 2}-{n // 2}" for n in range(hosts))),)


def beat(late: str | None, tick: int, period: int) -> dict[str, dict[PortId, float]]:
    """An iteration: compute, a first part that `late` sends with the rest."""
    phase = tick % period
    use = {}
    for job in job_of():
        for host in job.hosts:
            first = 0.3 if phase == (4 if host == late else 1) else 0.0
            use[PortId(host, "nic")] = 0.01 + first + (0.6 if phase in {4, 5} else 0.0)
    return {"tx_use": use}


@pytest.mark.parametrize(("usual", "longer"), [(6, 9), (11, 18)])
def test_a_job_that_waits_for_one_host_is_not_the_fabric(usual: int, longer: int) -> None:
    """The host that sends last is named, also where few iterations fit into what is looked at."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(121):
        assert not run.tick(beat(None, tick, usual)).open
    for tick in range(2 * longer):
        diagnosis = run.tick(beat("h1-2", tick, longer))
    (found,) = diagnosis.open
    assert (found.kind, found.verdict) == (IncidentKind.COLLECTIVE_STALL, Verdict.NOT_FABRIC)
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("h1-2", "nic")


def test_a_job_that_computes_longer_is_no_incident() -> None:
    """A new phase with a somewhat longer iteration keeps all hosts in step."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(90):
        run.tick(beat(None, tick, 6))
    assert not any(run.tick(beat(None, tick, 8)).open for tick in range(80))


def test_who_stops_or_starts_last_is_no_reason_for_a_stall() -> None:
    """A job that stands still is not judged, nor before it has run as long as is looked back."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(90):
        run.tick(beat(None, tick, 6))
    rest = {PortId(host, "nic"): 0.0 for host in job_of()[0].hosts}
    assert not any(run.tick({"tx_use": rest}).open for _ in range(24))
    again = [run.tick(beat("h1-2" if tick < 18 else None, tick, 6)).open for tick in range(60)]
    assert not any(again)


def test_those_after_a_late_rank_in_a_ring_do_not_hide_it() -> None:
    """Rank k after the late one has k parts of its predecessors to send before it waits, too."""
    run = Run(leaf_spine(jobs=job_of()))
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]

    def ring(tick: int, waits: int) -> dict[str, dict[PortId, float]]:
        phase = tick % (5 + waits)
        early = [0.06 * rank if phase == 1 and waits else 0.0 for rank in range(8)]
        late = [0.5 - 0.06 * rank if waits else 0.5 for rank in range(8)]
        last = phase == 2 + waits
        use = [
            0.01 + e + (0.4 if phase == 1 + waits else w if last else 0.0)
            for e, w in zip(early, late, strict=True)
        ]
        return {"tx_use": dict(zip(hosts, use, strict=True))}

    for tick in range(90):
        assert not run.tick(ring(tick, 0)).open
    for tick in range(48):
        diagnosis = run.tick(ring(tick, 3))
    (found,) = diagnosis.open
    assert found.kind is IncidentKind.COLLECTIVE_STALL


def test_what_goes_on_at_the_hosts_of_a_job_that_stopped_is_no_stall() -> None:
    """Some other traffic, at a tenth of the job's, is not alike on all hosts."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(90):
        run.tick(beat(None, tick, 6))
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]
    some = {port: 0.035 + 0.01 * (place % 3) for place, port in enumerate(hosts)}
    assert not any(run.tick({"tx_use": some}).open for _ in range(60))


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
