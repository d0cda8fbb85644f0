"""The scrape page: what its metrics say, and what is absent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from support.scrape import PORTS, make_exporter, page_text, port_value, simple_snapshot, value_of
from support.snapshots import (
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)

from fabricmon.model.counters import CATALOGUE
from fabricmon.model.incident import Victim
from fabricmon.model.readings import State
from fabricmon.testing import check_exporter
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter
from fabricmon_exporters.prometheus.families import FAMILIES
from fabricmon_exporters.prometheus.small import SMALL

if TYPE_CHECKING:
    from fabricmon.api import Context


async def test_it_keeps_an_exporters_promises(context: Context) -> None:
    """The lifecycle holds: inert, restartable, stoppable at any time."""
    await check_exporter(lambda: make_exporter(context))


def test_the_fixed_names_are_in_the_table() -> None:
    """The names that dashboards are built on exist, with the labels they were promised."""
    labels = {family.name: set(family.labels) for family in (*FAMILIES, *SMALL)}
    port, queue = {"fabric", "device", "port"}, {"fabric", "device", "port", "queue"}
    for direction in ("receive", "transmit"):
        for noun in ("bytes", "packets", "discards", "errors"):
            assert labels[f"fabricmon_port_{direction}_{noun}_total"] == port
        assert labels[f"fabricmon_queue_{direction}_pfc_frames_total"] == queue
        assert labels[f"fabricmon_queue_{direction}_pfc_pause_seconds_total"] == queue
    assert labels["fabricmon_port_transmit_wait_seconds_total"] == port
    assert labels["fabricmon_port_transmit_stall_ratio"] == port
    assert labels["fabricmon_port_anomaly_score"] == port
    assert labels["fabricmon_queue_ecn_marked_packets_total"] == queue
    assert labels["fabricmon_incident_active"] == {
        *("fabric", "id", "kind", "verdict", "severity", "device", "port")
    }
    assert labels["fabricmon_incident_victim_stall_ratio"] == {"fabric", "id", "device", "port"}
    assert labels["fabricmon_job_stalled_gpu_seconds_total"] == {"fabric", "job"}
    assert labels["fabricmon_target_up"] == {"fabric", "target", "collector"}


def test_every_counter_of_the_catalogue_has_a_metric(context: Context) -> None:
    """Whatever a collector can read, a page can show."""
    port = [c.id for c in CATALOGUE if c.scope == "port" and not c.is_gauge]
    queue = [c.id for c in CATALOGUE if c.scope == "queue" and not c.is_gauge]
    frame = make_frame(3, counters=port, queue_counters=queue)
    for counter in CATALOGUE:
        if counter.is_gauge and counter.scope == "port":
            frame.gauges[counter.id] = np.ones(3, np.float32)
        elif counter.is_gauge:
            frame.queue_gauges[counter.id] = np.ones((3, 2), np.float32)
    table = make_table(PORTS)
    table.tick_bytes[:] = 4.0
    exporter = make_exporter(context)
    exporter.publish(make_snapshot(table, frame))
    text = page_text(exporter, collect=["all"])
    missing = [f.name for f in FAMILIES if f"\n# TYPE {f.name} " not in text]
    assert missing == []
    documented = " ".join(family.help for family in FAMILIES)
    assert [c.id for c in CATALOGUE if c.id not in documented] == []


def test_counters_beyond_2_to_53_are_modulo(context: Context) -> None:
    """A float64 cannot count in ones beyond 2^53, so the count starts over there."""
    snapshot = simple_snapshot()
    snapshot.frame.total[0] = [2**53 - 1, 2**53 + 7, 2**64 - 1]
    exporter = make_exporter(context)
    exporter.publish(snapshot)
    text = page_text(exporter)
    name = "fabricmon_port_receive_bytes_total"
    assert port_value(text, name) == 2**53 - 1
    assert port_value(text, name, port="Ethernet2") == 7
    assert port_value(text, name, device="leaf2") == 2**53 - 1


def test_nanoseconds_become_seconds(context: Context) -> None:
    """Pause time is exported in seconds."""
    snapshot = simple_snapshot()
    snapshot.frame.queue_total[2, 0, 1] = 1_500_000_000
    exporter = make_exporter(context)
    exporter.publish(snapshot)
    text = page_text(exporter, collect=["pause"])
    name = "fabricmon_queue_receive_pfc_pause_seconds_total"
    where = {"device": "leaf1", "fabric": "pod1", "port": "Ethernet1"}
    assert value_of(text, name, queue="3", **where) == 1.5


def test_ticks_become_seconds_only_where_their_length_is_known(context: Context) -> None:
    """400 Gb/s and 4 bytes a tick make 80 ps a tick; without a tick length there is no series."""
    table = make_table(PORTS)
    table.tick_bytes[0] = 4.0
    exporter = make_exporter(context)
    frame = make_frame(3)
    frame.total[4] = 10**12
    exporter.publish(make_snapshot(table, frame))
    text = page_text(exporter)
    name = "fabricmon_port_transmit_wait_seconds_total"
    assert port_value(text, name) == pytest.approx(80.0)
    assert port_value(text, name, port="Ethernet2") is None
    raw = "fabricmon_port_transmit_wait_ticks_total"
    assert port_value(page_text(exporter, collect=["wait"]), raw, port="Ethernet2") == 1e12


def test_a_change_of_speed_does_not_make_the_wait_jump(context: Context) -> None:
    """Ticks are turned into seconds with the speed at which they were counted."""
    table = make_table(PORTS)
    table.tick_bytes[:] = 4.0
    exporter = make_exporter(context)
    first, second = make_frame(3), make_frame(3)
    first.total[4], second.total[4] = 10**12, 10**12 + 10**9
    exporter.publish(make_snapshot(table, first))
    table.speed_bps[:] = 200e9
    exporter.publish(make_snapshot(table, second, tick=2))
    wait = port_value(page_text(exporter), "fabricmon_port_transmit_wait_seconds_total")
    assert wait == pytest.approx(80.0 + 0.16)


@pytest.mark.parametrize(
    "state", [State.SATURATED, State.UNSUPPORTED, State.STALE, State.OVER_RATE, State.MISSING]
)
def test_what_is_not_known_is_absent_and_never_zero(context: Context, state: State) -> None:
    """A value without a usable number has no series."""
    snapshot = simple_snapshot()
    snapshot.frame.state[0, 0] = state
    exporter = make_exporter(context)
    exporter.publish(snapshot)
    assert port_value(page_text(exporter), "fabricmon_port_receive_bytes_total") is None
    assert port_value(page_text(exporter), "fabricmon_port_transmit_bytes_total") == 2.0


def test_a_counter_outlives_three_missed_polls_and_no_more(context: Context) -> None:
    """Its last value stands for three polls, since it had one; then its series ends."""
    exporter, table = make_exporter(context), make_table(PORTS)
    name = "fabricmon_port_receive_bytes_total"
    exporter.publish(make_snapshot(table, make_frame(3)))
    there = []
    for tick in range(2, 7):
        frame = make_frame(3)
        frame.state[0, 0] = State.MISSING
        exporter.publish(make_snapshot(table, frame, tick=tick))
        there.append(port_value(page_text(exporter), name) is not None)
    assert there == [True, True, True, False, False]


def test_ratios_that_are_unknown_are_absent(context: Context) -> None:
    """NaN means that nothing is known: no series."""
    table = make_table(PORTS)
    nan = float("nan")
    frame = make_frame(3, stall=[0.25, nan, 0.0])
    exporter = make_exporter(context)
    exporter.publish(make_snapshot(table, frame, anomaly=[0.9, nan, nan]))
    text = page_text(exporter)
    assert port_value(text, "fabricmon_port_transmit_stall_ratio") == 0.25
    assert port_value(text, "fabricmon_port_transmit_stall_ratio", port="Ethernet2") is None
    assert port_value(text, "fabricmon_port_anomaly_score") == 0.9
    assert port_value(text, "fabricmon_port_anomaly_score", port="Ethernet2") is None


def test_a_vanished_port_has_no_line_left(context: Context) -> None:
    """What is not present in the snapshot is gone from the very next page."""
    exporter = make_exporter(context)
    exporter.publish(simple_snapshot())
    assert "leaf2" in page_text(exporter)
    exporter.publish(simple_snapshot(present=[True, True, False]))
    assert "leaf2" not in page_text(exporter)


def test_a_target_that_was_removed_has_no_line_left(context: Context) -> None:
    """A target's own series leave with it."""
    exporter = make_exporter(context)
    exporter.publish(simple_snapshot(targets=[make_status("a"), make_status("b", up=False)]))
    dead = {"collector": "snmp", "fabric": "pod1", "target": "b"}
    assert value_of(page_text(exporter), "fabricmon_target_up", **dead) == 0.0
    exporter.publish(simple_snapshot(targets=[make_status("a")]))
    assert 'target="b"' not in page_text(exporter)


