"""What outlives a restart: the run goes on as if it had not been broken off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.pipelines import COLUMNS, batch, ports
from support.restarts import START, S, Story, feed, steady

from fabricmon import app
from fabricmon.model.incident import IncidentKind
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Job, Node, Topology
from fabricmon.record.state import read_state, write_state

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.runtime.pipeline import Pipeline


def _again(pipeline: Pipeline, path: Path, now_ns: int) -> Pipeline:
    """The pipeline of a new process, out of the old one's state file."""
    write_state(path, pipeline.save())
    saved = read_state(path)
    assert saved is not None
    fresh = app.make_pipeline(pipeline.fabric, app.make_context(quiet=True))
    fresh.restore(saved, now_ns)
    return fresh


def test_a_restart_changes_no_number_and_no_incident(storm: Story, tmp_path: Path) -> None:
    """Rates, totals, states, the window and every incident are what they would have been.

    Nor does the detector learn a second time: it fits forests from the rows of the run before.
    """
    breaks = storm.opened
    pipeline = app.make_pipeline(storm.fabric, app.make_context(quiet=True))
    for items in storm.ticks[:breaks]:
        last = feed(pipeline, items)
    pipeline = _again(pipeline, tmp_path / "state.npz", last.frame.time_ns + S)
    for items, whole in zip(storm.ticks[breaks:], storm.snapshots[breaks:], strict=True):
        snapshot = feed(pipeline, items)
        for name in ("rate", "total", "state", "queue_rate", "queue_total", "age_s"):
            mine, other = getattr(snapshot.frame, name), getattr(whole.frame, name)
            assert np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f"), name
        assert snapshot.window is not None
        assert whole.window is not None
        assert [i.id for i in snapshot.incidents] == [i.id for i in whole.incidents]
        assert [i.kind for i in snapshot.incidents] == [i.kind for i in whole.incidents]
    assert snapshot.job_cost == pytest.approx(whole.job_cost)
    ours, theirs = (s.window for s in (snapshot, whole))
    assert ours is not None
    assert theirs is not None
    assert np.array_equal(ours.past("stall"), theirs.past("stall"), equal_nan=True)
    assert not snapshot.scores.learning
    assert [IncidentKind.PFC_STORM] == [i.kind for i in snapshot.incidents]


@pytest.mark.parametrize(
    ("away", "rate", "held"), [(1, 1000.0, 5), (20, 1000.0, 5), (3_000, None, 1), (-3, None, 1)]
)
def test_the_age_of_a_state_decides_what_it_is_good_for(
    context: Context, tmp_path: Path, away: int, rate: float | None, held: int
) -> None:
    """Within a window's time the first poll has the true mean rate; else it is a beginning."""
    pipeline = steady(context, range(4))
    back = 3 + away
    pipeline = _again(pipeline, tmp_path / "s.npz", START + back * 10 * S)
    latest = steady(context, [back], pipeline).latest
    assert latest is not None
    found = latest.frame.rate_of("rx_bytes")[0]
    assert found == rate if rate is not None else np.isnan(found)
    assert latest.frame.total[0].tolist() == [5_000 + back * 10_000] * 2
    assert latest.window is not None
    assert len(latest.window) == held


def test_a_source_that_repeats_its_past_after_a_restart_is_not_counted_twice(
    context: Context, tmp_path: Path
) -> None:
    """A file is read from its beginning again, and only after the first tick: old is old."""
    pipeline = _again(steady(context, range(8)), tmp_path / "s.npz", START + 16 * 10 * S)
    pipeline.feed(Tick(START + 16 * 10 * S, 10.0))
    now = START + 17 * 10 * S
    for poll in range(18):
        stamp = START + poll * 10 * S
        pipeline.feed(batch("t", ports("leaf", "1", "2"), 5_000 + poll * 10_000, stamp))
    snapshot = pipeline.feed(Tick(now, 10.0))
    assert snapshot is not None
    assert snapshot.frame.total[0].tolist() == [5_000 + 17 * 10_000] * 2
    assert snapshot.frame.rate_of("rx_bytes")[0] == 1000.0


def test_a_narrow_counter_begins_anew_after_a_gap(context: Context, tmp_path: Path) -> None:
    """A 32-bit counter may have wrapped twice meanwhile; a wide one, or a short break, cannot."""
    narrow = tuple(replace(column, bits=32) for column in COLUMNS[:1]) + COLUMNS[1:]
    known = ports("leaf", "1")
    for away, states in ((1, [0, 0]), (10, [10, 0])):
        pipeline = app.make_pipeline("pod", context)
        for poll in (0, 1, 1 + away):
            if poll == 1 + away:
                now = START + poll * 10 * S
                pipeline = _again(pipeline, tmp_path / f"{away}.npz", now)
            now = START + poll * 10 * S
            reading = batch("t", known, poll * 1_000, now)
            pipeline.feed(replace(reading, columns=narrow))
            snapshot = pipeline.feed(Tick(now, 10.0))
        assert snapshot is not None
        assert [int(s) for s in snapshot.frame.state[:, 0]] == states


def test_a_fabric_that_was_rebuilt_meanwhile_is_not_remembered(
    context: Context, tmp_path: Path
) -> None:
    """The old shape serves until every target was asked; then only what they told counts."""
    old = Topology((Node("a", "switch"), Node("b", "switch")), jobs=(Job("j", ("h",)),))
    pipeline = app.make_pipeline("pod", context)
    pipeline.feed(old)
    pipeline.feed(Tick(START, 10.0))
    pipeline = _again(pipeline, tmp_path / "s.npz", START)
    assert [node.name for node in pipeline.topology.nodes] == ["a", "b"]
    pipeline.feed(Topology((Node("a", "switch"), Node("c", "switch"))))
    pipeline.rediscovered()
    assert [node.name for node in pipeline.topology.nodes] == ["a", "c"]
    assert pipeline.topology.jobs == old.jobs
