"""Rows of ports long gone are given to new ones, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.pipelines import batch, limited, ports
from support.restarts import START, S, Story, feed
from support.selfmon import events

from fabricmon import app
from fabricmon.model.incident import Verdict
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Link, PortId, Topology
from fabricmon.runtime.pipeline import pipeline as pipeline_module
from fabricmon.web.api.history import History
from fabricmon.web.api.view import moment_json, port_json
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter
from fabricmon_exporters.prometheus.families import FAMILIES
from fabricmon_exporters.remote_write.encode import FabricEncoder

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot


def test_rows_of_ports_long_gone_are_given_to_new_ones(context: Context) -> None:
    """The table is full of ports that nobody tells of any more: new ones take their rows."""
    pipeline = limited(context, 6)
    cable = Topology(links=(Link(PortId("leaf", "1"), PortId("spine", "9")),))
    pipeline.feed(cable)
    stay, gone, late = ports("leaf", "1"), ports("old", "a", "b", "c"), ports("new", "x", "y", "z")
    page = PrometheusExporter(PrometheusConfig(), context)
    pushed, history = FabricEncoder("pod", FAMILIES, {}), History(1 << 30)
    for poll in range(140):
        now = START + poll * 10 * S
        pipeline.feed(batch("leaf", stay, poll * 1_000, now))
        if poll < 5:
            pipeline.feed(batch("old", gone, poll * 2_000, now))
        if poll > 70:
            pipeline.feed(batch("new", late, poll * 3_000, now))
        snapshot = pipeline.feed(Tick(now, 10.0))
        assert snapshot is not None
        page.publish(snapshot)
        list(pushed.requests(snapshot))
        history.add(snapshot)
        row = snapshot.table.row(PortId("leaf", "1"))
        assert row is not None
        if poll > 0:
            assert snapshot.frame.rate_of("rx_bytes")[row] == 100.0
            assert snapshot.window is not None
    named = {(port.device, port.port) for port in snapshot.table.ids}
    assert named == {("leaf", "1"), ("spine", "9"), ("new", "x"), ("new", "y"), ("new", "z")}
    rates = dict(zip(snapshot.table.ids, snapshot.frame.rate_of("rx_bytes").tolist(), strict=True))
    assert rates[PortId("new", "z")] == 300.0
    assert snapshot.table.peer[snapshot.table.row(PortId("leaf", "1"))] == snapshot.table.row(
        PortId("spine", "9")
    )
    assert snapshot.window.of_port(row)[5, -1] == 100.0
    assert events(context, "ports_forgotten") >= 1

    text = page.page({}, openmetrics=False).body.decode()
    for (device, port), rate in ((PortId("new", "z"), 3_000), (PortId("leaf", "1"), 1_000)):
        labels = f'{{device="{device}",fabric="pod",port="{port}"}}'
        assert f"fabricmon_port_receive_bytes_total{labels} {rate * 139}.0" in text.replace(
            f" {rate * 139}\n", f" {rate * 139}.0\n"
        )
    assert 'device="old"' not in text
    sent = b"".join(request.body for request in pushed.requests(snapshot))
    fresh = FabricEncoder("pod", FAMILIES, {})
    assert len(sent) == len(b"".join(request.body for request in fresh.requests(snapshot)))
    assert b"old" not in sent
    moments = history.moments("pod")
    seen = port_json(snapshot, row, snapshot.window, moments)["rates"]["rx_bytes"]
    assert set(seen[1:]) == {100.0}
    assert moment_json(snapshot, moments[3])["tick"] == 4


def test_few_rows_are_not_worth_the_copying(context: Context) -> None:
    """Where there is room, a handful of rows stays; a port that returns has its own row again."""
    pipeline = limited(context, 100)
    for poll in range(90):
        now = START + poll * 10 * S
        pipeline.feed(batch("leaf", ports("leaf", "1"), poll, now))
        if poll < 5 or poll == 89:
            pipeline.feed(batch("old", ports("old", "a"), poll, now))
        pipeline.feed(Tick(now, 10.0))
    assert events(context, "ports_forgotten") == 0
    assert len(pipeline.table) == 2


def _fabric(snapshot: Snapshot) -> list[tuple[object, ...]]:
    """Incidents but those about telemetry: a crowd that went silent is no trouble once gone."""
    return [
        (i.id, i.kind, i.cause and i.cause.port, {(v.device, v.port) for v in i.victims})
        for i in snapshot.incidents
        if i.verdict is not Verdict.TELEMETRY
    ]


def test_giving_rows_back_changes_no_number_and_no_incident(
    storm: Story, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of rows go while a storm is on: beside a run that keeps them nothing differs."""
    opened = storm.opened
    runs, stories = [], []
    for few in (pipeline_module._FEW_GONE, 10_000):
        monkeypatch.setattr(pipeline_module, "_FEW_GONE", few)
        pipeline = app.make_pipeline(storm.fabric, context)
        snapshots, told = [], []
        for number, items in enumerate(storm.ticks):
            if number == opened - 62:
                first = items[-1]
                assert isinstance(first, Tick)
                crowd = ports("crowd", *map(str, range(300)))
                pipeline.feed(batch("crowd", crowd, 1, first.time_ns))
            snapshots.append(feed(pipeline, items))
            told.append(_fabric(snapshots[-1]))
        runs.append(snapshots)
        stories.append(told)
    assert events(context, "ports_forgotten") == 1
    n = len(runs[0][-1].table)
    assert 300 + n == len(runs[1][-1].table)
    assert stories[0] == stories[1]
    assert stories[0][-1]
    old = [runs[1][-1].table.row(port) for port in runs[0][-1].table.ids]
    for signal in ("stall", "tx_use", "rx_pause"):
        mine, other = (run[-1].window.past(signal) for run in runs)
        assert np.array_equal(mine, other[:, old], equal_nan=True)
    anomaly, kept = (run[-1].scores.anomaly for run in runs)
    assert np.array_equal(anomaly, kept[old], equal_nan=True)
