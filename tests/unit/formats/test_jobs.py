"""Maps from hosts to jobs, in every shape that schedulers print."""

from __future__ import annotations

import json

import pytest

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord
from fabricmon.formats.jobs import expand_hosts, read_jobs
from fabricmon.model.topology import Job

SCONTROL = """JobId=811 JobName=llm
   JobState=RUNNING Reason=None
   NodeList=gpu[001-003,007]
   TresPerNode=gres/gpu:h100:8
JobId=812 JobName=next
   JobState=PENDING NodeList=(null)
"""
SQUEUE = """JOBID NAME ST NODELIST(REASON)
811 llm R gpu[1-2]
812 next PD (Priority)
"""
POD = {
    "metadata": {"namespace": "ml", "labels": {"job-name": "llm"}},
    "spec": {
        "nodeName": "gpu1",
        "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}],
    },
    "status": {"phase": "Running"},
}


def read(text: str, **options: object) -> tuple[tuple[Job, ...], list[BadRecord]]:
    """The jobs and the bad records of a text."""
    bad: list[BadRecord] = []
    return read_jobs(text.encode(), bad.append, **options), bad  # type: ignore[arg-type]


def test_scontrol_gives_running_jobs_with_their_gpus() -> None:
    """Host ranges keep their leading zeros; pending jobs have no hosts."""
    jobs, bad = read(SCONTROL)
    assert jobs == (Job("811:llm", ("gpu001", "gpu002", "gpu003", "gpu007"), 8),)
    assert not bad


def test_squeue_tables_are_read_by_their_header() -> None:
    """Only running jobs count, and GPUs per host come from the config."""
    jobs, _ = read(SQUEUE, gpus_per_host=4)
    assert jobs == (Job("811:llm", ("gpu1", "gpu2"), 4),)


def test_pods_are_grouped_by_the_job_their_labels_name() -> None:
    """Two pods of one job are one job on two hosts; a broken pod costs only itself."""
    other = {**POD, "spec": {**POD["spec"], "nodeName": "gpu2"}}
    jobs, bad = read(json.dumps({"items": [POD, other, {"metadata": 3}]}))
    assert jobs == (Job("ml/llm", ("gpu1", "gpu2"), 4),)
    assert len(bad) == 1


def test_prometheus_series_with_job_and_host_labels_are_a_map() -> None:
    """The port of an instance label is dropped."""
    jobs, _ = read('slurm_job_node{job_id="7",instance="gpu1:9100"} 1\n')
    assert jobs == (Job("7", ("gpu1",), 8),)


def test_a_yaml_file_names_jobs_and_hosts() -> None:
    """Both the short and the long form; a job without hosts is named and left out."""
    jobs, bad = read("a: [h1, 'h[2-3]']\nb: {hosts: [h4], gpus_per_host: 2}\nc: 5\n")
    assert jobs == (Job("a", ("h1", "h2", "h3"), 8), Job("b", ("h4",), 2))
    assert "'c'" in bad[0].reason


def test_a_host_range_that_explodes_is_refused() -> None:
    """A range of millions is an error of that job, not of the machine's memory."""
    with pytest.raises(ValueError, match="hosts"):
        expand_hosts("h[0-99999999]")
    jobs, bad = read(SCONTROL.replace("001-003", "0-99999999"))
    assert not jobs
    assert "811" in bad[0].reason


def test_what_is_no_map_is_refused_with_its_file() -> None:
    """A number is no map of jobs."""
    with pytest.raises(FormatError, match=r"jobs\.yaml"):
        read("12", file="jobs.yaml")
