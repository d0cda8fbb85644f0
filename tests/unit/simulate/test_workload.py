"""Jobs in time: iterations, stragglers, checkpoints, stops, and a demonstration without end."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fabricmon.simulate import ScenarioConfig, Simulation, load
from fabricmon.simulate.engine.counters import ROW
from fabricmon.simulate.scenario import Scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray


def simulation(**changes: Any) -> Simulation:
    """One job of eight hosts on two leaves, polled five times a second."""
    data = {
        "title": "a job",
        "kind": "healthy",
        "technology": "roce",
        "poll": 0.2,
        "duration": 60.0,
        "topology": {"leaves": 2, "spines": 2, "hosts_per_leaf": 4},
        "traffic": {
            "jobs": [{"name": "A", "compute": 2.0, "communicate": 1.0, "noise": 0.0}],
            "background": 0.0,
        },
    }
    return Simulation(Scenario("a job", ScenarioConfig.model_validate({**data, **changes})))


def sent(run: Simulation, host: str) -> NDArray[np.float64]:
    """float64[W]: share of its card a host used, poll by poll."""
    card = run.wiring.card(host)
    capacity = run.wiring.capacity[card] / 8 * run.poll_s
    return np.array([i.amount[ROW["bytes"], card] / capacity for i in run.intervals()])


def starts(series: NDArray[np.float64]) -> NDArray[np.intp]:
    """intp[]: polls in which a host begins to send after a silent one."""
    busy = series > 0.02
    return np.flatnonzero(busy[1:] & ~busy[:-1]) + 1


def test_an_iteration_is_compute_and_communication() -> None:
    """Three seconds an iteration: a third of the time at nine tenths of the card."""
    series = sent(simulation(), "host0")
    assert np.diff(starts(series)).mean() * 0.2 == pytest.approx(3.0, abs=0.1)
    assert series[25:].mean() == pytest.approx(0.9 / 3, abs=0.02)


def test_a_slow_link_makes_iterations_longer_not_smaller() -> None:
    """At half speed the same bytes take twice as long."""
    event = {"do": "degrade", "at": 0.1, "link": "host3/eth0", "speed": 0.45}
    series = sent(simulation(events=[event]), "host0")
    assert np.diff(starts(series)).mean() * 0.2 == pytest.approx(4.0, abs=0.2)
    per_iteration = series[25:].mean() * 0.2 * np.diff(starts(series)).mean() / 0.2
    assert per_iteration == pytest.approx(0.9 / 0.2, rel=0.1)


def test_a_straggler_is_the_one_that_sends_last() -> None:
    """The others send a little and wait; the late host begins when all go on."""
    event = {"do": "straggler", "at": 1.0, "job": "A", "host": "host5", "late": 2.0}
    run = simulation(events=[event])
    late, others = sent(run, "host5"), sent(run, "host2")
    assert len(starts(others)) > len(starts(late)), "the others have a start of their own"
    joins = starts(late)
    early = [s for s in starts(others) if np.abs(joins - s).min() > 2]
    waited = joins[joins > early[1]][0] - early[1]
    assert waited * 0.2 == pytest.approx(2.1, abs=0.4)


def test_a_stopped_job_sends_nothing_and_comes_back() -> None:
    """Silence while it is stopped, iterations again afterwards."""
    event = {"do": "job", "at": 20.0, "lasts": 20.0, "job": "A", "running": False}
    series = sent(simulation(events=[event]), "host0")
    assert series[101:199].max() == 0
    assert series[210:].mean() > 0.2


def test_checkpoints_go_to_storage() -> None:
    """Every third iteration the hosts write, and the storage hosts take it in."""
    traffic = {
        "jobs": [
            {
                "name": "A",
                "hosts": 6,
                "compute": 2.0,
                "communicate": 1.0,
                "noise": 0.0,
                "checkpoint": 3,
                "checkpoint_time": 1.0,
                "storage": ["host6", "host7"],
            }
        ],
        "background": 0.0,
    }
    run = simulation(traffic=traffic)
    into = run.wiring.card("host6") ^ 1
    series = np.array([i.amount[ROW["bytes"], into] for i in run.intervals()])
    assert np.diff(starts(series / series.max())).mean() * 0.2 == pytest.approx(10.0, abs=0.3)


def test_a_dead_card_stops_the_whole_job() -> None:
    """A collective with a host that has no way does not advance at all."""
    event = {"do": "link-down", "at": 20.0, "lasts": 20.0, "link": "host5/eth0"}
    series = sent(simulation(events=[event]), "host0")
    assert series[101:199].max() == 0
    assert series[205:].mean() > 0.2


def test_links_count_each_fall_once() -> None:
    """A link that flaps four times counts four at both ends."""
    event = {"do": "link-down", "at": 10.0, "lasts": 40.0, "link": "leaf0/Ethernet5"}
    run = simulation(events=[{**event, "period": 10.0, "down": 2.0}])
    port = run.wiring.port("leaf0/Ethernet5")
    downs = np.array([i.amount[ROW["downs"]] for i in run.intervals()]).sum(axis=0)
    assert downs[[port, port ^ 1]] == pytest.approx([4, 4])
    once = simulation(events=[event])
    downs = np.array([i.amount[ROW["downs"]] for i in once.intervals()]).sum(axis=0)
    assert downs[port] == pytest.approx(1)


def test_the_demonstration_never_ends() -> None:
    """Events come again at the same distance, lap after lap."""
    run = load("slow-receiver", duration=150.0)
    port = run.wiring.port("leaf1/Ethernet2")
    stalls = np.array([i.amount[ROW["stall"], port] for i in islice(run.cycles(), 400)])
    assert stalls[:120].max() == 0
    held = stalls > 0.1
    assert held[120:150].mean() > 0.3
    assert held[150:].mean() > 0.3, "the next lap begins with the event"
