"""A new leader goes on with the incidents of the one before it, whatever it has seen itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter
from support.pipelines import make_pipeline

from fabricmon.model.incident import Incident, IncidentState
from fabricmon.model.stream import Tick
from fabricmon.simulate.run import load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item
    from fabricmon.runtime.pipeline import Pipeline

KEPT = TypeAdapter(list[Incident])


@pytest.fixture(scope="module")
def stream() -> list[Item]:
    """A slow receiver that begins after two minutes and ends after three."""
    return list(load("slow-receiver", poll=2.0).items())


def run(pipeline: Pipeline, items: Iterable[Item]) -> list[Snapshot]:
    """Feed, and give every tick."""
    return [snapshot for item in items if (snapshot := pipeline.feed(item)) is not None]


def handed(snapshot: Snapshot) -> list[Incident]:
    """What the leader keeps for the next one, as it comes out of the bucket."""
    bare = [replace(incident, evidence=()) for incident in snapshot.incidents]
    return KEPT.validate_json(KEPT.dump_json(bare))


def cut(stream: list[Item], at: int) -> int:
    """The index behind the tick of that number."""
    seen = 0
    for index, item in enumerate(stream):
        seen += isinstance(item, Tick)
        if seen == at:
            return index + 1
    raise AssertionError(f"only {seen} ticks")


@pytest.mark.parametrize("joined", [0, 30, 68])
def test_the_incident_goes_on_under_its_id(
    stream: list[Item], joined: int, context: Context
) -> None:
    """One that read along from the start, or came late, or only just: one incident, one id."""
    takeover = cut(stream, 78)
    begin = cut(stream, joined) if joined else 0
    first, second = make_pipeline(context), make_pipeline(context)
    before = run(first, stream[:takeover])[-1]
    (opened,) = [i for i in before.incidents if i.kind == "slow-receiver"]
    second.feed(first.topology)
    run(second, stream[begin:takeover])
    second.adopt(handed(before))
    after = run(second, stream[takeover:])
    seen = {
        incident.id
        for snapshot in after
        for incident in (*snapshot.incidents, *snapshot.closed)
        if incident.kind == opened.kind
    }
    assert seen == {opened.id}
    (closed,) = [i for snapshot in after for i in snapshot.closed if i.id == opened.id]
    assert closed.started_ns == opened.started_ns
    assert closed.stalled_port_seconds >= opened.stalled_port_seconds > 0
    assert not after[-1].incidents


def test_one_that_is_over_is_closed(stream: list[Item], context: Context) -> None:
    """It ended while nobody led: the new leader says so, once."""
    first, second = make_pipeline(context), make_pipeline(context)
    before = run(first, stream[: cut(stream, 78)])[-1]
    second.feed(first.topology)
    healthy = stream[: cut(stream, 30)]
    run(second, healthy[: cut(healthy, 12)])
    second.adopt(handed(before))
    after = run(second, healthy[cut(healthy, 12) :])
    closed = [incident for snapshot in after for incident in snapshot.closed]
    assert [(i.id, i.state) for i in closed] == [
        (i.id, IncidentState.CLOSED) for i in before.incidents
    ]
    assert not after[-1].incidents
