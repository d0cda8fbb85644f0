"""From a simulated fault to a firing alert: the whole way, with the shipped rules."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support import ROOT
from support.promserver import PromServer, prometheus
from support.webstate import HandState

from fabricmon import app, simulate
from fabricmon.model.incident import IncidentKind
from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot

pytestmark = [pytest.mark.wire, pytest.mark.timeout(600)]

_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}/recording.yml', '{rules}/alerts.yml']
scrape_configs:
  - job_name: fabricmon
    params: {{'collect[]': [incidents]}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""
FAULTS = {
    "incast": IncidentKind.INCAST,
    "slow-receiver-ib": IncidentKind.SLOW_RECEIVER,
    "pfc-storm": IncidentKind.PFC_STORM,
    "pfc-deadlock": IncidentKind.PFC_DEADLOCK,
    "oversubscription": IncidentKind.OVERSUBSCRIPTION,
    "path-imbalance": IncidentKind.PATH_IMBALANCE,
    "degraded-link": IncidentKind.DEGRADED_LINK,
    "flapping-link": IncidentKind.FLAPPING_LINK,
    "pfc-one-sided": IncidentKind.LOSSLESS_MISCONFIG,
    "collective-stall": IncidentKind.COLLECTIVE_STALL,
    "telemetry-stale": IncidentKind.TELEMETRY_STALE,
    "counter-reset": IncidentKind.COUNTER_RESET,
    "counter-broken": IncidentKind.COUNTER_BROKEN,
}
"""A scenario for each kind that has a signature; `unclassified` is what has none."""
HEALTHY = ("healthy", "healthy-ib", "benign-all-to-all", "benign-checkpoint")


def _alert(kind: str) -> str:
    return "Fabricmon" + "".join(word.capitalize() for word in kind.split("-"))


EXPECTED = {
    **{name: {_alert(kind)} for name, kind in FAULTS.items()},
    **{name: set() for name in HEALTHY},
}


def _play(name: str) -> Snapshot:
    """The tick at which the scenario's fault is told; of a healthy one, the last."""
    pipeline = app.make_pipeline(name, app.make_context(quiet=True))
    told = None
    for item in simulate.load(name, seed=1).items():
        told = pipeline.feed(item) or told
        if told and any(incident.kind is FAULTS.get(name) for incident in told.incidents):
            break
    assert told is not None
    return told


async def test_a_fault_fires_its_alert_and_a_healthy_fabric_none(
    context: Context, tmp_path: Path
) -> None:
    """What the simulator breaks, the pipeline diagnoses and Prometheus alerts on, by fabric."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, HandState(), exporter)
    await server.start()
    with ExitStack() as stack:
        try:
            for name in EXPECTED:
                exporter.publish(await asyncio.to_thread(_play, name))
            config = _CONFIG.format(rules=ROOT / "deploy" / "prometheus", port=server.port)
            prom = await asyncio.to_thread(stack.enter_context, prometheus(tmp_path, config))
            found = await asyncio.to_thread(_alerts, prom)
        finally:
            await server.stop()
    assert found == EXPECTED


def _alerts(prom: PromServer) -> dict[str, set[str]]:
    prom.wait(lambda: prom.query("fabric:fabricmon_incidents_active:count"))
    prom.wait(lambda: len(_firing(prom)) >= len(FAULTS))
    found: dict[str, set[str]] = {name: set() for name in EXPECTED}
    for one in _firing(prom):
        found[one["labels"]["fabric"]].add(one["labels"]["alertname"])
    return found


def _firing(prom: PromServer) -> list[dict[str, Any]]:
    """Alerts about fabrics. Before the first scrape there is one about fabricmon itself."""
    alerts: list[dict[str, Any]] = prom.get("/api/v1/alerts")["data"]["alerts"]
    return [one for one in alerts if "fabric" in one["labels"]]
