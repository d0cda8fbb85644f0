"""A real Prometheus scrapes the web server."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support.promserver import PromServer, prometheus
from support.snapshots import make_frame, make_incident, make_snapshot, make_status, make_table
from support.webstate import HandState

from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = pytest.mark.wire

_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: fabricmon
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""
PORTS = [("leaf1", "Ethernet1"), ('evil"\\\n{}', "é <b>"), ("leaf2", "Ethernet1")]


async def test_a_real_prometheus_scrapes_and_forgets_what_vanished(
    context: Context, tmp_path: Path
) -> None:
    """`up` is 1; values, hostile names, incidents arrive; what leaves the page leaves queries."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, HandState(), exporter)
    await server.start()
    table = make_table(PORTS)
    with ExitStack() as stack:
        try:
            targets = [make_status("a"), make_status("b")]
            exporter.publish(
                make_snapshot(table, make_frame(3), targets=targets, incidents=[make_incident()])
            )
            prom = await asyncio.to_thread(
                stack.enter_context,
                prometheus(
                    tmp_path,
                    _CONFIG.format(port=server.port),
                    "--enable-feature=exemplar-storage",
                ),
            )
            await asyncio.to_thread(_arrives, prom)
            await context.clock.advance(2)  # type: ignore[attr-defined]
            frame = make_frame(3, step=5)
            here = [True, True, False]
            exporter.publish(
                make_snapshot(table, frame, tick=2, targets=[targets[0]], present=here)
            )
            await asyncio.to_thread(_vanishes, prom)
        finally:
            await server.stop()


def _arrives(prom: PromServer) -> None:
    assert prom.wait(lambda: prom.query('up{job="fabricmon"} == 1'))
    found = {
        (one["metric"]["device"], one["metric"]["port"]): one["value"][1]
        for one in prom.wait(lambda: prom.query("fabricmon_port_receive_bytes_total"))
    }
    assert found == {port: str(i + 1) for i, port in enumerate(PORTS)}
    incident = prom.query("fabricmon_incident_active")
    assert [one["metric"]["kind"] for one in incident] == ["slow-receiver"]
    assert prom.wait(lambda: len(prom.query("fabricmon_target_up")) == 2)
    counted = "fabricmon_incidents_opened_total"
    (one,) = prom.wait(lambda: _exemplars(prom, counted))
    assert one["exemplars"][0]["labels"] == {"incident_id": make_incident().id}


def _exemplars(prom: PromServer, query: str) -> list[dict[str, Any]]:
    """What the counter's exemplars name, in the last minute."""
    now = time.time()
    answer = prom.get(
        "/api/v1/query_exemplars", query=query, start=str(now - 60), end=str(now + 60)
    )
    found: list[dict[str, Any]] = answer["data"]
    return found


def _vanishes(prom: PromServer) -> None:
    moved = 'fabricmon_port_receive_bytes_total{device="leaf1"} == 5'
    assert prom.wait(lambda: prom.query(moved))
    left = {one["metric"]["device"] for one in prom.query("fabricmon_port_receive_bytes_total")}
    assert left == {"leaf1", PORTS[1][0]}
    targets = {one["metric"]["target"] for one in prom.query("fabricmon_target_up")}
    assert targets == {"a"}
    assert prom.query("fabricmon_incident_active") == []
