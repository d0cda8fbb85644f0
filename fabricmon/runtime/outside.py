"""What is known of a fabric from outside its devices: topology files, and the map of jobs.

Both are read again and again; what cannot be read is reported, and the last good one stays.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from fabricmon.errors import FabricmonError
from fabricmon.formats.jobs import read_jobs
from fabricmon.model.topology import Topology
from fabricmon.record.source import open_source
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.config import JobsConfig
    from fabricmon.formats.base import BadRecord
    from fabricmon.selfmon import Reporter

_COMMAND_S = 30.0


def topology_file(path: Path, report: Reporter) -> Topology | None:
    """The shape in a file: an interchange topology, ibnetdiscover or lldpctl output, and so on."""
    found = Topology()
    try:
        for item in open_source([path], report=report).items():
            if isinstance(item, Topology):
                found = found.merged(item)
    except (OSError, FabricmonError) as error:
        report.emit(Event.DISCOVERY_FAILED, str(path), error=str(error))
        return None
    return found


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
