"""The calls that docs/web.md shows, made with curl on a running daemon."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import bcrypt
import pytest
from support import ROOT, require
from support.daemon import running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]

_CONFIG = """\
interval: 1s
fabrics: [{{name: demo}}]
targets: [{{collector: simulated, name: simulated, address: incast}}]
web: {{config_file: {folder}/web.yml, enable_lifecycle: true}}
"""
_PAGE = ROOT / "docs" / "web.md"


def _curl(url: str, *arguments: str) -> str:
    done = subprocess.run(
        [require("curl"), "-sS", "--fail", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}{done.stdout} ({url})"
    return done.stdout


def test_what_the_page_shows_works(tmp_path: Path) -> None:
    """Every path of the table answers, and each call that writes is taken."""
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    page = _PAGE.read_text()
    examples = re.findall(r"^    (curl (?:.*\\\n)*.*)$", page, re.MULTILINE)
    paths = {
        path.split()[-1].replace("NAME", "simulated").replace("…", "status")
        for row in re.findall(r"^\| (`/.*?|`POST .*?) \|", page, re.MULTILINE)
        for path in re.findall(r"`([^`]+)`", row)
    }
    assert len(examples) == 2
    assert {"/", "/metrics", "/-/ready", "/-/reload", "/probe?target=simulated"} <= paths
    with running(tmp_path, _CONFIG.format(folder=tmp_path)) as daemon:
        login = ("-u", "ops:pw")
        incidents = daemon.wait(
            lambda: json.loads(_curl(daemon.url, *login, f"{daemon.url}/api/v1/incidents"))
        )
        for path in sorted(paths - {"/api/v1/events"}):
            method = ("-X", "POST") if path == "/-/reload" else ()
            _curl(daemon.url, *login, *method, daemon.url + path)
        for example in examples:
            text = example.replace("http://localhost:10077", daemon.url).replace("-u ops", "")
            words = shlex.split(text.replace("/ID/", f"/{incidents[0]['id']}/"))
            assert json.loads(_curl(daemon.url, *login, *words[1:]))
        said = json.loads(_curl(daemon.url, *login, f"{daemon.url}/api/v1/incidents"))
        assert any((one["acknowledged"] or {}).get("comment") == "on it" for one in said)
        windows = json.loads(_curl(daemon.url, *login, f"{daemon.url}/api/v1/maintenance"))
        assert [one["device"] for one in windows] == ["leaf7"]
