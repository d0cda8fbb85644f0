"""What happens to a daemon that runs for months: full disks, stepped clocks, frozen processes."""

from __future__ import annotations

import json
import resource
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import require
from support.daemon import running
from support.recorded import recorded
from support.snmpd import COMMUNITY, moving_octets, snmpd
from support.truth import RATE, Truth, assert_rising, assert_true, rates

from fabricmon.model.stream import ClockStep, Tick

if TYPE_CHECKING:
    from support.daemon import RunningDaemon

pytestmark = [pytest.mark.wire, pytest.mark.timeout(600)]

_INTERVAL_S = 0.5


def _ready(daemon: RunningDaemon) -> None:
    daemon.wait(lambda: daemon.get("/-/ready").startswith("fabricmon is"))
    daemon.wait(lambda: any(rates(daemon)))


def test_a_full_disk_costs_what_cannot_be_written_and_nothing_else(tmp_path: Path) -> None:
    """Recording, state, JSON lines, queue and log meet the end of the disk, and go on after it.

    No file may grow beyond a few bytes, as on a disk that is full; then it may again.
    """
    with Truth(tmp_path / "events.json") as truth:
        config = (
            f"interval: {_INTERVAL_S}s\nrecord: {{directory: {tmp_path / 'recordings'}}}\n"
            f"state: {{directory: {tmp_path / 'state'}, every: 1s}}\n"
            "exporters:\n  prometheus: {}\n"
            f"  jsonl: {{path: {tmp_path / 'out.jsonl'}}}\n"
            "  remote_write: {url: 'http://127.0.0.1:9/api/v1/write', "
            f"path: {tmp_path / 'queue'}}}\n"
            f"targets: [{truth.target()}]\n"
        )
        with running(tmp_path, config) as daemon:
            _ready(daemon)
            log_s = (tmp_path / "fabricmon.log").stat().st_size
            pid, limit = daemon.process.pid, resource.RLIMIT_FSIZE
            hard = resource.prlimit(pid, limit)[1]
            resource.prlimit(pid, limit, (64, hard))
            daemon.wait(lambda: daemon.events("recording_failed") >= 3)
            daemon.wait(lambda: daemon.events("state_failed") >= 2)
            daemon.wait(lambda: daemon.events("export_dropped") >= 1)
            daemon.wait_ticks(4)
            first = truth.total(daemon)
            assert log_s == (tmp_path / "fabricmon.log").stat().st_size, "the log is full too"
            assert daemon.total("fabricmon_log_lines_lost_total") >= 3

            resource.prlimit(pid, limit, (hard, hard))
            failed = {e: daemon.events(e) for e in ("recording_failed", "state_failed")}
            daemon.wait_ticks(6)
            assert_rising([first, truth.total(daemon)])
            assert_true(rates(daemon))
            assert daemon.events("recording_failed") <= failed["recording_failed"] + 1
            assert daemon.events("state_failed") <= failed["state_failed"] + 1
            assert daemon.events("component_failed") == 0
            assert daemon.stop()[0] == 0
    assert (tmp_path / "fabricmon.log").stat().st_size > log_s
    items = recorded(tmp_path / "recordings")
    assert sum(isinstance(item, Tick) for item in items) >= 6


def test_a_frozen_daemon_goes_on_without_a_flood(tmp_path: Path) -> None:
    """Stopped for several intervals and continued: missed ticks are not made up for."""
    with Truth(tmp_path / "events.json") as truth:
        config = f"interval: {_INTERVAL_S}s\ntargets: [{truth.target()}]\n"
        with running(tmp_path, config) as daemon:
            _ready(daemon)
            before = daemon.ticks()
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(8 * _INTERVAL_S)
            daemon.process.send_signal(signal.SIGCONT)
            after = daemon.ticks()
            assert after <= before + 4, "two of them in flight, two since"
            daemon.wait_ticks(4)
            assert_true(rates(daemon))
            truth.total(daemon)
            assert daemon.events("clock_stepped") == 0


