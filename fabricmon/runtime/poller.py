"""A live fabric: polls its targets at every tick and feeds the pipeline, off the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from fabricmon.model.stream import ClockStep, PollFailure, Tick
from fabricmon.runtime.pipeline import Pipeline
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from fabricmon.api import Context, Target
    from fabricmon.collectors.guard import Guard
    from fabricmon.model.snapshot import Snapshot, TargetStatus
    from fabricmon.model.stream import Item
    from fabricmon.model.topology import Topology

_SETTLE = 0.8
"""Share of the interval a tick waits for targets that answered last time."""
_DISCOVERIES_AT_ONCE = 32
_STEP_NS = 100_000_000
"""More than a clock is slewed in an interval."""


class Intake(Protocol):
    """What a poller feeds: a fabric's `Pipeline`, or what stands in its place in a cluster."""

    fabric: str
    targets: Callable[[], tuple[TargetStatus, ...]]

    def fit_with(self, executor: Executor) -> None:
        """Learn in this executor."""

    def feed(self, item: Item) -> Snapshot | None:
        """Take one item; a `Tick` may give a snapshot."""

    def inherit(self, old: Any) -> None:
        """Go on where `old`, one of the same class, was."""

    def forget(self, target: str) -> None:
        """A target was taken from the config."""


