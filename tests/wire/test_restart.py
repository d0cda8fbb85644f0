"""A daemon that is restarted goes on where it was: real processes, SIGTERM between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.daemon import running
from support.truth import Truth, assert_rising, assert_true, rates

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import RunningDaemon

pytestmark = pytest.mark.wire


def _stale(daemon: RunningDaemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.json("/api/v1/incidents?state=open")
    return [one for one in found if one["kind"] == "telemetry-stale"]


def test_a_restart_keeps_rates_totals_and_open_incidents(tmp_path: Path) -> None:
    """One device fell silent before the stop, the other counts on through it.

    No series begins anew, the total goes on, and the incident about the silent device is the same
    one, begun when it began.
    """
    with Truth(tmp_path / "events.json") as truth:
        silent = tmp_path / "silent.json"
        config = (
            "interval: 500ms\n"
            f"state: {{directory: {tmp_path / 'state'}}}\n"
            f"targets:\n  - {truth.target()}\n"
            f"  - {{collector: gnmi_file, name: silent, address: {silent}}}\n"
        )
        seen: list[list[dict[str, Any]]] = []
        totals = []
        for run in range(3):
            with running(tmp_path, config) as daemon:
                if run == 0:
                    daemon.wait(lambda daemon=daemon: len(rates(daemon)) > 2)
                    line = truth.path.read_text().splitlines()[-1]
                    silent.write_text(line.replace("leaf7", "leaf8") + "\n")
                daemon.wait(lambda daemon=daemon: _stale(daemon))
                daemon.wait(lambda daemon=daemon: len(rates(daemon)) > 2)
                seen.append(_stale(daemon))
                totals.append(truth.total(daemon))
                assert_true(rates(daemon))
                begun = daemon.samples("fabricmon_values_total", state="baseline").values()
                assert (sum(begun) == 0) is (run > 0), "no series begins anew after a restart"
                assert daemon.stop()[0] == 0
            log = (tmp_path / "fabricmon.log").read_text()
            assert ("state_restored" in log) is (run > 0)
            assert ("incident_opened" in log) is (run == 0)
    assert_rising(totals)
    assert len({(one["id"], one["started_at"]) for all_of in seen for one in all_of}) == 1
