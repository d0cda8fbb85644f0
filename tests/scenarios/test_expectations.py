"""Every scenario through the whole pipeline: it is told as its file says, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.byhand import Readings, check

from fabricmon import app
from fabricmon.runtime.offline import drive
from fabricmon.simulate import Scenario, catalogue, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.model.incident import Incident
    from fabricmon.simulate import Expectation


def _place(incident: Incident) -> set[str]:
    cause = incident.cause
    return {cause.device, f"{cause.device}/{cause.port}"} if cause is not None else set()


def _found(expected: Expectation, incidents: Sequence[Incident]) -> bool:
    for incident in incidents:
        own = incident.kind is expected.kind
        if not own and incident.kind not in expected.accept:
            continue
        if own and expected.reason and incident.reason != expected.reason:
            continue
        if own and expected.verdict is not None and incident.verdict is not expected.verdict:
            continue
        if expected.causes and not _place(incident) & set(expected.causes):
            continue
        victims = {f"{v.device}/{v.port}" for v in incident.victims}
        if set(expected.victims) <= victims:
            return True
    return False


@pytest.mark.parametrize("scenario", catalogue(), ids=lambda scenario: scenario.name)
def test_a_scenario_is_told_as_its_file_says(scenario: Scenario) -> None:
    """Kind, cause and verdict of every expected incident; no incident of a forbidden kind.

    And each number that an incident shows follows from counters as they were read.
    """
    simulation, readings = load(scenario), Readings()
    pipeline = app.make_pipeline(simulation.fabric, app.make_context())
    incidents = drive(readings.watch(simulation.items()), pipeline).worst_first()
    told = [(i.kind.value, i.reason, sorted(_place(i))) for i in incidents]
    for expected in scenario.expect:
        assert _found(expected, incidents), f"missing {expected.kind}: {told}"
    forbidden = [i for i in incidents if i.kind in scenario.never]
    assert not forbidden, told
    for incident in incidents:
        shown = [e for e in incident.to_json()["evidence"] if e["counter"] != "anomaly_score"]
        assert shown
        for evidence in shown:
            check(evidence, readings)