class FabricPoller:
    """Polls every due target, then judges. One worker thread keeps the pipeline in order."""

    def __init__(
        self,
        pipeline: Intake,
        guards: Sequence[Guard],
        context: Context,
        interval_s: float,
        publish: Callable[[Snapshot], None],
    ) -> None:
        """`publish` is called in the worker thread with each snapshot."""
        self.pipeline = pipeline
        self.guards = list(guards)
        self._context = context
        self._interval_s = interval_s
        self._publish = publish
        self._worker: ThreadPoolExecutor | None = None
        self._learner: ThreadPoolExecutor | None = None
        self._polls: set[asyncio.Task[None]] = set()
        self._ahead_ns: int | None = None
        """How far the wall clock is ahead of the monotonic one."""
        self.ready = False
        """Whether one full cycle of polls has been judged."""
        self.reshape: Callable[[Topology], Awaitable[None]] = self.feed
        """Takes a shape of the fabric that a poll found changed."""

    @property
    def fabric(self) -> str:
        """The fabric's name."""
        return self.pipeline.fabric

    async def start(self) -> None:
        """Start the collectors."""
        name = f"pipeline-{self.fabric}"
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._learner = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"learn-{self.fabric}")
        self.pipeline.fit_with(self._learner)
        self.pipeline.targets = self.status
        for guard in self.guards:
            await guard.start()

    async def stop(self) -> None:
        """Cancel polls in flight and let go of the devices. Nothing is published after it."""
        for task in self._polls:
            task.cancel()
        await asyncio.gather(*self._polls, return_exceptions=True)
        for guard in self.guards:
            await guard.stop()
        worker, learner = self._worker, self._learner
        self._worker = self._learner = None
        for pool in (worker, learner):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        if worker is not None:
            await asyncio.to_thread(worker.shutdown)  # a tick on its way still comes out

    async def replay(self, items: Iterable[Item]) -> None:
        """Feed what is known from before the start; it is judged, but not published."""
        await self._work(self._feed, items)

    async def exchange(self, pipeline: Intake, guards: Sequence[Guard], interval_s: float) -> None:
        """Go on under a new config, with guards that were started: what is gone is let go of."""
        kept = [guard for guard in guards if guard in self.guards]
        dropped = [guard for guard in self.guards if guard not in guards]
        fresh = [guard for guard in guards if guard not in kept]
        for guard in fresh:
            for old in dropped:
                if old.kind == guard.kind:
                    guard.inherit(old)
        self.guards, self._interval_s = list(guards), interval_s
        for guard in dropped:
            await guard.stop()
        names = {target.name for guard in guards for target in guard.targets}
        gone = {t.name for guard in dropped for t in guard.targets} - names
        await self._work(self._take_over, pipeline, gone)

    def _take_over(self, pipeline: Intake, gone: Iterable[str]) -> None:
        pipeline.inherit(self.pipeline)
        if self._learner is not None:
            pipeline.fit_with(self._learner)
        for target in sorted(gone):
            pipeline.forget(target)
        self.pipeline = pipeline

    async def between(self, job: Callable[[Pipeline], None]) -> None:
        """Do something to the pipeline while nothing is fed; a cluster's worker has none."""
        if isinstance(self.pipeline, Pipeline):
            await self._work(job, self.pipeline)

    def status(self) -> tuple[TargetStatus, ...]:
        """Every target's books."""
        return tuple(status for guard in self.guards for status in guard.status())

    async def tick(self) -> None:
        """Poll what is due, wait for those that usually answer, judge what came."""
        now_ns = self._context.clock.now_ns()
        await self._tell_of_steps(now_ns)
        expected: set[asyncio.Task[None]] = set()
        for guard in self.guards:
            for target in guard.due():
                task = self._begin(guard, target)
                if guard.healthy(target):
                    expected.add(task)
        if expected:
            await asyncio.wait(expected, timeout=_SETTLE * self._interval_s)
        await self._work(self._judge, Tick(now_ns, self._interval_s))
        self.ready = True

    async def _tell_of_steps(self, now_ns: int) -> None:
        """Compare how far wall and monotonic time went since the last tick."""
        mono_ns = round(self._context.clock.monotonic() * 1e9)
        ahead_ns, self._ahead_ns = self._ahead_ns, now_ns - mono_ns
        if ahead_ns is not None and abs(self._ahead_ns - ahead_ns) >= _STEP_NS:
            await self._work(self._feed, [ClockStep(now_ns, self._ahead_ns - ahead_ns)])

    def _begin(self, guard: Guard, target: Target) -> asyncio.Task[None]:
        task = asyncio.create_task(self._poll(guard, target), name=f"poll-{target.name}")
        self._polls.add(task)
        task.add_done_callback(self._polls.discard)
        return task

    async def settle(self, timeout_s: float) -> None:
        """Wait for the polls in flight, so long at most."""
        if self._polls:
            await asyncio.wait(set(self._polls), timeout=timeout_s)

    async def catch_up(self, names: frozenset[str]) -> None:
        """Poll these targets between ticks, and ask them for the fabric's shape."""
        for guard in self.guards:
            for target in guard.due(names):
                self._begin(guard, target)
        await self.discover(names)

    async def discover(self, names: frozenset[str] | None = None) -> None:
        """Ask every target, or these, for the fabric's shape, a few at a time."""
        gate = asyncio.Semaphore(_DISCOVERIES_AT_ONCE)

        async def ask(guard: Guard, target: Target) -> None:
            async with gate:
                topology = await guard.discover(target)
            if topology is not None:
                await self.feed(topology)

        await asyncio.gather(
            *(
                ask(guard, target)
                for guard in self.guards
                for target in guard.polled
                if names is None or target.name in names
            )
        )

    async def read(self, source: Callable[[], Topology | None]) -> None:
        """Ask a source elsewhere, in a thread, and take what it tells."""
        topology = await asyncio.to_thread(source)
        if topology is not None:
            await self.feed(topology)

    async def feed(self, item: Topology) -> None:
        """Take a topology from elsewhere (files, jobs)."""
        await self._work(self._feed, [item])

    async def _poll(self, guard: Guard, target: Target) -> None:
        outcome = await guard.poll(target)
        if isinstance(outcome, PollFailure):
            await self._work(self._feed, [outcome])
            return
        if outcome.topology is not None:
            await self.reshape(outcome.topology)
        await self._work(self._feed, outcome.batches)

    async def _work(self, job: Callable[..., None], *args: object) -> None:
        if self._worker is not None:
            await asyncio.get_running_loop().run_in_executor(self._worker, job, *args)

    def _feed(self, items: Iterable[Item]) -> None:
        for item in items:
            try:
                self.pipeline.feed(item)
            except Exception as error:  # noqa: BLE001 - one bad batch must not end the polling
                self._context.report.emit(
                    Event.COMPONENT_FAILED, self.fabric, component="pipeline", error=repr(error)
                )

    def _judge(self, tick: Tick) -> None:
        snapshot = self.pipeline.feed(tick)
        if snapshot is not None:
            self._publish(snapshot)
