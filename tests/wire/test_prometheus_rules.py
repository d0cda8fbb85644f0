"""Recording rules, alerts and runbooks."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support import ROOT, require
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

from fabricmon.model.incident import IncidentKind, Severity, Victim
from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = pytest.mark.wire

RULES = ROOT / "deploy" / "prometheus"
_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}/recording.yml', '{rules}/alerts.yml']
scrape_configs:
  - job_name: fabricmon
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def _promtool(*arguments: str) -> None:
    done = subprocess.run(
        [require("promtool"), *arguments],
        cwd=RULES,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_generated_files_are_up_to_date() -> None:
    """Rules, their tests and runbooks say what the code says."""
    done = subprocess.run(
        [sys.executable, RULES / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_promtool_accepts_and_passes_the_rules() -> None:
    """Every rule parses; each alert fires in its case, and none for a healthy daemon."""
    _promtool("check", "rules", "recording.yml", "alerts.yml")
    _promtool("check", "config", "--syntax-only", "prometheus.yml")
    _promtool("test", "rules", "tests.yml")


def test_every_alert_is_tested_and_has_its_page() -> None:
    """No alert without unit test, summary, description and runbook page."""
    text = (RULES / "alerts.yml").read_text()
    names = re.findall(r"- alert: (\w+)", text)
    assert len(names) >= 20
    tested = set(re.findall(r"alertname: (\w+)", (RULES / "tests.yml").read_text()))
    assert set(names) == tested
    for word in ("summary:", "description:", "runbook_url:"):
        assert text.count(word) == len(names)
    for page in re.findall(r"runbook_url: (\S+)", text):
        assert (ROOT / page).read_text().count("\n## ") >= 3


async def test_a_real_prometheus_fires_each_kind_and_nothing_when_healthy(
    context: Context, tmp_path: Path
) -> None:
    """Each kind fires its own alert, maintenance holds it, and a closed one stops firing."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, HandState(), exporter)
    await server.start()
    topology = leaf_spine(2, 2, 2)
    table = make_table([])
    table.adopt(topology)
    context.report.metrics.reload_ok.set(1)

    def tick(number: int, incidents: list[Any]) -> None:
        frame = make_frame(len(table), step=number)
        context.report.metrics.detector_last_run.labels("pod1").set(4e9)
        exporter.publish(
            make_snapshot(
                table,
                frame,
                tick=number,
                topology=topology,
                incidents=incidents,
                targets=[make_status()],
                job_cost={"llm-1": 1.0},
            )
        )

    victims = [Victim("leaf0", "up0", 0.5)]
    active = [
        make_incident(victims=victims, id=f"{i:04d}", kind=kind, severity=Severity.SEVERE)
        for i, kind in enumerate(IncidentKind)
    ]
    active.append(make_incident(id="work", kind=IncidentKind.INCAST, maintenance=True))
    with ExitStack() as stack:
        try:
            tick(1, active)
            config = _CONFIG.format(rules=RULES, port=server.port)
            prom = await asyncio.to_thread(stack.enter_context, prometheus(tmp_path, config))
            await asyncio.to_thread(_all_fire, prom)
            await context.clock.advance(2)  # type: ignore[attr-defined]
            tick(2, [])
            assert await asyncio.to_thread(prom.wait, lambda: not _firing(prom))
            recorded = await asyncio.to_thread(
                prom.query, "fabric:fabricmon_port_transmit_stall_ratio:max"
            )
            assert recorded
        finally:
            await server.stop()


def _firing(prom: PromServer) -> set[tuple[str, str]]:
    alerts = prom.get("/api/v1/alerts")["data"]["alerts"]
    return {(one["labels"]["alertname"], one["labels"]["severity"]) for one in alerts}


def _all_fire(prom: PromServer) -> None:
    expected = {
        ("Fabricmon" + "".join(word.capitalize() for word in kind.split("-")), "critical")
        for kind in IncidentKind
    }
    assert prom.wait(lambda: _firing(prom) == expected), _firing(prom) ^ expected
    alerts = prom.get("/api/v1/alerts")["data"]["alerts"]
    assert "work" not in {one["labels"].get("id") for one in alerts}
