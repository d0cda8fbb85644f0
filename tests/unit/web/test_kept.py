"""Acknowledgements and declared windows outlive the server that was told them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import bcrypt
import pytest
from support.selfmon import events
from support.snapshots import START_NS, make_frame, make_incident, make_snapshot, make_table

from fabricmon import app
from fabricmon.errors import ConfigError
from fabricmon.model.incident import IncidentKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from support.webstate import Served

    from fabricmon.api import Context
    from fabricmon.testing import ManualClock

    Serve = Callable[..., AbstractAsyncContextManager[Served]]

OPS = {"Authorization": aiohttp.encode_basic_auth("ops", "pw")}
WINDOW = {"device": "leaf1", "start": "2023-11-14T22:00:00Z", "end": "2033-11-14T23:00:00Z"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """A server that knows `ops` and keeps what it is told."""
    users = tmp_path / "web.yml"
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    users.write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    return {"config_file": users, "state_file": tmp_path / "web.json"}


def _show(served: Served, **incident: Any) -> str:
    """One tick with one incident; its id."""
    one = make_incident(**incident)
    snapshot = make_snapshot(make_table([("leaf1", "1/1")]), make_frame(1), incidents=[one])
    served.state.latest["pod1"] = snapshot
    served.server.publish(snapshot)
    return one.id


async def _seen_by(served: Served, incident: str) -> str | None:
    _, text, _ = await served.get(f"/api/v1/incidents/{incident}", headers=OPS)
    seen = json.loads(text)["acknowledged"]
    return seen and seen["by"]


async def test_both_are_there_after_a_restart(
    serve: Serve, files: dict[str, Any], clock: ManualClock
) -> None:
    """The same fault found again, under another id, is still looked after; a later one is not."""
    async with serve(**files) as served:
        first = _show(served)
        path = f"/api/v1/incidents/{first}/acknowledge"
        assert (await served.ask("POST", path, json={"comment": "mine"}, headers=OPS))[0] == 200
        assert (await served.ask("POST", "/api/v1/maintenance", json=WINDOW, headers=OPS))[0] == 201
    assert files["state_file"].stat().st_mode & 0o077 == 0
    async with serve(**files) as served:
        assert [w.device for w in served.state.declared.declared()] == ["leaf1"]
        assert await _seen_by(served, _show(served)) == "ops"
        again = _show(served, id="again", started_ns=clock.now_ns() + 60 * 10**9)
        assert await _seen_by(served, again) == "ops"
        other = _show(served, id="other", kind=IncidentKind.INCAST, started_ns=clock.now_ns())
        assert await _seen_by(served, other) is None
        later = _show(served, id="later", started_ns=clock.now_ns() + 3600 * 10**9)
        assert await _seen_by(served, later) is None
        window = served.state.declared.declared()[0].id
        where = f"/api/v1/maintenance/{window}"
        assert (await served.ask("DELETE", where, headers=OPS))[0] == 204
        _show(served, id="again", started_ns=clock.now_ns())
        path = "/api/v1/incidents/again/acknowledge"
        assert (await served.ask("DELETE", path, headers=OPS))[0] == 200
        assert await _seen_by(served, "again") is None
    async with serve(**files) as served:
        assert served.state.declared.declared() == ()


async def test_a_window_that_has_ended_is_not_read_again(
    serve: Serve, files: dict[str, Any], clock: ManualClock
) -> None:
    """The list does not grow from restart to restart."""
    past = {**WINDOW, "end": "2023-11-14T22:00:01Z"}
    async with serve(**files) as served:
        for body in (WINDOW, past):
            await served.ask("POST", "/api/v1/maintenance", json=body, headers=OPS)
    assert START_NS == clock.now_ns()
    await clock.advance(3600)
    async with serve(**files) as served:
        assert len(served.state.declared.declared()) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"acknowledged": 1, "maintenance": []}'])
async def test_a_file_that_is_not_ours_is_fatal_at_the_start(
    serve: Serve, files: dict[str, Any], content: str
) -> None:
    """Nothing is overwritten that somebody else wrote, and the file is named."""
    files["state_file"].write_text(content)
    with pytest.raises(ConfigError, match=r"web\.json"):
        async with serve(**files):
            pass
    assert files["state_file"].read_text() == content


async def test_what_cannot_be_written_is_told_and_counts_on(
    serve: Serve, files: dict[str, Any], context: Context, tmp_path: Path
) -> None:
    """A full or missing disk does not keep anybody from declaring maintenance."""
    async with serve(**{**files, "state_file": tmp_path / "no" / "web.json"}) as served:
        assert (await served.ask("POST", "/api/v1/maintenance", json=WINDOW, headers=OPS))[0] == 201
        assert len(served.state.declared.declared()) == 1
    assert events(context, "state_not_kept") == 1


def test_the_file_lies_with_the_rest_of_the_state(tmp_path: Path) -> None:
    """In `state.directory`, unless the web section or the command line names another place."""
    config = tmp_path / "fabricmon.yaml"
    config.write_text("state: {directory: /var/lib/fabricmon}\n")
    assert app.web_config(app.load(config)).state_file == Path("/var/lib/fabricmon/web.json")
    assert app.web_config(app.load(config), state_file=Path("/x")).state_file == Path("/x")
    config.write_text("state: {directory: /var/lib/fabricmon}\nweb: {state_file: /y}\n")
    assert app.web_config(app.load(config)).state_file == Path("/y")
    config.write_text("")
    assert app.web_config(app.load(config)).state_file is None
