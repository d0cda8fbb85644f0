"""Schemathesis against the API of a running daemon, by the API's own description."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from support.daemon import running

pytestmark = [pytest.mark.wire, pytest.mark.timeout(700)]

_CONFIG = """\
interval: 1s
fabrics: [{{name: demo}}]
targets: [{{collector: simulated, name: simulated, address: incast}}]
web: {{config_file: {folder}/web.yml, state_file: {folder}/state.json}}
"""


_VALUES = """\
[[operations]]
include-name = "GET /api/v1/port"
parameters = {{ device = "{device}", port = "{port}" }}

[[operations]]
include-path-regex = "/api/v1/incidents/"
parameters = {{ id = "{incident}" }}
"""
"""A port and an incident that are there: nobody guesses one."""


def test_the_api_keeps_what_its_description_says(tmp_path: Path) -> None:
    """Good calls and bad ones, in sequences that follow links: no answer is a surprise."""
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    with running(tmp_path, _CONFIG.format(folder=tmp_path)) as daemon:
        incident = daemon.wait(lambda: _ask(daemon.url, "incidents"), timeout_s=150)[0]
        port = _ask(daemon.url, "ports?limit=1")["ports"][0]
        values = _VALUES.format(**port, incident=incident["id"])
        (tmp_path / "schemathesis.toml").write_text(values)
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                "run",
                f"{daemon.url}/api/v1/openapi.json",
                *("--auth", "ops:pw"),
                *("--exclude-path", "/api/v1/events"),  # a stream that does not end
                *("--max-examples", "20", "--generation-deterministic"),
                *("--suppress-health-check", "filter_too_much"),  # few texts are times of ours
                *("--request-timeout", "20", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr
        assert daemon.stop()[0] == 0
    assert "component_failed" not in daemon.log.read_text()
    cases = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert cases is not None
    assert cases[1] == cases[2]
    assert int(cases[1]) > 200


def _ask(url: str, path: str) -> Any:
    """The JSON at a path of the API; None before the first poll is through."""
    request = urllib.request.Request(f"{url}/api/v1/{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"ops:pw").decode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return None
