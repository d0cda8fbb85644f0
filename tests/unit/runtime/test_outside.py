"""What is known of a fabric from outside: what is taken, and what an unreadable source leaves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from support.pipelines import make_pipeline
from support.selfmon import events

from fabricmon.config import JobsConfig
from fabricmon.formats.interchange import read_topology, write_topology
from fabricmon.model.topology import Job, Link, Node, PortId, Topology
from fabricmon.runtime.outside import job_map, topology_file

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

_JOB = Job("train", ("h0", "h1"))


def _jobs(context: Context, *command: str) -> Topology | None:
    config = JobsConfig(command=[sys.executable, "-c", *command], format="yaml")
    return job_map(config, context.report)


def test_jobs_come_and_go(tmp_path: Path, context: Context) -> None:
    """A map that names nobody says that no job runs; a discovery, which knows of none, does not."""
    file = tmp_path / "jobs.yaml"
    file.write_text("train: [h0, h1]\n")
    config = JobsConfig(file=file)
    pipeline = make_pipeline(context)
    for text, expected in (("train: [h0, h1]\n", (_JOB,)), ("{}\n", ())):
        file.write_text(text)
        found = job_map(config, context.report)
        assert found is not None
        pipeline.feed(found)
        pipeline.feed(Topology())
        assert pipeline.topology.jobs == expected


def test_a_recorded_map_without_jobs_stays_one() -> None:
    """The replay of a day on which the last job ended ends it too."""
    idle = Topology(idle=True)
    assert read_topology(write_topology(idle)) == idle
    assert not Topology(jobs=(_JOB,)).merged(idle).jobs


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "print('[')"])
def test_a_command_that_fails_leaves_the_last_map(context: Context, program: str) -> None:
    """An exit code and nonsense are counted, and say nothing of the jobs."""
    assert _jobs(context, program) is None
    assert events(context, "discovery_failed") == 1


def test_a_map_of_broken_records_does_not_end_jobs(context: Context) -> None:
    """Records that cannot be read are counted; a map that has only such is no empty map."""
    found = _jobs(context, "print('train: 7')")
    assert found is not None
    assert not found.jobs
    assert not found.idle
    assert events(context, "record_skipped") == 1


def test_a_topology_file_needs_no_counters(tmp_path: Path, context: Context) -> None:
    """Its shape is all that is wanted of it: there is nothing to tell."""
    link = Link(PortId("leaf", "p1"), PortId("spine", "p1"), 400e9)
    shape = Topology((Node("leaf", "switch"), Node("spine", "switch")), (link,))
    path = tmp_path / "topology.json"
    path.write_bytes(write_topology(shape))
    read = topology_file(path, context.report)
    assert read is not None
    assert read.links == shape.links
    assert events(context, "record_skipped") == 0


def test_a_topology_file_that_cannot_be_read_is_counted(tmp_path: Path, context: Context) -> None:
    """A missing file and nonsense leave what was known."""
    for path in (tmp_path / "none.json", tmp_path / "nonsense.json"):
        (tmp_path / "nonsense.json").write_text("{")
        assert topology_file(path, context.report) is None
    assert events(context, "discovery_failed") == 2
