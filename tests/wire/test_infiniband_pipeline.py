"""A simulated subnet read over the wire leads to the same incidents as the simulation itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fabricmon import app
from fabricmon.api import Context, Target
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.errors import PollError
from fabricmon.model.incident import IncidentKind
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.topology import Topology
from fabricmon.runtime.offline import Outcome, drive
from fabricmon.selfmon import Reporter
from fabricmon.simulate import Simulation, load
from fabricmon.simulate.agents.ibsim import IbsimAgent
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.model.readings import Poll
    from fabricmon.model.stream import Item

pytestmark = pytest.mark.wire
TARGET = Target("sim", "subnet", "any")


class Served:
    """A simulation whose readings go out through the agent and come back through the collector."""

    def __init__(
        self, simulation: Simulation, accidents: dict[int, Callable[[IbsimAgent], None]]
    ) -> None:
        """`accidents` happen before the poll of their number."""
        self._simulation, self._accidents = simulation, accidents
        self._clock = ManualClock()
        self._loop = asyncio.new_event_loop()
        self.lost: list[int] = []
        """Ports lost in each poll; -1 for a poll that gave nothing."""
        self.polls: list[Poll] = []

    def items(self) -> Iterator[Item]:
        """The stream a daemon would see that polls the served subnet."""
        stream = self._simulation.items()
        shape = next(item for item in stream if isinstance(item, Topology))
        context = Context(self._clock, Reporter(self._clock))
        held: list[ReadingBatch] = []
        with IbsimAgent(shape) as agent:
            settings = InfinibandCollector.Config(
                read="native", environment=agent.environment, timeout=0.2
            )
            collector = InfinibandCollector(settings, [TARGET], context)
            try:
                for item in stream:
                    if isinstance(item, ReadingBatch):
                        held.append(item)
                        continue
                    later = (item.time_ns - self._clock.now_ns()) / 1e9
                    if not self.lost:
                        self._clock.step_wall(later)
                    else:
                        self._loop.run_until_complete(self._clock.advance(later))
                    agent.update(held)
                    held.clear()
                    self._accidents.get(len(self.lost), lambda _: None)(agent)
                    yield from self._poll(collector)
                    yield item
            finally:
                self._loop.run_until_complete(collector.stop())
                self._loop.close()

    def _poll(self, collector: InfinibandCollector) -> Iterator[Item]:
        try:
            poll = self._loop.run_until_complete(collector.poll(TARGET))
        except PollError:
            self.lost.append(-1)
            return
        self.lost.append(sum(poll.lost.values()))
        self.polls.append(poll)
        if poll.topology is not None:
            yield poll.topology
        yield from poll.batches


def judge(items: Iterator[Item]) -> Outcome:
    """Run a fresh pipeline over the stream."""
    clock = ManualClock()
    return drive(items, app.make_pipeline("sim", Context(clock, Reporter(clock))))


def findings(outcome: Outcome) -> list[tuple[object, ...]]:
    """What, where, and who suffers, of every incident."""
    return [
        (
            i.kind,
            i.cause and (i.cause.device, i.cause.port),
            {(v.device, v.port) for v in i.victims},
        )
        for i in outcome.worst_first()
    ]


def test_an_incast_is_found_over_the_wire_as_in_the_simulation() -> None:
    """Kind, cause and victims are the same as when the simulation feeds the pipeline itself."""
    run = {"poll": 2.0, "duration": 200.0}
    served = Served(load("incast-ib", **run), {})
    over_the_wire = findings(judge(served.items()))
    direct = findings(judge(load("incast-ib", **run).items()))
    assert set(served.lost) == {0}
    assert over_the_wire == direct
    assert [(kind, cause) for kind, cause, _ in direct] == [(IncidentKind.INCAST, ("leaf0", "4"))]


def guid_of(agent: IbsimAgent, name: str) -> int:
    """The node of that name."""
    return next(guid for guid, node in agent.fabric.nodes.items() if node.description == name)


def levels(poll: Poll, counter: str) -> dict[tuple[str, str], float]:
    """One gauge of every port."""
    return {
        end: float(level)
        for batch in poll.batches
        for k, column in enumerate(batch.gauge_columns)
        if column.counter.id == counter
        for end, level in zip(
            zip(batch.ports.device, batch.ports.port, strict=True), batch.gauges[k], strict=True
        )
    }


def test_accidents_of_the_subnet_are_no_incidents_of_the_fabric() -> None:
    """LIDs, names and counters change, a host and a spine die and come back, a cable is pulled.

    Ports keep their names, only telemetry is reported, and two polls later coverage tells the
    truth each time.
    """

    def pull(agent: IbsimAgent) -> None:
        leaf = agent.fabric.nodes[guid_of(agent, "leaf1")]
        agent.cut(leaf.guid, max(leaf.ports))

    def put_back(agent: IbsimAgent) -> None:
        leaf = agent.fabric.nodes[guid_of(agent, "leaf1")]
        agent.mend(leaf.guid, max(leaf.ports))

    served = Served(
        load("healthy-ib", poll=2.0, duration=200.0),
        {
            50: lambda agent: agent.restart_manager(500),
            54: lambda agent: agent.rename(guid_of(agent, "host31 mlx5_0"), "somebody else"),
            58: lambda agent: agent.clear_counters(),
            62: lambda agent: agent.silence(guid_of(agent, "somebody else")),
            68: lambda agent: agent.silence(),
            72: lambda agent: agent.silence(guid_of(agent, "spine2")),
            78: lambda agent: agent.silence(),
            84: pull,
            90: put_back,
        },
    )
    outcome = judge(served.items())
    telemetry = {
        IncidentKind.COUNTER_RESET,
        IncidentKind.TELEMETRY_STALE,
        IncidentKind.COUNTER_BROKEN,
    }
    assert {kind for kind, _, _ in findings(outcome)} <= telemetry
    reset = [i.started_ns for i in outcome.worst_first() if i.kind == IncidentKind.COUNTER_RESET]
    assert len(reset) == 1
    dead = dict.fromkeys(range(62, 68), 1) | dict.fromkeys(range(72, 78), 4)
    # One poll is allowed for each change; the next must be right.
    changed = {50, 62, 68, 72, 78}
    told = {k: n for k, n in enumerate(served.lost) if k not in changed}
    assert told == {k: dead.get(k, 0) for k in told}
    cut = {("leaf1", "12"), ("spine3", "2")}
    for k, poll in enumerate(served.polls):
        down = {end for end, up in levels(poll, "oper_up").items() if up == 0} & cut
        if k not in {84, 90}:
            assert down == (cut if 84 < k < 90 else set()), k
    shapes = [poll.topology for poll in served.polls if poll.topology is not None]
    names = [{node.name for node in shape.nodes} for shape in shapes]
    assert all(other == names[0] for other in names)
    assert shapes[-1].links == shapes[0].links
