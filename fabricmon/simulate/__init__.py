"""A fabric that does not exist: physics, traffic, faults, and what collectors would read of it.

    from fabricmon.simulate import catalogue, load

    simulation = load("incast", seed=7, poll=5.0)      # a `model.stream.Source`
    for item in simulation.items(): ...                # Topology, then readings and a Tick per poll

`catalogue()` lists the built-in scenarios (`scenarios/*.yaml`); each carries `kind`, `title`,
`expect` and `never`. The same seed gives the same bytes. `campaign` makes random labelled episodes
and healthy days, for tuning and benchmarks; `agents` let the fabric speak real protocols.

Inside: `fabric` (shapes, wiring, ways), `engine` (flows to steady states to signals), `workload`
(jobs and the loop that plays them), `events` (what a scenario can do), `reading` (what collectors
see of it).
"""

from __future__ import annotations

from fabricmon.simulate.collector import SimulatedCollector, SimulatedConfig
from fabricmon.simulate.labels import labels_of
from fabricmon.simulate.run import Simulation, build_topology, load
from fabricmon.simulate.scenario import Expectation, Scenario, ScenarioConfig, catalogue

__all__ = [
    "Expectation",
    "Scenario",
    "ScenarioConfig",
    "SimulatedCollector",
    "SimulatedConfig",
    "Simulation",
    "build_topology",
    "catalogue",
    "labels_of",
    "load",
]