def test_a_target_that_never_answered_has_no_success_time(context: Context) -> None:
    """No zero stands for "never"."""
    exporter = make_exporter(context)
    exporter.publish(simple_snapshot(targets=[make_status("a", up=False, last_success_ns=None)]))
    assert "fabricmon_target_last_success_timestamp_seconds" not in page_text(exporter)


def test_an_incident_names_cause_and_victims(context: Context) -> None:
    """The active incident, its victims and its cost are on the page; job cost is a counter."""
    exporter = make_exporter(context)
    incident = make_incident(victims=[Victim("leaf1", "Ethernet1", 0.75)], maintenance=True)
    exporter.publish(simple_snapshot(incidents=[incident], job_cost={"llm-1": 12.5}))
    text = page_text(exporter)
    own = {"fabric": "pod1", "id": incident.id}
    assert (
        value_of(
            text,
            "fabricmon_incident_active",
            **own,
            kind="slow-receiver",
            verdict="host",
            severity="moderate",
            device="host1",
            port="mlx5_0/1",
        )
        == 1.0
    )
    stall = "fabricmon_incident_victim_stall_ratio"
    assert value_of(text, stall, **own, device="leaf1", port="Ethernet1") == 0.75
    assert value_of(text, "fabricmon_incident_maintenance", **own) == 1.0
    job = "fabricmon_job_stalled_gpu_seconds_total"
    assert value_of(text, job, fabric="pod1", job="llm-1") == 12.5


