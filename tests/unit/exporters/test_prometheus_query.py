"""How much of it all a scrape gets: the default page, `collect[]`, shards and the ceiling."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.scrape import PORTS, make_exporter, page_text, simple_snapshot, value_of
from support.snapshots import (
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)

from fabricmon.model.counters import CATALOGUE
from fabricmon.model.topology import Intent, Topology

if TYPE_CHECKING:
    from fabricmon.api import Context


def test_a_port_has_at_most_ten_series(context: Context) -> None:
    """However much a port counts, the default page has ten series of it; `collect[]` has all."""
    port = [c.id for c in CATALOGUE if c.scope == "port" and not c.is_gauge]
    queue = [c.id for c in CATALOGUE if c.scope == "queue" and not c.is_gauge]
    frame = make_frame(3, counters=port, queue_counters=queue, queues=tuple(range(8)))
    exporter = make_exporter(context)
    exporter.publish(make_snapshot(make_table(PORTS), frame))
    mine = re.compile(r'^fabricmon_(?:port|queue)_.*device="leaf2"', re.MULTILINE)
    assert len(mine.findall(page_text(exporter))) == 10
    assert len(mine.findall(page_text(exporter, collect=["all"]))) > 60


def test_only_busy_or_lossless_queues_are_on_the_default_page(context: Context) -> None:
    """A queue that never paused or marked costs no series, unless it is declared lossless."""
    frame = make_frame(3)
    frame.queue_total[:] = 0
    frame.queue_total[0, 0, 0] = 5
    exporter = make_exporter(context)
    lossless = Topology(intent=Intent((3,)))
    exporter.publish(make_snapshot(make_table(PORTS), frame, topology=lossless))
    text, name = page_text(exporter), "fabricmon_queue_receive_pfc_frames_total"
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
    exporter = make_exporter(context)
    exporter.publish(snapshot)
    series = re.compile(r"^fabricmon_(?:port|queue|target|incident)_.*$", re.MULTILINE)
    whole = sorted(series.findall(page_text(exporter)))
    shards = [page_text(exporter, shard=[f"{i}/3"]) for i in range(3)]
    parts = [series.findall(text) for text in shards]
    assert sorted(line for part in parts for line in part) == whole
    assert all(parts)
    assert ["fabricmon_build_info{" in text for text in shards] == [True, False, False]


def test_two_fabrics_share_each_familys_header(context: Context) -> None:
    """A page over several fabrics says HELP and TYPE once per metric, all its lines together."""
    exporter = make_exporter(context)
    for fabric in ("pod2", "pod1"):
        table = make_table([("leaf1", "Ethernet1")])
        exporter.publish(make_snapshot(table, make_frame(1), fabric=fabric))
    text = page_text(exporter)
    assert len(re.findall(r"^# HELP fabricmon_port_info ", text, re.MULTILINE)) == 1
    lines = text.split("\n")
    at = lines.index("# TYPE fabricmon_port_receive_bytes_total counter")
    assert ['fabric="pod1"' in lines[at + 1], 'fabric="pod2"' in lines[at + 2]] == [True, True]
    exporter.forget("pod2")
    assert "pod2" not in page_text(exporter)


def test_the_ceiling_drops_and_counts(context: Context) -> None:
    """Series beyond the ceiling are not rendered, and the loss is counted and reported."""
    exporter = make_exporter(context, max_series=4)
    exporter.publish(simple_snapshot())
    text = page_text(exporter)
    assert len(re.findall(r"^fabricmon_(?:port|queue)_", text, re.MULTILINE)) == 4
    dropped = value_of(text, "fabricmon_series_dropped_total", reason="ceiling")
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
        make_exporter(context).page(query, openmetrics=False)


def test_collect_restricts_to_what_was_asked(context: Context) -> None:
    """`collect[]` with groups and names gives those and nothing else."""
    exporter = make_exporter(context)
    exporter.publish(simple_snapshot())
    text = page_text(exporter, collect=["traffic", "fabricmon_port_anomaly_score"])
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert names == {
        "fabricmon_port_receive_bytes_total",
        "fabricmon_port_transmit_bytes_total",
        "fabricmon_port_anomaly_score",
    }


def test_scrapes_between_two_ticks_share_one_render(context: Context) -> None:
    """The same page object is handed out until the next tick, or until own metrics are old."""
    exporter = make_exporter(context)
    exporter.publish(simple_snapshot())
    first = exporter.page({}, openmetrics=False)
    assert exporter.page({}, openmetrics=False) is first
    exporter.publish(simple_snapshot(tick=2))
    assert exporter.page({}, openmetrics=False) is not first
