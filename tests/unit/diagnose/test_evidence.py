"""Evidence can be checked by hand, at either end of the cable."""

from __future__ import annotations

import math

from support.fabrics import Run, leaf_spine

from fabricmon.diagnose.past.levels import SPAN
from fabricmon.model.incident import IncidentKind
from fabricmon.model.topology import PortId

SINK, HOST = PortId("leaf0", "d0"), PortId("h0-0", "nic")


def test_a_slow_receiver_shows_raw_counters_of_both_ends_and_no_unknowns() -> None:
    """The switch's stall, the host's own pause, and the bytes behind the use are all numbers."""
    run = Run(leaf_spine())
    run.ticks(40)
    values = {"stall": {SINK: 0.6}, "press": {HOST: 0.6}, "tx_use": {SINK: 0.3}}
    (incident,) = run.ticks(8, values).open
    shown = {(one.counter, one.device): one for one in incident.evidence}
    assert shown["press", HOST.device].value > 0.5
    assert shown["stall", SINK.device].value > 0.5
    (sent,) = shown["tx_use", SINK.device].raw
    assert (sent.counter, sent.device, len(sent.samples)) == ("tx_bytes", SINK.device, SPAN + 1)
    assert all(math.isfinite(one.value) for one in incident.evidence)


def test_a_storm_shows_the_host_card_beside_the_switch_port() -> None:
    """What the card sent and what the switch got are both there, and agree."""
    run = Run(leaf_spine())
    run.ticks(40)
    paused = {"stall": {SINK: 1.0}, "press": {HOST: 1.0}, "tx_use": {SINK: 0.0}}
    frames = {"rx_pfc_frames": {SINK: 3000.0}, "tx_pfc_frames": {HOST: 3000.0}}
    (incident,) = run.ticks(8, {**paused, **frames}).open
    assert incident.kind is IncidentKind.PFC_STORM
    shown = {(one.counter, one.device, one.port): one for one in incident.evidence}
    for signal, port, counter in (
        ("tx_pause", HOST, "tx_pfc_frames"),
        ("rx_pause", SINK, "rx_pfc_frames"),
    ):
        one = shown[signal, port.device, port.port]
        assert one.value == 3000.0
        assert [raw.counter for raw in one.raw] == [counter]
    assert shown["press", HOST.device, HOST.port].value == 1.0
    assert shown["stall", SINK.device, SINK.port].value == 1.0


def test_what_one_end_does_not_count_is_shown_as_the_other_end_counts_it() -> None:
    """With the switch port unread, its stall is the host's pressing, with the host's counters."""
    run = Run(leaf_spine())
    hidden = {"stall": {SINK: math.nan}, "tx_use": {SINK: math.nan}}
    run.ticks(40, hidden)
    (incident,) = run.ticks(8, {**hidden, "press": {HOST: 0.6}}).open
    places = {(one.counter, one.device) for one in incident.evidence}
    assert {("press", HOST.device), ("rx_use", HOST.device)} <= places
    assert not any(
        one.device == SINK.device and one.port == SINK.port
        for one in incident.evidence
        if one.counter in {"stall", "tx_use"}
    )


def test_an_incident_costs_money_only_with_a_price() -> None:
    """An hour of one GPU at 2.5 is told as 2.5; without a price there is no such key."""
    run = Run(leaf_spine())
    run.ticks(40)
    (incident,) = run.ticks(8, {"stall": {SINK: 0.6}, "tx_use": {SINK: 0.3}}).open
    incident.jobs = {"llm": 3600.0}
    assert incident.to_json()["jobs"] == [{"name": "llm", "stalled_gpu_seconds": 3600.0}]
    incident.price_per_gpu_hour = 2.5
    assert incident.to_json()["jobs"][0]["cost"] == 2.5


def test_an_incident_carries_the_largest_score_of_its_ports() -> None:
    """What the detector says of the port that a rule claims is told with the incident."""
    run = Run(leaf_spine())
    run.ticks(40)
    run.alarms = {SINK: 0.75}
    (incident,) = run.ticks(8, {"stall": {SINK: 0.6}, "tx_use": {SINK: 0.3}}).open
    assert incident.anomaly_score == 0.75
