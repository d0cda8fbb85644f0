"""A simulation: a scenario with a seed, as the stream a pipeline is driven by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import ConfigError, FabricmonError
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Job, Technology, Topology
from fabricmon.simulate.engine.counters import ROW
from fabricmon.simulate.fabric import shapes
from fabricmon.simulate.fabric.wiring import wire
from fabricmon.simulate.reading.reader import Reader
from fabricmon.simulate.scenario import Scenario, ScenarioConfig, TopologyConfig, read, speed_bps
from fabricmon.simulate.workload.timeline import Timeline, place_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from fabricmon.model.stream import Item
    from fabricmon.simulate.events import EventConfig
    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.workload.timeline import Interval

EPOCH_NS = 1_790_000_000_000_000_000
"""Wall clock at second 0 of every simulation, unless given."""


class Simulation:
    """One run. A `model.stream.Source`: topology, then per poll the readings and a tick."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int = 1,
        fabric: str = "sim",
        start_ns: int = EPOCH_NS,
        topology: Topology | None = None,
    ) -> None:
        """Builds the fabric; `topology` replaces the scenario's own. Nothing runs yet."""
        self.scenario, self.fabric, self.seed = scenario, fabric, seed
        self.start_ns = start_ns
        config = scenario.config
        self.poll_s = config.poll
        base = topology or build_topology(config.topology, config.technology)
        self.wiring: Wiring = wire(base)
        placed = place_jobs(self.wiring, config.traffic)
        jobs = tuple(Job(j.name, placed[j.name], j.gpus_per_host) for j in config.traffic.jobs)
        self.topology: Topology = replace(self.wiring.topology, jobs=jobs, interval_s=config.poll)

    def items(self) -> Iterator[Item]:
        """The stream, from its start."""
        reader = Reader(self.wiring, self.scenario.config.collector, self.seed, self.start_ns)
        yield self.topology
        for interval in self.intervals():
            yield from reader.read(interval)
            yield Tick(self.start_ns + round(interval.end_s * 1e9), self.poll_s)

    def intervals(self, events: Sequence[EventConfig] | None = None) -> Iterator[Interval]:
        """What happens in the fabric, poll by poll, before it is read. `events` replaces them."""
        config = self.scenario.config
        chosen = list(config.events) if events is None else list(events)
        try:
            timeline = Timeline(self.wiring, config.traffic, chosen, config.duration, self.seed)
            yield from timeline.intervals(self.poll_s)
        except FabricmonError as error:
            file = self.scenario.document.file if self.scenario.document else self.scenario.name
            raise ConfigError(str(error), file=file) from error

    def cycles(self) -> Iterator[Interval]:
        """The scenario without end: after its duration its events come again.

        The quiet seconds before the first event are not repeated.
        """
        config = self.scenario.config
        quiet = min((event.at for event in config.events), default=0.0)
        timeline = Timeline(
            self.wiring, config.traffic, config.events, config.duration, self.seed, quiet
        )
        yield from timeline.intervals(self.poll_s)

    def stall(self, events: Sequence[EventConfig] | None = None) -> NDArray[np.float64]:
        """float64[W,E]: true share of each poll in which each port was held back."""
        rows = [interval.amount[ROW["stall"]] / self.poll_s for interval in self.intervals(events)]
        return np.array(rows)


def build_topology(config: TopologyConfig, technology: Technology) -> Topology:
    """The topology a scenario describes."""
    speed = speed_bps(config.speed)
    uplink = _uplink_bps(config, speed)
    match config.shape:
        case "leaf-spine":
            return shapes.leaf_spine(
                technology,
                leaves=config.leaves,
                spines=config.spines,
                hosts_per_leaf=config.hosts_per_leaf,
                speed_bps=speed,
                uplink_bps=uplink,
                uplinks=config.uplinks,
            )
        case "fat-tree":
            return shapes.fat_tree(
                technology, k=config.k, speed_bps=speed, uplink_bps=uplink, hosts=config.hosts
            )
        case "rails" | "planes":
            return shapes.rails(
                technology,
                hosts=config.hosts or 16,
                rails=config.rails,
                hosts_per_leaf=config.hosts_per_leaf,
                spines=config.spines,
                speed_bps=speed,
                uplink_bps=uplink,
                planes=config.shape == "planes",
            )
        case _:
            from fabricmon.simulate.fabric.imported import read_topology  # noqa: PLC0415

            if config.file is None:
                raise ConfigError("a topology of shape `file` needs `file`")
            return read_topology(config.file)


def _uplink_bps(config: TopologyConfig, speed: float) -> float:
    """As given; else what lets every host of a leaf send upwards at full speed."""
    if config.uplink_speed is not None:
        return speed_bps(config.uplink_speed)
    if config.shape == "fat-tree":
        return speed
    ways = config.spines * (config.uplinks if config.shape == "leaf-spine" else 1)
    return speed * max(1.0, config.hosts_per_leaf / max(ways, 1))


def load(
    name: str | Path | Scenario,
    *,
    seed: int = 1,
    ports: int | None = None,
    duration: float | None = None,
    poll: float | None = None,
    fabric: str = "sim",
    start_ns: int = EPOCH_NS,
    topology: Topology | None = None,
) -> Simulation:
    """A simulation of a built-in scenario, a file, or a `Scenario`.

    `ports` grows the fabric to at least that many ports, `duration` and `poll` are seconds.
    Raises `ConfigError`.
    """
    scenario = name if isinstance(name, Scenario) else read(name)
    changes: dict[str, object] = {}
    if duration is not None:
        changes["duration"] = duration
    if poll is not None:
        changes["poll"] = poll
    if ports is not None:
        changes["topology"] = grown(scenario.config.topology, ports)
    if changes:
        config: ScenarioConfig = scenario.config.model_copy(update=changes)
        scenario = replace(scenario, config=config)
    return Simulation(scenario, seed=seed, fabric=fabric, start_ns=start_ns, topology=topology)


def grown(config: TopologyConfig, ports: int) -> TopologyConfig:
    """The same shape with at least `ports` ports; hosts keep their names."""
    if config.shape == "leaf-spine":
        per_leaf = 2 * (config.hosts_per_leaf + config.spines * config.uplinks)
        return config.model_copy(update={"leaves": max(config.leaves, -(-ports // per_leaf))})
    if config.shape == "fat-tree":
        k = config.k
        while 2 * 3 * k**3 // 4 < ports:
            k += 2
        return config.model_copy(update={"k": k, "hosts": 0})
    if config.shape in {"rails", "planes"}:
        hosts = max(config.hosts or 16, -(-ports // (2 * config.rails)))
        return config.model_copy(update={"hosts": hosts})
    return config
