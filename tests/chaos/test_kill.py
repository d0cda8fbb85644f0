"""The daemon killed without warning, again and again, over the same folder of recordings."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.daemon import running

from fabricmon.model.stream import Tick
from fabricmon.record import Recording

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = [pytest.mark.wire, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("CHAOS_KILLS", "4"))


def test_every_kill_leaves_a_recording_and_a_daemon_that_starts(
    tmp_path: Path, context: Context
) -> None:
    """After kill -9 at any moment the next start is ready, and all recorded ticks are whole."""
    events = tmp_path / "events.json"
    config = (
        f"interval: 200ms\nrecord: {{directory: {tmp_path / 'recordings'}}}\n"
        f"exporters: {{prometheus: {{}}, jsonl: {{path: {tmp_path / 'out.jsonl'}}}}}\n"
        f"targets: [{{collector: gnmi_file, name: events, address: {events}}}]\n"
    )
    moments = random.Random(8)
    seen = 0
    for kill in range(KILLS):
        event = {
            "name": "port-stats",
            "timestamp": time.time_ns(),
            "tags": {"interface_name": "Ethernet1", "source": "leaf7:6030"},
            "values": {"/interfaces/interface/state/counters/in-octets": 1_000 * (kill + 1)},
        }
        with events.open("a") as file:
            file.write(json.dumps([event]) + "\n")
        with running(tmp_path, config) as daemon:
            daemon.wait(lambda daemon=daemon: daemon.get("/-/ready").startswith("fabricmon is"))
            time.sleep(moments.random())
            assert daemon.stop(signal.SIGKILL)[0] == -signal.SIGKILL
        items = Recording([tmp_path / "recordings" / "fabric"], context.report).items()
        ticks = [item.time_ns for item in items if isinstance(item, Tick)]
        assert len(ticks) > seen
        assert ticks == sorted(ticks)
        seen = len(ticks)
