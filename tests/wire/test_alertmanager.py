"""Alerts as a real Alertmanager sees them."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from support import require
from support.promserver import free_port
from support.selfmon import events
from support.servers import running
from support.snapshots import make_frame, make_incident, make_snapshot, make_table

from fabricmon.clock import SystemClock
from fabricmon.model.incident import Victim
from fabricmon_exporters.alertmanager import AlertmanagerConfig, AlertmanagerExporter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = pytest.mark.wire


async def until(ask: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """What is asked, once it is good."""
    for _ in range(100):
        found = await asyncio.to_thread(ask)
        if good(found):
            break
        await asyncio.sleep(0.1)
    return found


async def test_an_incident_fires_and_resolves(tmp_path: Path, context: Context) -> None:
    """The alert is active with its labels and victims, and gone when the incident is."""
    url = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    command = [
        require("prometheus-alertmanager"),
        f"--config.file={tmp_path / 'am.yml'}",
        f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]

    def active() -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{url}/api/v2/alerts?active=true", timeout=5) as answer:
            alerts: list[dict[str, Any]] = json.load(answer)
            return alerts

    real = type(context)(SystemClock(), context.report)
    dead = f"http://127.0.0.1:{free_port()}"
    exporter = AlertmanagerExporter(AlertmanagerConfig(urls=[url, dead]), real)
    table, frame = make_table([("leaf1", "Ethernet1")]), make_frame(1)
    incident = make_incident(
        victims=[Victim(f"gpu{i}", "mlx5_0/1", 0.5) for i in range(12)],
        started_ns=SystemClock().now_ns() - 60_000_000_000,
    )
    with running(command, f"{url}/-/ready", tmp_path / "log"):
        await exporter.start()
        exporter.publish(make_snapshot(table, frame, incidents=[incident]))
        (alert,) = await until(active, bool)
        assert alert["labels"] == {
            "alertname": "FabricmonSlowReceiver",
            "device": "host1",
            "fabric": "pod1",
            "incident": incident.id,
            "kind": "slow-receiver",
            "port": "mlx5_0/1",
            "severity": "warning",
            "verdict": "host",
        }
        assert alert["annotations"]["victims"].endswith("gpu9[mlx5_0/1] and 2 more")
        exporter.publish(make_snapshot(table, frame))
        assert await until(active, lambda found: not found) == []
        await exporter.stop()
    assert events(context, "export_failed"), "the server that is not there is told"
