"""What people told the daemon, over its sudden end."""

from __future__ import annotations

import base64
import json
import signal
import urllib.request
from typing import TYPE_CHECKING, Any

import bcrypt
import pytest
from support.daemon import RunningDaemon, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

_CONFIG = """\
interval: 1s
fabrics: [{{name: demo}}]
targets: [{{collector: simulated, name: simulated, address: incast}}]
web: {{config_file: {folder}/web.yml, state_file: {folder}/state.json}}
"""
_LOGIN = "Basic " + base64.b64encode(b"ops:pw").decode()


def _ask(daemon: RunningDaemon, path: str, body: Any = None) -> str:
    """GET, or POST where there is a body, as `ops`."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(daemon.url + path, data)
    request.add_header("Authorization", _LOGIN)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _incident(daemon: RunningDaemon) -> dict[str, Any]:
    """The incast, once it is there."""

    def look() -> Any:
        incidents = json.loads(_ask(daemon, "/api/v1/incidents?kind=incast"))
        return next((one for one in incidents if one["state"] == "open"), None)

    found: dict[str, Any] = daemon.wait(look, timeout_s=120)
    return found


def test_a_killed_daemon_remembers_who_looks_after_what(tmp_path: Path) -> None:
    """Acknowledgement and maintenance are there after kill -9, and the alert is held again."""
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    config = _CONFIG.format(folder=tmp_path)
    with running(tmp_path, config) as daemon:
        incident = _incident(daemon)
        _ask(daemon, f"/api/v1/incidents/{incident['id']}/acknowledge", {"comment": "mine"})
        body = {
            "device": incident["cause"]["device"],
            "start": "2020-01-01T00:00:00Z",
            "end": "2099-01-01T00:00:00Z",
        }
        _ask(daemon, "/api/v1/maintenance", body)
        assert daemon.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    with running(tmp_path, config) as daemon:
        again = _incident(daemon)
        assert again["maintenance"] is True
        assert again["cause"] == incident["cause"]
        assert (again["acknowledged"]["by"], again["acknowledged"]["comment"]) == ("ops", "mine")
        held = f'fabricmon_incident_maintenance{{fabric="demo",id="{again["id"]}"}} 1'
        daemon.wait(lambda: held in _ask(daemon, "/metrics"))
