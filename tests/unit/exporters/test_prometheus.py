"""The scrape page: what is on it, what is not, and what it costs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client.openmetrics import parser as openmetrics
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
from fabricmon.model.topology import Intent, Topology
from fabricmon.testing import check_exporter
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter
from fabricmon_exporters.prometheus.families import FAMILIES
from fabricmon_exporters.prometheus.small import SMALL

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot

PORTS = [("leaf1", "Ethernet1"), ("leaf1", "Ethernet2"), ("leaf2", "Ethernet1")]


def _exporter(context: Context, **config: int) -> PrometheusExporter:
    return PrometheusExporter(PrometheusConfig(**config), context)


def _text(exporter: PrometheusExporter, **query: list[str]) -> str:
    asked = {("collect[]" if key == "collect" else key): value for key, value in query.items()}
    return exporter.page(asked, openmetrics=False).body.decode()


def _value(text: str, name: str, **labels: str) -> float | None:
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    match = re.search(rf"^{re.escape(f'{name}{{{inside}}} ')}(.*)$", text, re.MULTILINE)
    return float(match[1]) if match else None


def _port(text: str, name: str, device: str = "leaf1", port: str = "Ethernet1") -> float | None:
    return _value(text, name, device=device, fabric="pod1", port=port)


def _snapshot(**changes: object) -> Snapshot:
    table = make_table(PORTS)
    return make_snapshot(table, make_frame(3), **changes)  # type: ignore[arg-type]


async def test_it_keeps_an_exporters_promises(context: Context) -> None:
    """The lifecycle holds: inert, restartable, stoppable at any time."""
    await check_exporter(lambda: _exporter(context))


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
    exporter = _exporter(context)
    exporter.publish(make_snapshot(table, frame))
    text = _text(exporter, collect=["all"])
    missing = [f.name for f in FAMILIES if f"\n# TYPE {f.name} " not in text]
    assert missing == []
    documented = " ".join(family.help for family in FAMILIES)
    assert [c.id for c in CATALOGUE if c.id not in documented] == []


def test_counters_beyond_2_to_53_are_modulo(context: Context) -> None:
    """A float64 cannot count in ones beyond 2^53, so the count starts over there."""
    snapshot = _snapshot()
    snapshot.frame.total[0] = [2**53 - 1, 2**53 + 7, 2**64 - 1]
    exporter = _exporter(context)
    exporter.publish(snapshot)
    text = _text(exporter)
    name = "fabricmon_port_receive_bytes_total"
    assert _port(text, name) == 2**53 - 1
    assert _port(text, name, port="Ethernet2") == 7
    assert _port(text, name, device="leaf2") == 2**53 - 1


def test_nanoseconds_become_seconds(context: Context) -> None:
    """Pause time is exported in seconds."""
    snapshot = _snapshot()
    snapshot.frame.queue_total[2, 0, 1] = 1_500_000_000
    exporter = _exporter(context)
    exporter.publish(snapshot)
    text = _text(exporter, collect=["pause"])
    name = "fabricmon_queue_receive_pfc_pause_seconds_total"
    where = {"device": "leaf1", "fabric": "pod1", "port": "Ethernet1"}
    assert _value(text, name, queue="3", **where) == 1.5


def test_ticks_become_seconds_only_where_their_length_is_known(context: Context) -> None:
    """400 Gb/s and 4 bytes a tick make 80 ps a tick; without a tick length there is no series."""
    table = make_table(PORTS)
    table.tick_bytes[0] = 4.0
    exporter = _exporter(context)
    frame = make_frame(3)
    frame.total[4] = 10**12
    exporter.publish(make_snapshot(table, frame))
    text = _text(exporter)
    name = "fabricmon_port_transmit_wait_seconds_total"
    assert _port(text, name) == pytest.approx(80.0)
    assert _port(text, name, port="Ethernet2") is None
    raw = "fabricmon_port_transmit_wait_ticks_total"
    assert _port(_text(exporter, collect=["wait"]), raw, port="Ethernet2") == 1e12


def test_a_change_of_speed_does_not_make_the_wait_jump(context: Context) -> None:
    """Ticks are turned into seconds with the speed at which they were counted."""
    table = make_table(PORTS)
    table.tick_bytes[:] = 4.0
    exporter = _exporter(context)
    first, second = make_frame(3), make_frame(3)
    first.total[4], second.total[4] = 10**12, 10**12 + 10**9
    exporter.publish(make_snapshot(table, first))
    table.speed_bps[:] = 200e9
    exporter.publish(make_snapshot(table, second, tick=2))
    wait = _port(_text(exporter), "fabricmon_port_transmit_wait_seconds_total")
    assert wait == pytest.approx(80.0 + 0.16)


@pytest.mark.parametrize(
    "state", [State.SATURATED, State.UNSUPPORTED, State.STALE, State.OVER_RATE, State.MISSING]
)
def test_what_is_not_known_is_absent_and_never_zero(context: Context, state: State) -> None:
    """A value without a usable number has no series."""
    snapshot = _snapshot()
    snapshot.frame.state[0, 0] = state
    exporter = _exporter(context)
    exporter.publish(snapshot)
    assert _port(_text(exporter), "fabricmon_port_receive_bytes_total") is None
    assert _port(_text(exporter), "fabricmon_port_transmit_bytes_total") == 2.0


def test_a_counter_outlives_three_missed_polls_and_no_more(context: Context) -> None:
    """Its last value stands for three polls, since it had one; then its series ends."""
    exporter, table = _exporter(context), make_table(PORTS)
    name = "fabricmon_port_receive_bytes_total"
    exporter.publish(make_snapshot(table, make_frame(3)))
    there = []
    for tick in range(2, 7):
        frame = make_frame(3)
        frame.state[0, 0] = State.MISSING
        exporter.publish(make_snapshot(table, frame, tick=tick))
        there.append(_port(_text(exporter), name) is not None)
    assert there == [True, True, True, False, False]


def test_ratios_that_are_unknown_are_absent(context: Context) -> None:
    """NaN means that nothing is known: no series."""
    table = make_table(PORTS)
    nan = float("nan")
    frame = make_frame(3, stall=[0.25, nan, 0.0])
    exporter = _exporter(context)
    exporter.publish(make_snapshot(table, frame, anomaly=[0.9, nan, nan]))
    text = _text(exporter)
    assert _port(text, "fabricmon_port_transmit_stall_ratio") == 0.25
    assert _port(text, "fabricmon_port_transmit_stall_ratio", port="Ethernet2") is None
    assert _port(text, "fabricmon_port_anomaly_score") == 0.9
    assert _port(text, "fabricmon_port_anomaly_score", port="Ethernet2") is None


def test_a_vanished_port_has_no_line_left(context: Context) -> None:
    """What is not present in the snapshot is gone from the very next page."""
    exporter = _exporter(context)
    exporter.publish(_snapshot())
    assert "leaf2" in _text(exporter)
    exporter.publish(_snapshot(present=[True, True, False]))
    assert "leaf2" not in _text(exporter)


def test_a_target_that_was_removed_has_no_line_left(context: Context) -> None:
    """A target's own series leave with it."""
    exporter = _exporter(context)
    exporter.publish(_snapshot(targets=[make_status("a"), make_status("b", up=False)]))
    assert (
        _value(_text(exporter), "fabricmon_target_up", collector="snmp", fabric="pod1", target="b")
        == 0.0
    )
    exporter.publish(_snapshot(targets=[make_status("a")]))
    assert 'target="b"' not in _text(exporter)


