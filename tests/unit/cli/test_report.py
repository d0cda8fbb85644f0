"""`fabricmon report` from each of its sources."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.snapshots import make_frame, make_incident, make_snapshot, make_table
from support.webstate import HandState

from fabricmon.cli import main
from fabricmon.model.incident import IncidentState, Severity
from fabricmon.web import WebConfig, WebServer

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context


def test_a_jsonl_file_is_reported_in_its_last_state(tmp_path: Path) -> None:
    """Open before closed; a line that is no incident is named and skipped."""
    path = tmp_path / "incidents.jsonl"
    lines = [
        {"event": "opened", **make_incident(id="one").to_json()},
        {"event": "opened", **make_incident(id="two", severity=Severity.MILD).to_json()},
        {"event": "closed", **make_incident(id="one", state=IncidentState.CLOSED).to_json()},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "torn {\n")
    done = CliRunner().invoke(main, ["report", str(path), "-o", "json"])
    assert done.exit_code == 0, done.output
    assert [one["id"] for one in json.loads(done.stdout)] == ["two", "one"]
    assert f"{path}:4: not an incident; skipped" in done.stderr


@pytest.mark.parametrize("output", ["text", "md", "html"])
async def test_a_running_daemon_is_asked(context: Context, output: str) -> None:
    """The address of the daemon is enough."""
    state = HandState()
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, state, None)
    await server.start()
    try:
        snapshot = make_snapshot(
            make_table([("a", "1")]), make_frame(1), incidents=[make_incident()]
        )
        state.latest["pod1"] = snapshot
        server.publish(snapshot)
        ask = ["report", f"http://127.0.0.1:{server.port}", "-o", output]
        done = await asyncio.to_thread(CliRunner().invoke, main, ask)
    finally:
        await server.stop()
    assert done.exit_code == 0, done.output
    assert "No, it is a host" in done.stdout


def test_a_daemon_that_is_not_there_is_one_clear_line() -> None:
    """No traceback."""
    done = CliRunner().invoke(main, ["report", "http://127.0.0.1:9"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "http://127.0.0.1:9 does not answer: " in done.stderr
