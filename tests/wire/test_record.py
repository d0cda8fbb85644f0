"""`fabricmon record`: a recording that a reload does not end, and that replays."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.daemon import FABRICMON, fabricmon

pytestmark = [pytest.mark.wire, pytest.mark.timeout(120)]


def test_a_reload_goes_on_recording(tmp_path: Path) -> None:
    """SIGHUP reads the config again; what is polled afterwards is written too, and replays."""
    config = tmp_path / "fabricmon.yaml"
    config.write_text(
        "interval: 1s\nfabrics: [{name: lab}]\n"
        "collectors: {simulated: {scenario: healthy, warmup: 2s}}\n"
        "targets: [{collector: simulated, name: sim, address: lab}]\n"
    )
    folder = tmp_path / "recordings"
    process = subprocess.Popen([FABRICMON, "record", "-c", str(config), str(folder)])
    try:
        _wait(lambda: sum(p.stat().st_size for p in folder.rglob("*.arrows")) > 0)
        before = len(list(folder.rglob("*.arrows")))
        process.send_signal(signal.SIGHUP)
        _wait(lambda: len(list(folder.rglob("*.arrows"))) > before)
    finally:
        process.terminate()
        process.wait(20)
    done = fabricmon("replay", str(folder))
    assert (0, "No incident.\n") == (done.returncode, done.stdout)


def _wait(what: object) -> None:
    assert callable(what)
    for _ in range(600):
        if what():
            return
        time.sleep(0.1)
    raise AssertionError("did not happen within a minute")