def test_a_target_that_never_answered_has_no_success_time(context: Context) -> None:
    """No zero stands for "never"."""
    exporter = _exporter(context)
    exporter.publish(_snapshot(targets=[make_status("a", up=False, last_success_ns=None)]))
    assert "fabricmon_target_last_success_timestamp_seconds" not in _text(exporter)


def test_an_incident_names_cause_and_victims(context: Context) -> None:
    """The active incident, its victims and its cost are on the page; job cost is a counter."""
    exporter = _exporter(context)
    incident = make_incident(victims=[Victim("leaf1", "Ethernet1", 0.75)], maintenance=True)
    exporter.publish(_snapshot(incidents=[incident], job_cost={"llm-1": 12.5}))
    text = _text(exporter)
    own = {"fabric": "pod1", "id": incident.id}
    assert (
        _value(
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
    assert _value(text, stall, **own, device="leaf1", port="Ethernet1") == 0.75
    assert _value(text, "fabricmon_incident_maintenance", **own) == 1.0
    job = "fabricmon_job_stalled_gpu_seconds_total"
    assert _value(text, job, fabric="pod1", job="llm-1") == 12.5


def test_an_incident_is_counted_once(context: Context) -> None:
    """The counter of opened incidents starts at zero and counts each incident one time."""
    exporter = _exporter(context)
    name, where = "fabricmon_incidents_opened_total", {"fabric": "pod1", "kind": "slow-receiver"}
    exporter.publish(_snapshot())
    assert _value(_text(exporter), name, **where) == 0.0
    for _ in range(3):
        exporter.publish(_snapshot(incidents=[make_incident()]))
    exporter.publish(_snapshot(closed=[make_incident()]))
    assert _value(_text(exporter), name, **where) == 1.0


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


def test_a_port_has_at_most_ten_series(context: Context) -> None:
    """However much a port counts, the default page has ten series of it; `collect[]` has all."""
    port = [c.id for c in CATALOGUE if c.scope == "port" and not c.is_gauge]
    queue = [c.id for c in CATALOGUE if c.scope == "queue" and not c.is_gauge]
    frame = make_frame(3, counters=port, queue_counters=queue, queues=tuple(range(8)))
    exporter = _exporter(context)
    exporter.publish(make_snapshot(make_table(PORTS), frame))
    mine = re.compile(r'^fabricmon_(?:port|queue)_.*device="leaf2"', re.MULTILINE)
    assert len(mine.findall(_text(exporter))) == 10
    assert len(mine.findall(_text(exporter, collect=["all"]))) > 60


def test_only_busy_or_lossless_queues_are_on_the_default_page(context: Context) -> None:
    """A queue that never paused or marked costs no series, unless it is declared lossless."""
    frame = make_frame(3)
    frame.queue_total[:] = 0
    frame.queue_total[0, 0, 0] = 5
    exporter = _exporter(context)
    lossless = Topology(intent=Intent((3,)))
    exporter.publish(make_snapshot(make_table(PORTS), frame, topology=lossless))
    text, name = _text(exporter), "fabricmon_queue_receive_pfc_frames_total"
    found = set(
        re.findall(rf'{name}{{device="(\w+)",fabric="pod1",port="(\w+)",queue="(\d)"', text)
    )
    assert found == {("leaf1", "Ethernet1", "0"), *((d, p, "3") for d, p in PORTS)}


def test_shards_hold_every_port_once(context: Context) -> None:
    """The shards hold what the whole page holds, each line once; own metrics are in shard 0."""
    ports = [(f"leaf{i}", f"e{j}") for i in range(20) for j in range(3)]
    snapshot = make_snapshot(
        make_table(ports),
        make_frame(60),
        targets=[make_status(f"leaf{i}") for i in range(20)],
        incidents=[make_incident()],
    )
    exporter = _exporter(context)
    exporter.publish(snapshot)
    series = re.compile(r"^fabricmon_(?:port|queue|target|incident)_.*$", re.MULTILINE)
    whole = sorted(series.findall(_text(exporter)))
    shards = [_text(exporter, shard=[f"{i}/3"]) for i in range(3)]
    parts = [series.findall(text) for text in shards]
    assert sorted(line for part in parts for line in part) == whole
    assert all(parts)
    assert ["fabricmon_build_info{" in text for text in shards] == [True, False, False]


def test_two_fabrics_share_each_familys_header(context: Context) -> None:
    """A page over several fabrics says HELP and TYPE once per metric, all its lines together."""
    exporter = _exporter(context)
    for fabric in ("pod2", "pod1"):
        table = make_table([("leaf1", "Ethernet1")])
        exporter.publish(make_snapshot(table, make_frame(1), fabric=fabric))
    text = _text(exporter)
    assert len(re.findall(r"^# HELP fabricmon_port_info ", text, re.MULTILINE)) == 1
    lines = text.split("\n")
    at = lines.index("# TYPE fabricmon_port_receive_bytes_total counter")
    assert ['fabric="pod1"' in lines[at + 1], 'fabric="pod2"' in lines[at + 2]] == [True, True]
    exporter.forget("pod2")
    assert "pod2" not in _text(exporter)


def test_the_ceiling_drops_and_counts(context: Context) -> None:
    """Series beyond the ceiling are not rendered, and the loss is counted and reported."""
    exporter = _exporter(context, max_series=4)
    exporter.publish(_snapshot())
    text = _text(exporter)
    assert len(re.findall(r"^fabricmon_(?:port|queue)_", text, re.MULTILINE)) == 4
    dropped = _value(text, "fabricmon_series_dropped_total", reason="ceiling")
    assert dropped is not None
    assert dropped >= 3 * 8 - 4


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"collect[]": ["traffik"]}, "unknown collect"),
        ({"shard": ["3/3"]}, "shard is i/n"),
        ({"shard": ["x"]}, "shard is i/n"),
        ({"shard": ["0/0"]}, "shard is i/n"),
        ({"shard": ["0/2", "1/2"]}, "twice"),
    ],
)
def test_a_bad_query_says_what_is_allowed(
    context: Context, query: dict[str, list[str]], said: str
) -> None:
    """A scrape with a wrong parameter is refused with a reason."""
    with pytest.raises(ValueError, match=re.escape(said)):
        _exporter(context).page(query, openmetrics=False)


