"""The embedded fabric: what `fabricmon run` watches when it is given no config.

The runtime first feeds `warmup_items()` to the pipeline, so that the detector has learnt before
the first poll; then `poll` is called at the pace of the clock and gives what happened since.
Faults come one after the other, for ever, with a healthy pause between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import Poll, ReadingBatch
from fabricmon.model.stream import PollFailure, Tick
from fabricmon.settings import Duration, Settings
from fabricmon.simulate.reading.reader import Reader
from fabricmon.simulate.run import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricmon.api import Context, Target
    from fabricmon.model.stream import Item
    from fabricmon.model.topology import Topology
    from fabricmon.simulate.run import Simulation
    from fabricmon.simulate.workload.timeline import Interval


class SimulatedConfig(Settings):
    """Which scenario, and how long the detector watches it before the daemon starts."""

    scenario: str = Field("demo", description="a built-in scenario or a file")
    seed: int = 1
    warmup: Duration = 300.0
    """Seconds of simulated time before the first poll, healthy in the `demo` scenario."""
    ports: int | None = Field(None, ge=1, description="grow the fabric to at least this many ports")


class SimulatedCollector:
    """One target is the whole fabric."""

    Config: ClassVar[type[Settings]] = SimulatedConfig

    def __init__(
        self, config: SimulatedConfig, targets: Sequence[Target], context: Context
    ) -> None:
        """Store; nothing else."""
        self._config, self._context = config, context
        self._targets = tuple(targets)
        self._simulation: Simulation | None = None
        self._intervals: Iterator[Interval] | None = None
        self._reader: Reader | None = None
        self._warm = False
        self._next_s = 0.0
        self._started_at = 0.0
        self._pending: Interval | None = None
        self._latest: list[ReadingBatch | PollFailure] = []

    async def start(self) -> None:
        """Build the fabric; second 0 is `warmup` seconds before now."""
        clock = self._context.clock
        warmup_ns = round(self._config.warmup * 1e9)
        self._simulation = load(
            self._config.scenario,
            seed=self._config.seed,
            ports=self._config.ports,
            start_ns=clock.now_ns() - warmup_ns,
        )
        self._started_at = clock.monotonic()
        self._warm = False
        self._rewind(self._simulation)

    def _rewind(self, simulation: Simulation) -> None:
        settings = simulation.scenario.config.collector
        self._reader = Reader(simulation.wiring, settings, simulation.seed, simulation.start_ns)
        self._intervals = simulation.cycles()
        self._pending = None

    async def stop(self) -> None:
        """Let go of the fabric."""
        self._simulation = self._intervals = self._reader = self._pending = None
        self._latest = []

    def warmup_items(self) -> Iterator[Item]:
        """The stream of the time before the start: topology, readings and ticks up to now.

        May be called once after `start()`. What is not consumed here comes with the first poll.
        """
        simulation = self._running()
        yield simulation.topology
        while (interval := self._due(self._config.warmup)) is not None:
            yield from self._read(interval)
            time_ns = simulation.start_ns + round(interval.end_s * 1e9)
            yield Tick(time_ns, simulation.poll_s)
        self._warm = True

    async def discover(self, target: Target) -> Topology | None:
        """The fabric's shape."""
        del target
        return self._running().topology

    async def poll(self, target: Target) -> Poll:
        """The latest reading of every device. Raises `PollError` where none is due yet."""
        latest: list[ReadingBatch | PollFailure] = []
        if not self._warm:
            for _ in self.warmup_items():
                pass
            latest = self._latest  # nobody was told of the time before: its last reading is news
        elapsed = self._context.clock.monotonic() - self._started_at
        while (interval := self._due(self._config.warmup + elapsed)) is not None:
            latest = self._read(interval)
        batches = [item for item in latest if isinstance(item, ReadingBatch)]
        if not batches:
            raise PollError(Reason.NO_DATA, "the simulated fabric has no new reading yet")
        lost = len(latest) - len(batches)
        named = tuple(replace(batch, target=target.name) for batch in batches)
        return Poll(named, {Reason.TIMEOUT: lost} if lost else {})

    def _running(self) -> Simulation:
        if self._simulation is None:
            raise PollError(Reason.INTERNAL, "the simulated fabric is not started")
        return self._simulation

    def _read(self, interval: Interval) -> list[ReadingBatch | PollFailure]:
        assert self._reader is not None, "only called while running"
        self._latest = self._reader.read(interval)
        return self._latest

    def _due(self, second: float) -> Interval | None:
        """The next interval, if it has ended by `second`."""
        self._running()
        if self._pending is None:
            assert self._intervals is not None, "set with the simulation"
            self._pending = next(self._intervals)
        interval = self._pending
        if interval.end_s > second + 0.02:
            return None
        self._pending = None
        return interval
