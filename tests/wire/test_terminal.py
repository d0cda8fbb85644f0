"""`top` and `report` in a real terminal of 80 x 24, against a running daemon."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import require
from support.daemon import FABRICMON, RunningDaemon, fabricmon, running

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


class Terminal:
    """A tmux session of 80 x 24 with one command in it."""

    def __init__(self, command: str) -> None:
        self.tmux = require("tmux")
        self.socket = f"fabricmon-{os.getpid()}-{id(self)}"
        self._run("new-session", "-d", "-x", "80", "-y", "24", command)

    def _run(self, *arguments: str) -> str:
        return subprocess.run(
            [self.tmux, "-L", self.socket, *arguments], capture_output=True, text=True, check=True
        ).stdout

    def screen(self) -> str:
        """What a person sees."""
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Type."""
        self._run("send-keys", *keys)

    def wait(self, seen: Callable[[str], bool], timeout_s: float = 60.0) -> str:
        """The screen once `seen` holds of it."""
        for _ in range(round(timeout_s * 5)):
            screen = self.screen()
            if seen(screen):
                return screen
            time.sleep(0.2)
        raise AssertionError(self.screen())

    def close(self) -> None:
        """End it."""
        subprocess.run([self.tmux, "-L", self.socket, "kill-server"], check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """The demo daemon, once it has an incident."""
    with running(tmp_path_factory.mktemp("demo")) as daemon:
        daemon.wait(lambda: daemon.samples("fabricmon_incident_active"))
        yield daemon


@pytest.fixture
def top(demo: RunningDaemon) -> Iterator[Terminal]:
    """`fabricmon top` on the demo."""
    terminal = Terminal(f"NO_COLOR=1 {FABRICMON} top --refresh 0.5 {demo.url}")
    yield terminal
    terminal.close()


def _ports(screen: str) -> set[str]:
    """The devices whose ports are listed."""
    return {line.split("[")[0].strip() for line in screen.splitlines() if "%" in line}


def test_top_shows_ports_sorts_filters_and_pauses(top: Terminal) -> None:
    """Every key does what the footer says, within 80 columns."""
    screen = top.wait(lambda s: "ports by stall" in s and "[eth0]" in s)
    assert "cause" in screen
    assert max(len(line) for line in screen.splitlines()) <= 80
    top.press("s")
    top.wait(lambda s: "ports by press" in s)
    top.press("/")
    top.wait(lambda s: "part of a device" in s)
    top.press("leaf0[Eth")
    top.wait(lambda s: "leaf0[Eth " in s)
    top.press("Enter")
    top.wait(lambda s: "filter 'leaf0[Eth'" in s and _ports(s) == {"leaf0"})
    top.press("p")
    top.wait(lambda s: "paused" in s)


def test_top_outlives_its_daemon() -> None:
    """A daemon that does not answer is said so; the screen stays."""
    terminal = Terminal(f"{FABRICMON} top --refresh 0.5 http://127.0.0.1:9")
    try:
        terminal.wait(lambda s: "does not answer" in s)
        terminal.press("q")
    finally:
        terminal.close()


def test_report_answers_the_four_questions_in_80_columns(demo: RunningDaemon) -> None:
    """Is it the fabric, which port, who suffers, what to do: on paper and on a terminal."""
    done = fabricmon("report", demo.url)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    markdown = fabricmon("report", demo.url, "-o", "md").stdout
    assert markdown.startswith("# ")


def test_report_fits_the_screen_of_a_real_terminal(demo: RunningDaemon, tmp_path: Path) -> None:
    """No line is broken by the terminal at 80 columns, and no code for colours is left over."""
    file = tmp_path / "report.txt"
    command = f"{FABRICMON} report {demo.url} | tee {file} | head -n 20; sleep 600"
    terminal = Terminal(command)
    try:
        shown = terminal.wait(lambda s: "Who started it?" in s).splitlines()
    finally:
        terminal.close()
    printed = file.read_text()
    assert [line.rstrip() for line in shown[:8]] == printed.splitlines()[:8]
    assert "\x1b" not in printed


def test_targets_of_a_running_daemon(demo: RunningDaemon) -> None:
    """One line a target; exit 0 while all are up."""
    done = fabricmon("targets", "--url", demo.url)
    assert (0, ["simulated", "simulated", "up"]) == (done.returncode, done.stdout.split())
