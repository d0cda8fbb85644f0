"""`fabricmon doctor` names each planted fault, and how to mend it."""

from __future__ import annotations

import json
import os
import resource
import socket
from pathlib import Path
from typing import Any

import pytest
from support.daemon import fabricmon
from support.snmpd import COMMUNITY, PRIV_KEY, snmpd

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


def _examine(tmp_path: Path, config: str, **env: str) -> dict[str, dict[str, Any]]:
    """Results that are not ok, by check; the last of each."""
    file = tmp_path / "fabricmon.yaml"
    file.write_text(config)
    done = fabricmon("doctor", "-c", str(file), "-o", "json", timeout=120, **env)
    results = json.loads(done.stdout)
    bad = {r["check"]: r for r in results if r["level"] != "ok"}
    assert done.returncode == int(any(r["level"] == "fail" for r in results))
    return bad


def test_ten_planted_faults_are_named(tmp_path: Path) -> None:
    """Each fault has its own line with a way to mend it; no secret is shown."""
    key = tmp_path / "community"
    key.write_text(COMMUNITY)
    key.chmod(0o644)
    empty = tmp_path / "empty"
    empty.write_text("")
    (tmp_path / "quiet.json").write_text("")
    with (
        snmpd(tmp_path / "agent") as agent,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        port = taken.getsockname()[1]
        bad = _examine(
            tmp_path,
            f"""\
interval: 5s
limits: {{ports: 1}}
web: {{listen_address: '127.0.0.1:{port}'}}
record: {{directory: {tmp_path}/no/such/folder}}
state: {{directory: {tmp_path}/nor/this}}
exporters: {{prometheus: {{}}, remote_write: {{url: 'http://127.0.0.1:9/write'}}}}
credentials:
  open: {{community: {{file: {key}}}}}
  v3: {{version: 3, user: sha256aes, auth: sha256, auth_key: {{env: FM_BAD}}, priv: aes128,
        priv_key: {{env: FM_PRIV}}}}
targets:
  - {{collector: snmp, name: good, address: '{agent.address}', credential: open}}
  - {{collector: snmp, name: wrongkey, address: '{agent.address}', credential: v3}}
  - {{collector: snmp, name: dead, address: '127.0.0.1:9', credential: open}}
  - {{collector: snmp, name: nameless, address: 'no-such-host.invalid', credential: open}}
  - {{collector: gnmi_file, name: gone, address: {tmp_path}/gone.json}}
  - {{collector: infiniband, name: nohca, address: mlx9_9}}
""",
            FM_BAD="wrong-canary-key",
            FM_PRIV=PRIV_KEY,
        )
    expected = {
        "credentials": "can be read by every user",
        "names": "no-such-host.invalid does not resolve",
        "umad": "umad",
        "authentication": "wrongkey",
        "not_found": "gone",
        "cardinality": "the limit of 1",
        "listen": f"port {port}",
        "record": "no/such/folder",
        "state": "nor/this",
        "exporters": "127.0.0.1:9",
    }
    for check, words in expected.items():
        assert check in bad, f"{check} not among {sorted(bad)}"
        assert words in bad[check]["message"], bad[check]
        assert bad[check]["fix"], bad[check]
    assert {"timeout", "refused", "unreachable"} & bad.keys()
    assert "canary" not in json.dumps(bad)


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    """The doctor says which file or variable is missing, and asks no device with it."""
    bad = _examine(
        tmp_path,
        "credentials: {ro: {community: {env: FM_NOT_SET}}}\n"
        "targets: [{collector: snmp, name: a, address: '127.0.0.1:9', credential: ro}]\n",
    )
    assert "FM_NOT_SET is not set" in bad["credentials"]["message"]


def test_what_is_wrong_with_the_machine(tmp_path: Path) -> None:
    """A clock that nobody sets, and too few descriptors for so many targets."""
    tell = tmp_path / "timedatectl"
    tell.write_text("#!/bin/sh\necho no\n")
    tell.chmod(0o755)
    targets = "".join(
        f"  - {{collector: gnmi_file, name: t{i}, address: {tmp_path}/{i}.json}}\n"
        for i in range(100)
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, hard))
    try:
        bad = _examine(tmp_path, f"targets:\n{targets}", PATH=f"{tmp_path}:{os.environ['PATH']}")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert bad["clock"]["fix"].startswith("enable NTP")
    assert bad["descriptors"]["message"] == "120 file descriptors for 100 targets"
    assert "ulimit -n" in bad["descriptors"]["fix"]


def test_a_clock_that_cannot_be_asked_is_not_called_right(tmp_path: Path) -> None:
    """In a container timedatectl fails: then nothing is claimed."""
    tell = tmp_path / "timedatectl"
    tell.write_text("#!/bin/sh\nexit 1\n")
    tell.chmod(0o755)
    (tmp_path / "fabricmon.yaml").write_text("{}\n")
    done = fabricmon(
        "doctor", "-c", str(tmp_path / "fabricmon.yaml"), PATH=f"{tmp_path}:{os.environ['PATH']}"
    )
    (line,) = [line for line in done.stdout.splitlines() if "clock" in line]
    assert "cannot say" in line
