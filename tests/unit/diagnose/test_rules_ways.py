"""Ways that are full beside idle ones, links that go down, links that are slow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.fabrics import ROCE, Run, calm, leaf_spine, only

from fabricmon.model.incident import IncidentKind
from fabricmon.model.topology import Link, PortId, Role, Topology

SINK = PortId("leaf0", "d0")


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


@pytest.mark.parametrize("spines", [2, 3])
def test_a_way_that_all_siblings_left_harms_nobody_until_somebody_waits(spines: int) -> None:
    """Traffic moves for many a reason; healthy days have such hours."""
    ways = [PortId("leaf1", f"u{spine}") for spine in range(spines)]
    use = dict(zip(ways, (0.85, 0.0, 0.0), strict=False))
    run = calm(leaf_spine(spines=spines))
    assert not run.ticks(6, {"tx_use": use}).open
    waits = {"stall": {PortId("h1-0", "nic"): 0.3}}
    assert [i.kind for i in run.ticks(3, {"tx_use": use, **waits}).open] == [
        IncidentKind.PATH_IMBALANCE
    ]


@pytest.mark.parametrize("breaks", [False, True])
def test_ways_down_change_where_a_way_was_taken_out_far_away(breaks: bool) -> None:
    """Others send by what is left to them: no choice of the spines."""
    near = leaf_spine(leaves=4)
    nodes = [replace(near.nodes[0], name=n) for n in ("y0", "y1")]
    leaf = next(node for node in near.nodes if node.name == "leaf0")
    nodes += [replace(leaf, name=n) for n in ("x0", "x1")]
    links = [Link(PortId(x, y), PortId(y, x)) for x in ("x0", "x1") for y in ("y0", "y1")]
    run = calm(Topology((*near.nodes, *nodes), (*near.links, *links)))
    waits = {PortId("leaf3", "u0"): 0.3}
    use = {PortId("spine0", "p0"): 0.8, PortId("spine1", "p0"): 0.0}
    down = {"oper_up": {PortId("x0", "y0"): 0.0, PortId("y0", "x0"): 0.0}} if breaks else {}
    kinds = {i.kind for i in run.ticks(6, {"tx_use": use, "stall": waits, **down}).open}
    assert (IncidentKind.PATH_IMBALANCE in kinds) is not breaks


@pytest.mark.parametrize("lost", [None, "x0", "x1"])
def test_ways_up_change_where_a_way_down_was_lost_in_another_pod(lost: str | None) -> None:
    """Three tiers: what is for hosts below the lost way can only come by the other plane.

    A queue stands in the way that takes it over. A lost way of that plane explains nothing.
    """
    ways = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    near = leaf_spine(leaves=2)
    leaf, spine = (next(n for n in near.nodes if n.name == name) for name in ("leaf0", "spine0"))
    nodes = [replace(spine, name=name, role=Role.CORE) for name in ("core0", "core1")]
    nodes += [replace(spine, name=name) for name in ("x0", "x1")]
    nodes += [replace(leaf, name=name) for name in ("far0", "far1")]
    cables = [(a, b) for a in ("far0", "far1") for b in ("x0", "x1")]
    cables += [(f"{spine}{plane}", f"core{plane}") for spine in ("spine", "x") for plane in (0, 1)]
    links = [Link(PortId(a, b), PortId(b, a)) for a, b in cables]
    run = calm(Topology((*near.nodes, *nodes), (*near.links, *links)), 100)
    down = [PortId("far0", lost), PortId(lost, "far0")] if lost else []
    values = {
        "tx_use": dict(zip(ways, (0.0, 0.8), strict=True)),
        "queue_depth_bytes": {ways[1]: 250_000.0},
        "ecn_marked_packets": {ways[1]: 500_000.0},
        "oper_up": dict.fromkeys(down, 0.0),
    }
    kinds = {i.kind for i in run.ticks(6, values).open}
    assert (IncidentKind.PATH_IMBALANCE in kinds) is (lost != "x0")


def test_of_ways_that_are_slowed_together_none_took_over() -> None:
    """Two ways are held back further on, one is left empty by senders who wait for those two."""
    ways = [PortId("leaf1", f"u{spine}") for spine in range(3)]
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    held = [SINK, *ways[:2], PortId("spine0", "p0"), PortId("spine1", "p0"), *hosts]
    use = dict.fromkeys([SINK, *hosts], 0.04) | dict(zip(ways, (0.08, 0.02, 0.003), strict=True))
    values = {"tx_use": use, "stall": dict.fromkeys(held, 0.9)}
    assert only(calm(leaf_spine(spines=3)), values).kind is IncidentKind.SLOW_RECEIVER


@pytest.mark.parametrize("others", [0.4, 0.65])
def test_many_who_wait_for_all_ways_of_a_leaf_show_that_it_has_too_few(others: float) -> None:
    """No poll shows the ways full, for bursts are shorter; where every leaf's fill, a job does."""
    run = calm(leaf_spine())
    use = {PortId(f"leaf{leaf}", f"u{way}"): others for leaf in (0, 2) for way in (0, 1)}
    use |= {PortId("leaf1", "u0"): 0.7, PortId("leaf1", "u1"): 0.6}
    stall = {PortId(f"h1-{n}", "nic"): 0.4 for n in range(4)}
    told = run.ticks(6, {"tx_use": use, "stall": stall}).open
    causes = {(i.kind, i.cause.device) for i in told if i.cause is not None}
    assert causes == ({(IncidentKind.OVERSUBSCRIPTION, "leaf1")} if others < 0.65 else set())


