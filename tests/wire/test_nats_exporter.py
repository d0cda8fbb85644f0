"""Incidents on a real NATS server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import nats
import pytest
from support import require
from support.promserver import free_port
from support.selfmon import events
from support.servers import running
from support.snapshots import START_NS, make_frame, make_incident, make_snapshot, make_table

from fabricmon.clock import SystemClock
from fabricmon.model.incident import IncidentState, Severity
from fabricmon.testing import check_exporter
from fabricmon_exporters.nats import NatsConfig, NatsExporter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot

pytestmark = pytest.mark.wire


def server(folder: Path, port: int, http: int) -> tuple[list[str], str, Path]:
    """A nats-server with JetStream: command, URL that answers when it is up, log."""
    command = [require("nats-server"), "-a", "127.0.0.1", "-p", str(port), "-m", str(http)]
    return [*command, "-js", "-sd", str(folder)], f"http://127.0.0.1:{http}/healthz", folder / "log"


def story() -> Sequence[Snapshot]:
    """An incident opens, goes on, gets worse, and closes."""
    table, frame, incident = make_table([("leaf1", "1")]), make_frame(1), make_incident()
    worse = replace(incident, severity=Severity.SEVERE)
    closed = replace(worse, state=IncidentState.CLOSED, ended_ns=START_NS + 1)
    return [
        make_snapshot(table, frame, fabric="pod 1", incidents=[incident]),
        make_snapshot(table, frame, fabric="pod 1", incidents=[incident]),
        make_snapshot(table, frame, fabric="pod 1", incidents=[worse]),
        make_snapshot(table, frame, fabric="pod 1", closed=[closed]),
    ]


async def test_news_of_incidents_reach_a_subscriber_once(tmp_path: Path, context: Context) -> None:
    """Opened, updated, closed; the tick without news sends nothing."""
    port = free_port()
    real = type(context)(SystemClock(), context.report)
    config = NatsConfig(servers=[f"nats://127.0.0.1:{port}"])
    await check_exporter(lambda: NatsExporter(config, real))
    exporter = NatsExporter(config, real)
    with running(*server(tmp_path, port, free_port())):
        client = await nats.connect(config.servers[0])
        inbox = await client.subscribe("fabricmon.incidents.>")
        await client.flush()
        await exporter.start()
        for snapshot in story():
            await asyncio.to_thread(exporter.publish, snapshot)
        got: list[Any] = [await inbox.next_msg(10) for _ in range(3)]
        await exporter.stop()
        await client.close()
    assert {message.subject for message in got} == {"fabricmon.incidents.pod_1.slow-receiver"}
    bodies = [json.loads(message.data) for message in got]
    assert [body["event"] for body in bodies] == ["opened", "updated", "closed"]
    assert [body["severity"] for body in bodies] == ["moderate", "severe", "severe"]


async def test_a_server_that_comes_late_gets_what_waited(tmp_path: Path, context: Context) -> None:
    """With nobody there, news waits in a bounded buffer; a stream then takes it, each once."""
    port = free_port()
    real = type(context)(SystemClock(), context.report)
    config = NatsConfig(servers=[f"nats://127.0.0.1:{port}"], jetstream=True, buffer=2, timeout=0.5)
    exporter = NatsExporter(config, real)
    await exporter.start()
    for snapshot in story():
        await asyncio.to_thread(exporter.publish, snapshot)
    await asyncio.sleep(0.2)
    with running(*server(tmp_path, port, free_port())):
        client = await nats.connect(config.servers[0])
        stream = client.jetstream()
        await stream.add_stream(name="incidents", subjects=["fabricmon.incidents.>"])
        quiet = make_snapshot(make_table([("leaf1", "1")]), make_frame(1), fabric="other")
        for _ in range(100):
            await asyncio.to_thread(exporter.publish, quiet)
            if (await stream.stream_info("incidents")).state.messages >= 2:
                break
            await asyncio.sleep(0.1)
        first = await stream.get_msg("incidents", 1)
        last = await stream.get_msg("incidents", 2)
        await exporter.stop()
        await client.close()
    assert [json.loads(m.data or b"")["event"] for m in (first, last)] == ["updated", "closed"]
    assert events(context, "export_dropped") == 1
