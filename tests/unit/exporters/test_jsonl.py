"""Incidents as JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.selfmon import events
from support.snapshots import make_frame, make_incident, make_snapshot, make_table

from fabricmon.model.incident import IncidentState, Severity
from fabricmon.testing import check_exporter
from fabricmon_exporters.jsonl import JsonlConfig, JsonlExporter

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context


def _tick(exporter: JsonlExporter, **changes: Any) -> None:
    exporter.publish(make_snapshot(make_table([("a", "1")]), make_frame(1), **changes))


async def test_it_keeps_an_exporters_promises(context: Context, tmp_path: Path) -> None:
    """The lifecycle holds: inert, restartable, stoppable at any time."""
    await check_exporter(lambda: JsonlExporter(JsonlConfig(path=tmp_path / "x"), context))


def test_an_incident_is_written_when_it_opens_changes_and_closes(
    context: Context, tmp_path: Path
) -> None:
    """One line each; ticks that only add cost write nothing; each line is the incident's JSON."""
    path = tmp_path / "incidents.jsonl"
    exporter = JsonlExporter(JsonlConfig(path=path), context)
    _tick(exporter)
    assert not path.exists()
    _tick(exporter, incidents=[make_incident()])
    _tick(exporter, incidents=[make_incident(lost_bytes=9e9)])
    _tick(exporter, incidents=[make_incident(severity=Severity.SEVERE)])
    closed = make_incident(severity=Severity.SEVERE, state=IncidentState.CLOSED)
    _tick(exporter, closed=[closed])
    _tick(exporter)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.pop("event") for line in lines] == ["opened", "updated", "closed"]
    assert lines[0] == make_incident().to_json()
    assert lines[2] == closed.to_json()


def test_the_file_may_be_rotated_away(context: Context, tmp_path: Path) -> None:
    """After `logrotate` moved the file, the next line goes to a new one."""
    path = tmp_path / "incidents.jsonl"
    exporter = JsonlExporter(JsonlConfig(path=path), context)
    _tick(exporter, incidents=[make_incident()])
    path.rename(tmp_path / "incidents.jsonl.1")
    _tick(exporter, closed=[make_incident(state=IncidentState.CLOSED)])
    assert json.loads(path.read_text())["event"] == "closed"


def test_a_file_that_cannot_be_written_is_counted(context: Context, tmp_path: Path) -> None:
    """The loss is an event, and the pipeline goes on."""
    exporter = JsonlExporter(JsonlConfig(path=tmp_path), context)
    _tick(exporter, incidents=[make_incident()])
    assert events(context, "export_failed") == 1