@pytest.mark.parametrize("together", [True, False])
def test_ways_before_which_many_wait_are_an_incast_only_if_all_lead_to_one_host(
    together: bool,
) -> None:
    """What goes to different hosts by each way is no crowd before one of them."""
    other = PortId("leaf0", "d0") if together else PortId("leaf2", "d1")
    by = PortId("spine1", "p0" if together else "p2")
    rises = [PortId("leaf1", "u0"), PortId("leaf1", "u1"), PortId("spine0", "p0"), by, SINK, other]
    stall = {PortId(f"h1-{n}", "nic"): 0.4 for n in range(4)}
    found = only(calm(leaf_spine()), {"tx_use": dict.fromkeys(rises, 0.7), "stall": stall})
    assert found.kind is (IncidentKind.INCAST if together else IncidentKind.OVERSUBSCRIPTION)


def test_a_marked_port_that_carries_no_more_than_usual_is_no_incast() -> None:
    """Its job is slowed elsewhere, so it stands out; who waits for it now did so before."""
    slowed = {PortId("leaf0", f"d{n}"): 0.2 for n in range(1, 4)}
    values = {
        "tx_use": slowed | {PortId("spine0", "p0"): 0.3},
        "stall": {PortId("spine0", "p0"): 0.5},
        "ecn_marked_packets": {SINK: 9_000.0},
    }
    assert not calm(leaf_spine()).ticks(8, values).open
    assert calm(leaf_spine()).ticks(8, values | {"tx_use": slowed | {SINK: 0.6}}).open


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


def test_a_way_of_a_job_with_bursts_is_left_after_three_polls_and_not_after_two() -> None:
    """What begins or ends may be alone on one way for a burst."""
    ways = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    moved = {
        "tx_use": dict(zip(ways, (0.05, 0.85), strict=True)),
        "stall": dict.fromkeys(hosts, 0.4),
    }
    run = Run(leaf_spine())
    for poll in range(65):
        run.tick({"tx_use": dict.fromkeys(ways, (0.8, 0.1)[poll % 2])})
    assert not run.ticks(2, moved).open
    assert [i.kind for i in run.ticks(2, moved).open] == [IncidentKind.PATH_IMBALANCE]


@pytest.mark.parametrize("moved", [True, False])
def test_a_marked_queue_in_a_way_that_drew_its_siblings_traffic_is_an_imbalance(
    moved: bool,
) -> None:
    """Polls that even out bursts show it neither full nor its sibling empty; nobody waits yet.

    What came on top, and left the sibling as it was, was not moved.
    """
    way, sibling = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    values = {
        "tx_use": {way: 0.6, sibling: 0.15 if moved else 0.4},
        "queue_depth_bytes": {way: 250_000.0},
        "ecn_marked_packets": {way: 500_000.0},
    }
    found = calm(leaf_spine(), 100).ticks(3, values).open
    causes = [(i.cause.device, i.cause.port) for i in found if i.cause is not None]
    told = [incident.kind for incident in found]
    assert (told, causes) == (([IncidentKind.PATH_IMBALANCE], [way]) if moved else ([], []))


def test_one_poll_of_a_full_way_beside_idle_ones_is_enough_once_the_past_is_known() -> None:
    """The poll in which it begins shows little; the next one shows what none ever did."""
    full, idle = PortId("leaf1", "u0"), PortId("leaf1", "u1")
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    begins = {"tx_use": {full: 0.6, idle: 0.25}, "stall": dict.fromkeys(hosts, 0.1)}
    shows = {"tx_use": {full: 1.0, idle: 0.1}, "stall": dict.fromkeys(hosts, 0.4)}
    for polls, told in ((100, [IncidentKind.PATH_IMBALANCE]), (40, [])):
        run = calm(leaf_spine(), polls)
        run.tick(begins)
        assert [i.kind for i in run.tick(shows).open] == told


def test_a_full_group_is_told_by_the_first_poll_that_shows_it_full() -> None:
    """And stays the one that is named, though the ways down it fills hold it back a little."""
    ways = [PortId("leaf1", f"u{way}") for way in (0, 1)]
    down = [PortId(f"spine{way}", "p0") for way in (0, 1)]
    hosts = [PortId(f"h1-{n}", "nic") for n in range(4)]
    begins = {"tx_use": dict.fromkeys([*ways, *down], 0.6), "stall": dict.fromkeys(hosts, 0.2)}
    full = dict.fromkeys([*ways, *down], 0.97)
    run = calm(leaf_spine())
    run.tick(begins)
    found = run.tick({"tx_use": full, "stall": dict.fromkeys(hosts, 0.4)}).open
    assert [i.kind for i in found] == [IncidentKind.OVERSUBSCRIPTION]
    held = dict.fromkeys(hosts, 0.4) | dict.fromkeys(ways, 0.03)
    found = run.ticks(5, {"tx_use": full, "stall": held}).open
    assert [i.cause.device for i in found if i.cause is not None] == ["leaf1"]
