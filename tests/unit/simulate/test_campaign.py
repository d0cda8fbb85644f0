"""Random episodes: labelled, repeatable, and never without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Technology
from fabricmon.simulate.campaign import KINDS, episode, healthy_run
from fabricmon.simulate.engine.counters import ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.events import AnyEvent

CASES = [(technology, kind) for technology in Technology for kind in KINDS[technology]]


@pytest.mark.parametrize(("technology", "kind"), CASES)
def test_every_kind_can_be_drawn(technology: Technology, kind: str) -> None:
    """The label names a cause in the fabric, a window inside the run, and victims that exist."""
    made = episode(kind, seed=11, technology=technology, poll=5.0)
    (label,) = made.labels
    simulation = made.simulation
    assert label.kind == kind
    start = (label.start_ns - simulation.start_ns) / 1e9
    end = (label.end_ns - simulation.start_ns) / 1e9
    assert made.quiet_polls * 5.0 <= start < end < simulation.scenario.config.duration
    ports = simulation.wiring.index
    for cause in label.causes:
        assert cause in ports or cause.device in simulation.wiring.node
    assert all(victim in ports for victim in label.victims)
    assert label.causes or kind == "collective-stall"


def test_an_episode_is_a_function_of_its_seed() -> None:
    """Same seed, same labels and same readings; another seed, another fabric."""

    def first_batch(seed: int) -> tuple[object, bytes]:
        made = episode("incast", seed=seed)
        items = made.simulation.items()
        batch = next(item for item in items if isinstance(item, ReadingBatch))
        return made.labels, batch.values.tobytes()

    assert first_batch(4) == first_batch(4)
    assert first_batch(4) != first_batch(5)


def test_a_fault_begins_with_the_first_poll_that_differs_from_its_twin() -> None:
    """A host that computes longer changes nothing before the others begin to send without it."""
    made = episode("collective-stall", seed=3, poll=1.0)
    simulation, (label,) = made.simulation, made.labels
    events = simulation.scenario.config.events
    others = [event for event in events if event.do != "straggler"]
    late = next(event for event in events if event.do == "straggler")
    both = zip(simulation.intervals(), simulation.intervals(others), strict=True)
    first = next(a.end_s for a, b in both if not np.allclose(a.amount, b.amount))
    begun = (label.start_ns - simulation.start_ns) / 1e9
    assert late.at <= begun == max(late.at, first - 1.0)


def test_who_would_wait_for_either_of_two_faults_waits_for_both() -> None:
    """Without the other fault the port would still wait: neither twin alone shows it."""
    made = episode("incast", second="slow-receiver", seed=8100, poll=5.0)
    simulation = made.simulation
    events = simulation.scenario.config.events
    faults = [[e for e in events if e.do == label.kind] for label in made.labels]
    at = int(events[-1].at / 5.0) + 1

    def stall(*chosen: AnyEvent) -> NDArray[np.float64]:
        polls = [poll.amount[ROW["stall"]] for poll in simulation.intervals(chosen)]
        return np.array(polls[at : at + 20]).mean(axis=0) / 5.0

    first, second = (stall(*fault) for fault in faults)
    both = stall(*faults[0], *faults[1])
    either = np.minimum.reduce([first, second, both]) > 0.03
    indifferent = either & (both - np.maximum(first, second) < 0.01)
    assert indifferent.any()
    ports = {simulation.wiring.ports[row] for row in np.flatnonzero(either)}
    assert all(ports <= set(label.victims) for label in made.labels)


def test_two_faults_have_victims_of_their_own() -> None:
    """Each of two faults is labelled with what it alone does."""
    made = episode("incast", second="slow-receiver", seed=2, technology=Technology.INFINIBAND)
    kinds = [label.kind for label in made.labels]
    assert kinds == ["incast", "slow-receiver"]
    assert made.labels[0].causes != made.labels[1].causes


def test_frames_only_is_an_axis() -> None:
    """The same episode without paused time."""
    made = episode("incast", seed=1, paused_time=False)
    batch = next(i for i in made.simulation.items() if isinstance(i, ReadingBatch))
    assert not any(c.counter.id.endswith("pfc_ns") for c in batch.columns)


def test_a_healthy_day_is_full_of_changes_and_free_of_faults() -> None:
    """At least two changes an hour, and nobody newly held back by them."""
    day = healthy_run(seed=5, hours=3.0, poll=10.0)
    assert day.labels == ()
    assert len(day.simulation.scenario.config.events) >= 6
    usual, changed = (
        [
            interval.amount[ROW["stall"]].max() / 10.0
            for interval in day.simulation.intervals(events)
        ]
        for events in ([], None)
    )
    assert max(changed) <= 1.8 * max(usual) + 0.02
    assert sum(isinstance(item, Tick) for item in day.simulation.items()) == 1080


@pytest.mark.parametrize(("technology", "kind"), CASES)
def test_random_episodes_obey_physics(technology: Technology, kind: str) -> None:
    """No link over its capacity, no port that sends while it is held back, nothing below zero."""
    simulation = episode(kind, seed=23, technology=technology, poll=2.0).simulation
    capacity = simulation.wiring.capacity
    for interval in simulation.intervals():
        rates = interval.amount / 2.0
        assert np.isfinite(rates).all()
        assert rates.min() >= -1e-9
        use = rates[ROW["bytes"]] * 8 / capacity
        assert use.max() <= 1 + 1e-4
        assert (use + rates[ROW["stall"]]).max() <= 1.03
