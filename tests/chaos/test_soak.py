"""Thousands of polls with many targets dead and some lying: nothing grows, and ticks stay on time.

`make soak` runs ten thousand polls and judges slopes and punctuality; the short form in the suite
looks at what shows at once. Both print their figures.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.daemon import running
from support.pretenders import dead, inventor, liar
from support.recorded import recorded
from support.snmp_load import COMMUNITY, load

from fabricmon.model.stream import Tick

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.wire, pytest.mark.timeout(7200)]

POLLS = int(os.environ.get("SOAK_POLLS", "200"))
_WHOLE = 10_000
_INTERVAL_S = float(os.environ.get("SOAK_INTERVAL", "0.1"))
_HOUR = 360
"""Polls in an hour at the usual ten seconds."""
_GOOD, _DEAD = 12, 6
_PORTS = 256
"""As many as the good targets have, and some: the inventor fills the rest, again and again."""


def _size(pid: int) -> tuple[float, float, float]:
    """MiB resident, threads, descriptors."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return int(status["VmRSS"].split()[0]) / 1024, float(status["Threads"]), float(files)


def _figures(sizes: np.ndarray, late: np.ndarray) -> dict[str, float]:
    """Slopes and extremes of the second half."""
    ticks, rss, threads, files = sizes[len(sizes) // 2 :].T
    slope = float(np.polyfit(ticks, rss, 1)[0])
    return {
        "polls": float(sizes[-1, 0]),
        "rss_mib": round(float(rss[-1]), 1),
        "rss_slope_percent_per_hour": round(100 * slope * _HOUR / float(rss.mean()), 3),
        "threads_spread": float(np.ptp(threads)),
        "files_spread": float(np.ptp(files)),
        "late_p50_percent": round(100 * float(np.quantile(late, 0.5)) / _INTERVAL_S, 2),
        "late_p99_percent": round(100 * float(np.quantile(late, 0.99)) / _INTERVAL_S, 2),
    }


def _late(ticks_ns: list[int]) -> np.ndarray:
    """float64[T]: seconds each tick was behind its grid point; the earliest hundredth is on it."""
    turn = 2 * np.pi * (np.array(ticks_ns, np.int64) % round(_INTERVAL_S * 1e9)) / _INTERVAL_S / 1e9
    off = np.angle(np.exp(1j * turn) / np.exp(1j * turn).mean()) / (2 * np.pi) * _INTERVAL_S
    return np.maximum(off - np.quantile(off, 0.01), 0.0)


def test_nothing_grows(tmp_path: Path) -> None:
    """30 % of the targets are dead, 10 % lie; files rotate, states are saved, pages are scraped."""
    (tmp_path / "community").write_text(COMMUNITY)
    with ExitStack() as stack:
        agents = stack.enter_context(load(_GOOD, 4))
        addresses = [*agents.addresses[:_GOOD], *stack.enter_context(dead(_DEAD))]
        addresses.append(stack.enter_context(liar()))
        made_up = stack.enter_context(inventor(tmp_path / "liar.json", _INTERVAL_S))
        targets = [
            f"  - {{collector: snmp, name: t{i}, address: '{address}', credential: ro}}\n"
            for i, address in enumerate(addresses)
        ]
        config = (
            f"interval: {round(_INTERVAL_S * 1e3)}ms\nlimits: {{ports: {_PORTS}}}\n"
            f"credentials: {{ro: {{community: {{file: {tmp_path / 'community'}}}}}}}\n"
            f"record: {{directory: {tmp_path / 'recordings'}, rotate: 20s}}\n"
            f"state: {{directory: {tmp_path / 'state'}, every: 20s}}\n"
            "collectors: {snmp: {timeout: 300ms, retries: 1}}\n"
            f"exporters: {{prometheus: {{}}, jsonl: {{path: {tmp_path / 'out.jsonl'}}}}}\n"
            f"targets:\n{''.join(targets)}"
            f"  - {{collector: gnmi_file, name: inventor, address: {made_up}}}\n"
        )
        daemon = stack.enter_context(running(tmp_path, config))
        sizes, ticks = [], 0.0
        while ticks < POLLS:
            time.sleep(1)
            ticks = daemon.ticks()
            sizes.append((ticks, *_size(daemon.process.pid)))
        failed = daemon.total("fabricmon_poll_failures_total")
        wrong = daemon.events("component_failed")
        up = daemon.total("fabricmon_target_up")
        forgotten = daemon.events("ports_forgotten")
        rows = daemon.total("fabricmon_ports")
        assert daemon.stop()[0] == 0
    items = recorded(tmp_path / "recordings")
    late = _late([item.time_ns for item in items if isinstance(item, Tick)])
    figures = _figures(np.array(sizes), late)
    print(
        json.dumps(
            {"bench": "soak", **figures, "failed_polls": failed, "ports_forgotten": forgotten}
        )
    )
    assert up >= _GOOD
    assert failed >= _DEAD
    assert wrong == 0
    assert forgotten >= 1
    assert rows <= _PORTS
    assert len(list((tmp_path / "recordings" / "fabric").iterdir())) >= 2 or POLLS < _WHOLE
    assert figures["threads_spread"] <= 5
    assert figures["files_spread"] <= 5
    if POLLS >= _WHOLE:
        assert figures["rss_slope_percent_per_hour"] < 1
        assert figures["late_p99_percent"] < 10
