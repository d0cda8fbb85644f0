"""Three workers on one nats-server and one fabric of real SNMP agents and host trees."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from support.cluster import INTERVAL_S, cluster
from support.daemon import running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(420)]


def test_three_workers_find_what_one_daemon_finds(tmp_path: Path) -> None:
    """The same incidents with the same causes, each target polled by one worker, one leader."""
    with cluster(tmp_path) as made:
        alone = tmp_path / "alone"
        alone.mkdir()
        single = made.config("alone")
        del single["cluster"]
        with running(alone, json.dumps(single)) as one:
            for name in ("a", "b", "c"):
                made.start(name, members=3)
            made.wait(made.settled)
            settled_s = time.time() + INTERVAL_S

            def same() -> bool:
                expected = {
                    (dict(s)["kind"], dict(s)["device"], dict(s)["port"])
                    for s in one.samples("fabricmon_incident_active")
                }
                return bool(expected) and set(made.incidents().values()) == expected

            made.wait(same, 150)
            leader = made.leader()
            pages = {n: w.samples("fabricmon_incident_active") for n, w in made.workers.items()}
            assert [name for name, page in pages.items() if page] == [leader]
            up = made.workers[leader].samples("fabricmon_target_up")
            assert len(up) == len(one.samples("fabricmon_target_up"))
            assert set(up.values()) == {1.0}
        log = made.log(settled_s)
        polled: dict[str, set[str]] = {}
        for entry in log:
            if entry.stamp.target:
                polled.setdefault(entry.stamp.target, set()).add(entry.stamp.worker)
        assert len(polled) == len(up)
        assert {len(workers) for workers in polled.values()} == {1}
        assert len({worker for workers in polled.values() for worker in workers}) == 3
