"""A device whose counter is known at every moment, and what a daemon says of it."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import RunningDaemon

RATE = 1_000_000
"""Bytes per second."""
_BEGIN = 1 << 40
_EVERY_S = 0.05
_LINES = 400
DEVICE, PORT = "leaf7", "Ethernet1"


class Truth:
    """Appends gnmic events to a file that rotates; each tells its own time and the exact count.

    For the time of a `with` block. The device's clock is the machine's, whatever the daemon thinks.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is written yet."""
        self.path = path
        self.told: set[int] = set()
        """Every value that was ever written."""
        self._origin_ns = time.time_ns()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def target(self) -> str:
        """The target, for a config."""
        return f"{{collector: gnmi_file, name: events, address: {self.path}}}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        lines = 0
        while not self._stop.wait(_EVERY_S):
            lines += 1
            if lines % _LINES == 0:
                self.path.replace(self.path.with_suffix(".old"))
            with self.path.open("a") as file:
                file.write(json.dumps([self._event()]) + "\n")

    def _event(self) -> dict[str, Any]:
        now_ns = time.time_ns()
        value = _BEGIN + RATE * (now_ns - self._origin_ns) // 1_000_000_000
        self.told.add(value)
        return {
            "name": "port-stats",
            "timestamp": now_ns,
            "tags": {"interface_name": PORT, "source": f"{DEVICE}:6030"},
            "values": {"/interfaces/interface/state/counters/in-octets": value},
        }

    def total(self, daemon: RunningDaemon) -> int:
        """The total on the page, which must be a value that was told."""
        found = daemon.samples("fabricmon_port_receive_bytes_total", device=DEVICE)
        (value,) = found.values()
        assert int(value) in self.told, value
        return int(value)


def rates(daemon: RunningDaemon, port: str = PORT, device: str = DEVICE) -> list[float | None]:
    """What the daemon found at each tick since its start, oldest first; None where it knew none."""
    answer = daemon.get(f"/api/v1/port?device={device}&port={port}")
    if answer.startswith("no such"):
        return []
    found = json.loads(answer)["rates"]
    listed: list[float | None] = found.get("rx_bytes", [None] * len(found["times"]))
    return listed


def assert_true(found: list[float | None], rel: float = 2e-3) -> None:
    """No rate is wrong, and there is one."""
    known = [rate for rate in found if rate is not None]
    assert known
    assert known == pytest.approx([RATE] * len(known), rel=rel), found


def lost(daemon: RunningDaemon) -> int:
    """Ticks without a rate, those left out of which no reading came in time."""
    nothing = sum(rate is None for rate in rates(daemon))
    late = daemon.samples("fabricmon_values_total", state="missing").values()
    return nothing - int(sum(late))


def assert_rising(totals: list[int]) -> None:
    """A counter never falls, also over restarts."""
    assert all(after >= before for before, after in pairwise(totals)), totals
