"""The books of what incidents take, over months."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fabricmon.diagnose.tracking import cost
from fabricmon.model.topology import Job


def test_jobs_that_ended_long_ago_are_forgotten() -> None:
    """The latest thousand that ended are kept, and every one that runs, however old."""
    books = cost.Cost()
    books.jobs = {f"run{i}": float(i) for i in range(cost._ENDED + 50)}
    view: Any = SimpleNamespace(shape=SimpleNamespace(jobs=[Job("run0", ("h0",))]))
    books.update([], view)
    assert len(books.jobs) == cost._ENDED + 1
    assert books.jobs["run0"] == 0.0
    assert "run1" not in books.jobs
    assert f"run{cost._ENDED + 49}" in books.jobs
