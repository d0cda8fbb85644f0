"""The dashboards: sound JSON, and every query gives data on a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import ROOT
from support.promserver import PromServer, prometheus
from support.snapshots import (
    leaf_spine,
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)
from support.webstate import HandState

from fabricmon.model.counters import CATALOGUE
from fabricmon.model.incident import Cause, Victim
from fabricmon.model.readings import State
from fabricmon.model.topology import Technology
from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

FILES = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
BOARDS = {path.name: json.loads(path.read_text()) for path in FILES}
_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: fabricmon
    params: {{'collect[]': [all]}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""
_MEANING = {
    "$__rate_interval": "30s",
    "$__range": "30s",
    **dict.fromkeys(("$fabric", "$device", "$port", "$id", "$job"), ".*"),
}


def _panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_there_is_a_dashboard_for_each_question() -> None:
    """Overview, incident, port, RoCE, InfiniBand, jobs, itself: each with its own uid."""
    assert [board["uid"] for board in BOARDS.values()] == [
        "fabricmon-incident",
        "fabricmon-infiniband",
        "fabricmon-jobs",
        "fabricmon-overview",
        "fabricmon-port",
        "fabricmon-roce",
        "fabricmon-self",
    ]


def test_the_json_is_what_the_code_writes() -> None:
    """Nobody edited a dashboard by hand."""
    done = subprocess.run(
        [sys.executable, ROOT / "deploy" / "grafana" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_sound(name: str) -> None:
    """Ids are unique, nothing overlaps, queries name what they need and use what is declared."""
    board = BOARDS[name]
    assert board["schemaVersion"] >= 39
    assert max(Counter(panel["id"] for panel in board["panels"]).values()) == 1
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + dx, place["y"] + dy)
            for dx in range(place["w"])
            for dy in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    declared = {variable["name"] for variable in board["templating"]["list"]}
    for panel in _panels(board):
        assert panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        refs = [target["refId"] for target in panel["targets"]]
        assert all(refs)
        assert len(set(refs)) == len(refs)
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
            assert used <= declared, (panel["title"], used)


def test_queries_ask_only_for_metrics_that_exist() -> None:
    """Every name in every query is in the reference of metrics."""
    known = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "metrics.md").read_text()))
    for board in BOARDS.values():
        for panel in _panels(board):
            for target in panel["targets"]:
                names = set(re.findall(r"\bfabricmon_\w+", target["expr"]))
                plain = {re.sub(r"_bucket$", "", name) for name in names}
                assert plain <= known, (panel["title"], plain - known)


@pytest.mark.wire
async def test_every_query_gives_data(context: Context, tmp_path: Path) -> None:
    """With one RoCE and one InfiniBand fabric, no panel is empty and every variable has values."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, HandState(), exporter)
    await server.start()
    metrics = context.report.metrics
    metrics.series_dropped.labels("ceiling").inc(0)
    with ExitStack() as stack:
        try:
            _publish(exporter, 1)
            prom = await asyncio.to_thread(
                stack.enter_context, prometheus(tmp_path, _CONFIG.format(port=server.port))
            )
            empty = ["nothing was asked"]
            for tick in range(2, 60):
                for fabric in ("roce", "ib"):
                    metrics.stage_duration.labels(fabric, "detect").observe(0.01)
                metrics.tick_lateness.observe(0.01)
                await asyncio.to_thread(_publish, exporter, tick)
                await context.clock.advance(2)  # type: ignore[attr-defined]
                await asyncio.sleep(0.5)
                if tick % 5 == 0 and not (empty := await asyncio.to_thread(_empty, prom)):
                    break
        finally:
            await server.stop()
    assert not empty, "\n".join(empty)


def _publish(exporter: PrometheusExporter, tick: int) -> None:
    """Everything that can be counted, counting."""
    for fabric, technology in (("roce", Technology.ROCE), ("ib", Technology.INFINIBAND)):
        topology = leaf_spine(2, 2, 2, technology)
        table = make_table([])
        table.adopt(topology)
        n = len(table)
        counts = [c for c in CATALOGUE if not c.is_gauge]
        frame = make_frame(
            n,
            counters=[c.id for c in counts if c.scope == "port"],
            queue_counters=[c.id for c in counts if c.scope == "queue"],
            stall=[0.5] * n,
            step=tick,
        )
        frame.state[0, 0] = State.SATURATED
        for level in CATALOGUE:
            if level.is_gauge and level.scope == "port":
                frame.gauges[level.id] = np.ones(n, np.float32)
            elif level.is_gauge:
                frame.queue_gauges[level.id] = np.ones((n, 2), np.float32)
        victims = [Victim("leaf0", "up0", 0.5), Victim("spine0", "p1", 0.4)]
        cause = Cause("leaf1", "down0", None, "host1-0", "mlx5_0/1", 0.9)
        exporter.publish(
            make_snapshot(
                table,
                frame,
                fabric=fabric,
                tick=tick,
                topology=topology,
                incidents=[make_incident(cause, victims, fabric=fabric)],
                targets=[make_status(fabric=fabric, failures={"timeout": tick})],
                job_cost={"llm-1": float(tick)},
                anomaly=[0.5] * n,
            )
        )


def _meant(expression: str) -> str:
    """The expression as Grafana sends it, with everything chosen."""
    for variable, meaning in _MEANING.items():
        expression = expression.replace(variable, meaning)
    return expression


def _without_choice(prom: PromServer, board: dict[str, Any]) -> list[str]:
    """Variables of a board that offer nothing to choose."""
    out = []
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
        assert asked is not None, variable
        answer = prom.get(f"/api/v1/label/{asked[2]}/values", **{"match[]": _meant(asked[1])})
        if answer["status"] != "success" or not answer["data"]:
            out.append(f"{board['uid']}: ${variable['name']}: {answer}")
    return out


def _empty(prom: PromServer) -> list[str]:
    out = []
    for name, board in BOARDS.items():
        out += _without_choice(prom, board)
        for panel in _panels(board):
            for target in panel["targets"]:
                expression = _meant(target["expr"])
                answer = prom.get("/api/v1/query", query=expression)
                if answer["status"] != "success" or not answer["data"]["result"]:
                    out.append(f"{name}: {panel['title']}: {expression}: {answer.get('error')}")
    return out
