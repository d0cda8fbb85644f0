"""What is known of a fabric from elsewhere: topology files, the map of jobs, and the past.

The first two are read again and again; what cannot be read is reported, and the last good one
stays. The past is what an earlier run saved (`state:` in the config).
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING
from urllib.parse import quote

from fabricmon.errors import FabricmonError
from fabricmon.formats.jobs import read_jobs
from fabricmon.model.topology import Topology
from fabricmon.record.source import read_shape
from fabricmon.record.state import read_state, write_state
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.config import JobsConfig, StateConfig
    from fabricmon.formats.base import BadRecord
    from fabricmon.runtime.pipeline import Pipeline
    from fabricmon.selfmon import Reporter

_COMMAND_S = 30.0
_SOONEST_S = 60.0
"""An incident that opened or closed is saved before the next save is due, but not sooner."""


class Keeper:
    """One fabric's state file: read at the start, written now and then and at the stop."""

    def __init__(
        self, config: StateConfig, name: str, make: Callable[[], Pipeline], context: Context
    ) -> None:
        """`make` builds the pipeline of the fabric anew, where its file is of no use."""
        self._path = config.directory / f"{quote(name, safe=' ')}.npz"
        self._every_s = config.every
        self._make = make
        self._context = context
        self._saved_at = context.clock.monotonic()
        self._open: frozenset[str] = frozenset()

    @property
    def look_s(self) -> float:
        """How often to ask whether a save is due."""
        return min(self._every_s, _SOONEST_S)

    def revive(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline as an earlier run left it; a cold one where that is not known."""
        report, name = self._context.report, str(self._path)
        try:
            saved = read_state(self._path)
            if saved is None:
                return pipeline
            age_s = pipeline.restore(saved, self._context.clock.now_ns())
        except Exception as error:  # noqa: BLE001 - whatever is in the file, the daemon starts
            report.emit(Event.STATE_REFUSED, name, error=str(error) or repr(error))
            return self._make()
        report.emit(Event.STATE_RESTORED, name, ports=len(pipeline.table), age_s=round(age_s, 1))
        return pipeline

    def keep(self, pipeline: Pipeline, *, now: bool = False) -> None:
        """Save if that is due, or `now`. Runs where the pipeline is fed, so that nothing moves."""
        latest, clock = pipeline.latest, self._context.clock
        if latest is None:
            return
        is_open = frozenset(incident.id for incident in latest.incidents)
        due = clock.monotonic() - self._saved_at >= self._every_s or is_open != self._open
        if not (due or now):
            return
        self._saved_at, self._open = clock.monotonic(), is_open
        try:
            write_state(self._path, pipeline.save())
        except OSError as error:
            self._context.report.emit(Event.STATE_FAILED, str(self._path), error=str(error))


def topology_file(path: Path, report: Reporter) -> Topology | None:
    """The shape in a file: an interchange topology, ibnetdiscover or lldpctl output, and so on."""
    try:
        return read_shape(path, report)
    except (OSError, FabricmonError) as error:
        report.emit(Event.DISCOVERY_FAILED, str(path), error=str(error))
        return None


def job_map(config: JobsConfig, report: Reporter) -> Topology | None:
    """The jobs that run now, from a file or from what a command prints."""
    name = str(config.file or " ".join(config.command))

    skipped: list[BadRecord] = []

    def bad(record: BadRecord) -> None:
        skipped.append(record)
        report.emit(Event.RECORD_SKIPPED, name, error=str(record))

    try:
        data = config.file.read_bytes() if config.file else _output(config.command)
        jobs = read_jobs(
            data, bad, fmt=config.format, gpus_per_host=config.gpus_per_host, file=name
        )
    except (OSError, FabricmonError, subprocess.SubprocessError) as error:
        report.emit(Event.DISCOVERY_FAILED, name, error=str(error))
        return None
    return Topology(jobs=jobs, idle=not jobs and not skipped)


def _output(command: list[str]) -> bytes:
    """What the operators' own command prints; no shell is between."""
    done = subprocess.run(  # noqa: S603 - the command is the operator's, from the config
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S, check=True
    )
    return done.stdout
