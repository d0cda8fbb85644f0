"""From a simulated fault to a firing alert: the whole way, with the shipped rules."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from support import ROOT
from support.promserver import PromServer, prometheus
from support.webstate import HandState

from fabricmon import app, simulate
from fabricmon.runtime.offline import drive
from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}/recording.yml', '{rules}/alerts.yml']
scrape_configs:
  - job_name: fabricmon
    params: {{'collect[]': [incidents]}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""
_FAULT_S = 130.0
"""The fault of these scenarios is open by then."""
SCENARIOS = {
    "incast": {"FabricmonIncast"},
    "slow-receiver-ib": {"FabricmonSlowReceiver"},
    "pfc-one-sided": {"FabricmonLosslessMisconfig"},
    "healthy": set(),
}


def _play(exporter: PrometheusExporter) -> None:
    """Every scenario as a fabric of its own name, up to the middle of its fault."""
    for name in SCENARIOS:
        simulation = simulate.load(name, seed=1, duration=_FAULT_S)
        quiet = app.make_context(quiet=True)
        outcome = drive(simulation.items(), app.make_pipeline(name, quiet))
        assert outcome.latest is not None
        exporter.publish(outcome.latest)


async def test_a_fault_fires_its_alert_and_a_healthy_fabric_none(
    context: Context, tmp_path: Path
) -> None:
    """What the simulator breaks, the pipeline diagnoses and Prometheus alerts on, by fabric."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, HandState(), exporter)
    await server.start()
    with ExitStack() as stack:
        try:
            await asyncio.to_thread(_play, exporter)
            config = _CONFIG.format(rules=ROOT / "deploy" / "prometheus", port=server.port)
            prom = await asyncio.to_thread(stack.enter_context, prometheus(tmp_path, config))
            found = await asyncio.to_thread(_alerts, prom)
        finally:
            await server.stop()
    assert found == SCENARIOS


def _alerts(prom: PromServer) -> dict[str, set[str]]:
    prom.wait(lambda: len(prom.get("/api/v1/alerts")["data"]["alerts"]) >= 3)
    prom.wait(lambda: prom.query("fabric:fabricmon_incidents_active:count"))
    found: dict[str, set[str]] = {name: set() for name in SCENARIOS}
    for alert in prom.get("/api/v1/alerts")["data"]["alerts"]:
        if alert["labels"]["alertname"] != "FabricmonDown":
            found[alert["labels"]["fabric"]].add(alert["labels"]["alertname"])
    return found