@pytest.mark.parametrize("offset", ["-3600", "+3600", "+2592000", "+1.3"])
def test_a_stepped_clock_stops_nothing(offset: str, tmp_path: Path) -> None:
    """Wall time steps under the daemon alone: it polls on within an interval, with true rates.

    One device stamps its samples itself, by a clock that stays right; the other leaves that to us.
    """
    library = Path(require("faketime")).parents[1] / "lib"
    (faketime,) = library.glob("*/faketime/libfaketimeMT.so.1")
    clock = tmp_path / "faketime.rc"
    clock.write_text("+0\n")
    community = tmp_path / "community"
    community.write_text(COMMUNITY)
    environment = {
        "LD_PRELOAD": str(faketime),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Its correction of timed waits shifts those of the monotonic clock: the interpreter's own
        # lock would be waited for by the length of the step.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    agent_folder = tmp_path / "agent"
    agent_folder.mkdir()
    with (
        Truth(tmp_path / "events.json") as truth,
        snmpd(agent_folder, moving_octets(agent_folder)) as agent,
    ):
        config = (
            f"interval: {_INTERVAL_S}s\nrecord: {{directory: {tmp_path / 'recordings'}}}\n"
            f"credentials: {{ro: {{community: {{file: {community}}}}}}}\n"
            f"targets:\n  - {truth.target()}\n"
            f"  - {{collector: snmp, name: box, address: '{agent.address}', credential: ro}}\n"
        )
        with running(tmp_path, config, env=environment) as daemon:
            _ready(daemon)
            daemon.wait_ticks(4)
            scrapes = [time.monotonic()]
            totals = [truth.total(daemon)]
            clock.write_text(f"{offset}\n")
            before = daemon.ticks()
            while daemon.ticks() < before + 12:
                scrapes.append(time.monotonic())
                totals.append(truth.total(daemon))
            assert daemon.events("clock_stepped") >= 1
            assert_rising(totals)
            found = [rate for rate in rates(daemon) if rate is not None]
            odd = [rate for rate in found if abs(rate / RATE - 1) > 2e-3]
            assert len(odd) <= 1, "one reading is taken by when it came"
            assert_true(odd or found, rel=0.5)
            silences = [after - at for at, after in pairwise(scrapes)]
            assert daemon.stop()[0] == 0
    items = recorded(tmp_path / "recordings")
    steps = [item.step_ns / 1e9 for item in items if isinstance(item, ClockStep)]
    assert steps == pytest.approx([float(offset)], abs=0.2)
    print(json.dumps({"offset": offset, "longest_scrape_s": round(max(silences), 2)}))


def test_credentials_that_change_are_used_at_once(tmp_path: Path) -> None:
    """The community on the device changes, then the file it is kept in: no restart, no reload."""
    community, agent_folder = tmp_path / "community", tmp_path / "agent"
    community.write_text("outdated")
    agent_folder.mkdir()
    with snmpd(agent_folder, moving_octets(agent_folder)) as agent:
        config = (
            f"interval: {_INTERVAL_S}s\n"
            f"credentials: {{ro: {{community: {{file: {community}}}}}}}\n"
            f"targets: [{{collector: snmp, name: box, address: '{agent.address}', "
            "credential: ro}]\ncollectors: {snmp: {timeout: 200ms, retries: 0}}\n"
        )
        with running(tmp_path, config) as daemon:
            daemon.wait(lambda: daemon.events("poll_failed") >= 1)
            community.write_text(COMMUNITY)
            daemon.wait(lambda: daemon.events("target_recovered") >= 1)
    assert "outdated" not in (tmp_path / "fabricmon.log").read_text()


def test_a_device_that_moves_is_found_again(tmp_path: Path) -> None:
    """Its address goes silent, and answers again from another process: polled on, same series."""
    community, first = tmp_path / "community", tmp_path / "first"
    community.write_text(COMMUNITY)
    first.mkdir()
    with snmpd(first, moving_octets(first)) as agent:
        port = agent.port
        config = (
            f"interval: {_INTERVAL_S}s\n"
            f"credentials: {{ro: {{community: {{file: {community}}}}}}}\n"
            f"targets: [{{collector: snmp, name: box, address: '127.0.0.1:{port}', "
            "credential: ro}]\n"
        )
        with running(tmp_path, config) as daemon:
            daemon.wait(lambda: daemon.samples("fabricmon_target_up", target="box"))
            agent.process.send_signal(signal.SIGKILL)
            daemon.wait(lambda: daemon.events("poll_failed") >= 2)
            second = tmp_path / "second"
            second.mkdir()
            with snmpd(second, moving_octets(second), port=port):
                daemon.wait(lambda: daemon.events("target_recovered") >= 1)
            assert daemon.stop()[0] == 0