def test_collect_restricts_to_what_was_asked(context: Context) -> None:
    """`collect[]` with groups and names gives those and nothing else."""
    exporter = _exporter(context)
    exporter.publish(_snapshot())
    text = _text(exporter, collect=["traffic", "fabricmon_port_anomaly_score"])
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert names == {
        "fabricmon_port_receive_bytes_total",
        "fabricmon_port_transmit_bytes_total",
        "fabricmon_port_anomaly_score",
    }


def test_scrapes_between_two_ticks_share_one_render(context: Context) -> None:
    """The same page object is handed out until the next tick, or until own metrics are old."""
    exporter = _exporter(context)
    exporter.publish(_snapshot())
    first = exporter.page({}, openmetrics=False)
    assert exporter.page({}, openmetrics=False) is first
    exporter.publish(_snapshot(tick=2))
    assert exporter.page({}, openmetrics=False) is not first


def test_new_queues_do_not_mix_up_what_is_remembered(context: Context) -> None:
    """When a queue appears in front of known ones, held values stay with their queue."""
    exporter, table = _exporter(context), make_table(PORTS)
    exporter.publish(make_snapshot(table, make_frame(3, queues=(3,))))
    frame = make_frame(3, queues=(0, 3))
    frame.queue_state[:] = State.MISSING
    exporter.publish(make_snapshot(table, frame, tick=2))
    text = _text(exporter, collect=["ecn"])
    assert set(re.findall(r'queue="(\d)"', text)) == {"3"}


def test_what_a_job_lost_is_told_in_money_only_with_a_price(context: Context) -> None:
    """Without a price there is no cost series at all."""
    exporter = _exporter(context)
    exporter.publish(_snapshot(job_cost={"llm-1": 3600.0}))
    assert "fabricmon_job_stalled_cost_total{" not in _text(exporter)
    exporter.publish(_snapshot(job_cost={"llm-1": 3600.0}, job_money={"llm-1": 2.5}))
    own = {"fabric": "pod1", "job": "llm-1"}
    assert _value(_text(exporter), "fabricmon_job_stalled_cost_total", **own) == 2.5
