"""What is set wrong in a lossless fabric, told from counters that are set by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fabrics import ROCE, calm, leaf_spine, only

from fabricmon.model.incident import IncidentKind, Severity, Verdict
from fabricmon.model.topology import Ecn, Intent, PortId

if TYPE_CHECKING:
    from fabricmon.model.incident import Incident

SINK, FEED = PortId("leaf0", "d0"), PortId("spine0", "p0")
HOST = PortId("h0-0", "nic")
INCAST = {
    "tx_use": {SINK: 1.0, FEED: 0.5},
    "stall": {FEED: 0.5, PortId("leaf1", "u0"): 0.6, PortId("leaf2", "u0"): 0.6},
    "queue_depth_bytes": {SINK: 250_000},
}


def test_a_full_queue_that_is_not_marked_is_ecn_set_wrong() -> None:
    """The device is the cause; a fabric that declares ECN off is left alone."""
    found = only(calm(leaf_spine(intent=ROCE)), INCAST)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "ecn-silent")
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("leaf0", "")
    off = only(calm(leaf_spine(intent=Intent((3,), Ecn.OFF))), INCAST)
    assert off.kind is IncidentKind.INCAST


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


def test_who_waits_behind_a_port_that_global_pauses_stop_is_a_victim() -> None:
    """Whichever end of the cable the pauses are told of, one of them is held."""
    held = [SINK, FEED, PortId("leaf1", "u0")]
    for loud in ({"rx_pause_frames": {SINK: 500.0}}, {"tx_pause_frames": {HOST: 500.0}}):
        values = {"tx_use": {SINK: 0.1}, "stall": dict.fromkeys(held, 0.6), **loud}
        found = only(calm(leaf_spine(intent=ROCE)), values)
        assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "global-pause")
        assert {(v.device, v.port) for v in found.victims} == set(held)


def test_a_wrong_priority_that_crosses_most_of_a_small_fabric_is_found_with_who_waits() -> None:
    """Who waits for a port that the stray packets cross waits for them too."""
    crossed = [PortId("leaf1", f"u{n}") for n in (0, 1)] + [
        PortId(f"spine{n}", "p0") for n in (0, 1)
    ]
    crossed += [SINK, *(PortId("leaf0", f"d{n}") for n in (1, 2, 3))]
    crossed += [PortId("leaf2", f"d{n}") for n in range(4)]
    crossed += [PortId(f"spine{n}", "p2") for n in (0, 1)]
    whole = 0.4 * 100e9 / 8
    stray = dict.fromkeys(crossed, 0.1 * whole)
    values = {
        "queue_tx_bytes": {PortId("h1-0", "nic"): 0.1 * whole},
        "queue_tx_bytes:0": {PortId("h1-0", "nic"): 0.9 * whole, **stray},
        **INCAST,
    }
    silent = {f"h{leaf}-{n}": 0.0 for leaf in range(3) for n in range(4) if (leaf, n) != (1, 0)}
    values["queue_tx_bytes"] |= {PortId(name, "nic"): 0.0 for name in silent}
    found = only(calm(leaf_spine(intent=Intent((3,))), queues=(3, 0)), values)
    assert (found.kind, found.reason) == (IncidentKind.LOSSLESS_MISCONFIG, "wrong-priority")
    assert {(v.device, v.port) for v in found.victims} == set(INCAST["stall"])
