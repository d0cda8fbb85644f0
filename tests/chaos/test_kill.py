"""The daemon killed without warning, at any moment, over the same recordings and states."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import FABRICMON, running
from support.recorded import recorded
from support.truth import Truth, assert_rising, assert_true, lost, rates

from fabricmon.model.stream import Tick
from fabricmon.record.state import read_state

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import RunningDaemon

pytestmark = [pytest.mark.wire, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("CHAOS_KILLS", "4"))
_INTERVAL_S = float(os.environ.get("CHAOS_INTERVAL", "1"))
_STARTING_S = 2.0


def test_no_kill_makes_a_rate_wrong(tmp_path: Path) -> None:
    """After kill -9 at any moment the next start is ready and says nothing that is not true.

    It is ready by its second tick, each known rate is exact, totals never fall, at most one tick
    after a start has no rate, and recordings and state files are whole or not there. Every third
    kill hits a start.
    """
    moments = random.Random(8)
    totals: list[int] = []
    seen = restored = 0
    with Truth(tmp_path / "events.json") as truth:
        config = (
            f"interval: {_INTERVAL_S}s\nrecord: {{directory: {tmp_path / 'recordings'}}}\n"
            f"state: {{directory: {tmp_path / 'state'}, every: 1s}}\n"
            f"exporters: {{prometheus: {{}}, jsonl: {{path: {tmp_path / 'out.jsonl'}}}}}\n"
            f"targets: [{truth.target()}]\n"
        )
        for kill in range(KILLS):
            if kill % 3 == 2:
                _kill_a_start(tmp_path, moments.random() * _STARTING_S)
            with running(tmp_path, config) as daemon:
                daemon.wait(lambda daemon=daemon: _ready(daemon))
                daemon.wait(lambda daemon=daemon: any(rates(daemon)))
                assert lost(daemon) <= 1
                time.sleep(3 * moments.random())
                totals.append(truth.total(daemon))
                assert_true(rates(daemon))
                assert daemon.stop(signal.SIGKILL)[0] == -signal.SIGKILL
            assert_rising(totals)
            log = (tmp_path / "fabricmon.log").read_text()
            assert "state_refused" not in log
            restored += "state_restored" in log
            assert read_state(tmp_path / "state" / "fabric.npz") is not None or kill < 1
            items = recorded(tmp_path / "recordings")
            ticks = [item.time_ns for item in items if isinstance(item, Tick)]
            assert len(ticks) > seen
            assert ticks == sorted(ticks)
            seen = len(ticks)
    assert restored >= KILLS - 2


def _ready(daemon: RunningDaemon) -> bool:
    """Whether it is ready; not to be so is allowed before the second tick only."""
    ticks = daemon.ticks()
    ready = daemon.get("/-/ready").startswith("fabricmon is")
    assert ready or ticks < 2
    return ready


def _kill_a_start(folder: Path, after_s: float) -> None:
    """Start the daemon on the same config, and kill it before it is ready, or just then."""
    command = [FABRICMON, "run", "--web.listen-address", "127.0.0.1:0"]
    command += ["-c", str(folder / "fabricmon.yaml")]
    with (folder / "killed.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    time.sleep(after_s)
    process.kill()
    process.wait(10)
