"""A device that invents ports meets the ceiling: refused, counted, and nothing else suffers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pipelines import batch, limited, ports
from support.selfmon import events

from fabricmon import app, config, yamlfile
from fabricmon.api import Context
from fabricmon.errors import ConfigError
from fabricmon.model import ports as model_ports
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Link, Node, PortId, Topology
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

_S = 10**9
_START = 1_780_000_000 * _S


def test_ports_beyond_the_limit_are_refused_and_counted(context: Context) -> None:
    """The page holds as many ports as the limit says, those read first; their rates stay right."""
    pipeline, exporter = limited(context, 4), PrometheusExporter(PrometheusConfig(), context)
    good = ports("leaf", "1", "2", "3")
    greedy = ports("liar", *map(str, range(100)))
    for poll in range(3):
        now = _START + poll * 10 * _S
        for target, own in (("leaf", good), ("liar", greedy)):
            pipeline.feed(batch(target, own, poll * 1000, now))
        snapshot = pipeline.feed(Tick(now, 10.0))
    assert snapshot is not None
    exporter.publish(snapshot)
    page = exporter.page({}, openmetrics=False).body.decode()
    assert 4 == len(pipeline.table) == page.count("\nfabricmon_port_receive_bytes_total{")
    assert 99 == pipeline.table.refused
    assert 1 == events(context, "ports_refused"), "once, not at every poll"
    assert [100.0] * 4 == snapshot.frame.rate_of("rx_bytes").tolist()


def test_names_that_change_at_every_poll_leave_nothing_behind(context: Context) -> None:
    """New names in each poll are refused in each; the arrays do not grow."""
    pipeline = limited(context, 8)
    for poll in range(5):
        now = _START + poll * 10 * _S
        names = (f"{poll}.{i}" for i in range(16))
        pipeline.feed(batch("liar", ports("liar", *names), poll, now))
        snapshot = pipeline.feed(Tick(now, 10.0))
    assert snapshot is not None
    assert 8 == len(pipeline.table) == snapshot.frame.n_ports
    assert 4 * 16 + 8 == pipeline.table.refused
    assert 5 == events(context, "ports_refused")


def test_a_topology_beyond_the_limit_is_taken_as_far_as_it_goes(context: Context) -> None:
    """Cables to ports without a row are left out, and the tick after it works."""
    pipeline = limited(context, 3)
    nodes = (Node("a", "switch"), Node("b", "switch"))
    links = tuple(Link(PortId("a", str(i)), PortId("b", str(i))) for i in range(4))
    pipeline.feed(Topology(nodes, links))
    pipeline.feed(batch("a", ports("a", "0", "1", "2", "3"), 0, _START))
    snapshot = pipeline.feed(Tick(_START, 10.0))
    assert snapshot is not None
    assert [1, 0, -1] == pipeline.table.peer.tolist()
    assert pipeline.table.refused > 0
    assert 1 == events(context, "ports_refused")


def test_targets_beyond_the_limit_are_refused(tmp_path: Path, context: Context) -> None:
    """An inventory that outgrew the limit is one clear error, and the running config stays."""
    (tmp_path / "sd.json").write_text('[{"targets": ["a", "b", "c"]}]')
    text = f"limits: {{targets: 2}}\ntargets: [{{collector: snmp, file_sd: [{tmp_path}/sd.json]}}]"
    loaded = config.accept(yamlfile.loads(text, file="limits.yaml"))
    with pytest.raises(ConfigError, match="3 targets; the limit is 2"):
        app.assemble(loaded, context)


def test_a_source_that_makes_a_new_set_of_ports_in_each_poll_fills_no_cache(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered of port sets is bounded by their names, not by their number."""
    monkeypatch.setattr(model_ports, "_MOST_NAMES", 500)
    pipeline = limited(context, 100)
    for poll in range(60):
        now = _START + poll * 10 * _S
        pipeline.feed(batch("t", ports("t", *map(str, range(100))), poll, now))
        pipeline.feed(Tick(now, 10.0))
    staging = pipeline._stages.normalizer._staging
    assert len(pipeline.table._sets) <= 5
    assert len(staging._rows) <= 5