def test_an_incident_is_counted_once(context: Context) -> None:
    """The counter of opened incidents starts at zero and counts each incident one time."""
    exporter = make_exporter(context)
    name, where = "fabricmon_incidents_opened_total", {"fabric": "pod1", "kind": "slow-receiver"}
    exporter.publish(simple_snapshot())
    assert value_of(page_text(exporter), name, **where) == 0.0
    for _ in range(3):
        exporter.publish(simple_snapshot(incidents=[make_incident()]))
    exporter.publish(simple_snapshot(closed=[make_incident()]))
    assert value_of(page_text(exporter), name, **where) == 1.0


def test_openmetrics_names_the_incident_that_was_counted_last(context: Context) -> None:
    """An exemplar on the counter of its kind, in OpenMetrics only, whatever is collected."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    exporter.publish(make_snapshot(make_table([("a", "1")]), make_frame(1)))
    assert b"incident_id" not in exporter.page({}, openmetrics=True).body
    incident = make_incident()
    exporter.publish(
        make_snapshot(make_table([("a", "1")]), make_frame(1), tick=2, incidents=[incident])
    )
    assert b"incident_id" not in exporter.page({}, openmetrics=False).body
    for query in ({}, {"collect[]": ["fabricmon_incidents_opened_total"]}):
        text = exporter.page(query, openmetrics=True).body.decode()
        named = {
            sample.labels["kind"]: sample.exemplar.labels
            for family in openmetrics.text_string_to_metric_families(text)
            for sample in family.samples
            if sample.exemplar
        }
        assert named == {incident.kind.value: {"incident_id": incident.id}}


def test_new_queues_do_not_mix_up_what_is_remembered(context: Context) -> None:
    """When a queue appears in front of known ones, held values stay with their queue."""
    exporter, table = make_exporter(context), make_table(PORTS)
    exporter.publish(make_snapshot(table, make_frame(3, queues=(3,))))
    frame = make_frame(3, queues=(0, 3))
    frame.queue_state[:] = State.MISSING
    exporter.publish(make_snapshot(table, frame, tick=2))
    text = page_text(exporter, collect=["ecn"])
    assert set(re.findall(r'queue="(\d)"', text)) == {"3"}


def test_what_a_job_lost_is_told_in_money_only_with_a_price(context: Context) -> None:
    """Without a price there is no cost series at all."""
    exporter = make_exporter(context)
    exporter.publish(simple_snapshot(job_cost={"llm-1": 3600.0}))
    assert "fabricmon_job_stalled_cost_total{" not in page_text(exporter)
    exporter.publish(simple_snapshot(job_cost={"llm-1": 3600.0}, job_money={"llm-1": 2.5}))
    own = {"fabric": "pod1", "job": "llm-1"}
    assert value_of(page_text(exporter), "fabricmon_job_stalled_cost_total", **own) == 2.5
