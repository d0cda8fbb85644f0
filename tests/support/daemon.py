"""The real daemon, and simulated devices, as processes for the time of a `with` block."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FABRICMON = str(Path(sys.executable).with_name("fabricmon"))
_START_S = 150.0
_PAUSE_S = 0.1


def fabricmon(
    *arguments: str, timeout: float = 60.0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [FABRICMON, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **env},
    )


class RunningDaemon:
    """`fabricmon run`, and its pages."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Wait for the line with the address."""
        self.process, self.log = process, log
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        try:
            self.line = lines.get(timeout=_START_S).strip()
        except queue.Empty:
            raise AssertionError(f"no address within {_START_S} s:\n{log.read_text()}") from None
        self.url = self.line.rpartition(" ")[2].rstrip("/")

    def get(self, path: str) -> str:
        """A page; error pages are pages too."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def json(self, path: str) -> Any:
        """A JSON page."""
        return json.loads(self.get(path))

    def samples(
        self, name: str, *, group: str = "", **labels: str
    ) -> dict[tuple[tuple[str, str], ...], float]:
        """The samples of one metric whose labels include `labels`, by their labels.

        `group`: only this part of the page is asked for; the whole of a large fabric takes long.
        """
        page = self.get(f"/metrics?collect[]={group}" if group else "/metrics")
        return {
            tuple(sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def total(self, name: str, **labels: str) -> float:
        """The sum of those samples."""
        return sum(self.samples(name, **labels).values())

    def events(self, event: str) -> float:
        """How often an event was reported."""
        return self.total("fabricmon_self_events_total", event=event)

    def ticks(self) -> float:
        """How many ticks it has judged, of all fabrics."""
        return self.total("fabricmon_tick_stage_duration_seconds_count", stage="diagnose")

    def wait_ticks(self, more: int) -> None:
        """Until it has judged so many more."""
        due = self.ticks() + more
        self.wait(lambda: self.ticks() >= due)

    def wait(self, what: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Ask `what` until it answers with something, and give that."""
        for _ in range(round(timeout_s / _PAUSE_S)):
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            found = what()
            if found:
                return found
            time.sleep(_PAUSE_S)
        log = self.log.read_text()[-4000:]
        raise AssertionError(f"did not happen within {timeout_s} s:\n{log}")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Ask it to end; its exit code and how long that took, seconds."""
        begun = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        return code, time.monotonic() - begun


def _pump(stream: Any, lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)


@contextmanager
def running(
    folder: Path,
    config: str | None = None,
    *arguments: str,
    program: str = FABRICMON,
    env: Mapping[str, str] | None = None,
) -> Iterator[RunningDaemon]:
    """Start the daemon on `config` (YAML; None is the demo), end it after."""
    command = [program, "run", "--web.listen-address", "127.0.0.1:0", *arguments]
    if config is not None:
        file = folder / "fabricmon.yaml"
        file.write_text(config)
        command += ["-c", str(file)]
    log = folder / "fabricmon.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
    try:
        yield RunningDaemon(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def devices(scenario: str, folder: Path, *options: str) -> Iterator[Path]:
    """A scenario (YAML) as devices that speak their own protocols; gives `folder`, with configs."""
    file = folder / "scenario.yaml"
    file.write_text(scenario)
    command = [FABRICMON, "simulate", str(file), "--serve", str(folder), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        next(line for line in process.stdout if line.startswith("configs for"))
        yield folder
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
