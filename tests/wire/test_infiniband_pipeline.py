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

    def items(self) -> Iterator[Item]:
        """The stream a daemon would see that polls the served subnet."""
        stream = self._simulation.items()
        shape = next(item for item in stream if isinstance(item, Topology))
        context = Context(self._clock, Reporter(self._clock))
        held: list[ReadingBatch] = []
        with IbsimAgent(shape) as agent:
            settings = InfinibandCollector.Config(read="native", environment=agent.environment)
            collector = InfinibandCollector(settings, [TARGET], context)
            try:
                for item in stream:
                    if isinstance(item, ReadingBatch):
                        held.append(item)
                        continue
                    self._clock.step_wall((item.time_ns - self._clock.now_ns()) / 1e9)
                    self._loop.run_until_complete(self._clock.advance(0))
                    agent.update(held)
                    held.clear()
                    self._accidents.get(len(self.lost), lambda _: None)(agent)
                    yield from self._poll(collector)
                    yield item
            finally:
                self._loop.run_until_complete(collector.stop())
                self._loop.close()

    def _poll(self, collector: InfinibandCollector) -> Iterator[Item]:
        if len(self.lost) % 5 == 0:
            shape = self._loop.run_until_complete(collector.discover(TARGET))
            assert shape is not None
            yield shape
        try:
            poll = self._loop.run_until_complete(collector.poll(TARGET))
        except PollError:
            self.lost.append(-1)
            return
        self.lost.append(sum(poll.lost.values()))
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


def test_accidents_of_the_subnet_are_no_incidents_of_the_fabric() -> None:
    """New LIDs, a new name, cleared counters and a silent host: only telemetry is reported."""

    def last_host(agent: IbsimAgent) -> int:
        return [guid for guid, node in agent.fabric.nodes.items() if node.kind == "host"][-1]

    served = Served(
        load("healthy-ib", poll=2.0, duration=200.0),
        {
            50: lambda agent: agent.restart_manager(500),
            56: lambda agent: agent.rename(last_host(agent), "somebody else"),
            62: lambda agent: agent.clear_counters(),
            70: lambda agent: agent.silence(last_host(agent)),
            76: lambda agent: agent.silence(),
        },
    )
    outcome = judge(served.items())
    telemetry = {
        IncidentKind.COUNTER_RESET,
        IncidentKind.TELEMETRY_STALE,
        IncidentKind.COUNTER_BROKEN,
    }
    assert {kind for kind, _, _ in findings(outcome)} <= telemetry
    assert IncidentKind.COUNTER_RESET in {kind for kind, _, _ in findings(outcome)}
    assert -1 not in served.lost
    assert served.lost[49:70] == [0] * 21
    assert served.lost[71:76] == [1] * 5
    # Silent for long, it is found again by the next of the sweeps that come every ten seconds.
    assert served.lost[81:] == [0] * len(served.lost[81:])
