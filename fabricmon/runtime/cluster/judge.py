"""Judges one fabric from the log: reads it in order, refuses what must not count, feeds a pipeline.

The leader and its standby do the same; only the leader ends rounds with a tick and exports. So when
a leader dies, the standby has judged what it judged, and goes on with its incidents.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from fabricmon.errors import FormatError
from fabricmon.model.incident import Incident
from fabricmon.model.stream import Tick
from fabricmon.runtime.cluster.follower import BrokerError
from fabricmon.runtime.cluster.gate import Books, Gate, Outcome
from fabricmon.runtime.cluster.message import TICK, Stamp, Unpacker, pack, word
from fabricmon.runtime.cluster.sender import lasting
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item
    from fabricmon.runtime.cluster.broker import Broker
    from fabricmon.runtime.cluster.follower import Message
    from fabricmon.runtime.cluster.lease import Leases
    from fabricmon.runtime.pipeline import Pipeline

_SETTLE = 0.8
"""Share of the interval that a round waits for targets which gave something in the last one."""
_RETRY_S = 0.25
_INCIDENTS = TypeAdapter(list[Incident])


class Judge:
    """One fabric's judgement in this worker."""

    def __init__(
        self,
        pipeline: Pipeline,
        interval_s: float,
        broker: Broker,
        leases: Leases,
        context: Context,
        export: Callable[[Snapshot], None],
    ) -> None:
        """Inert. `export` is called in the judge's thread with each tick while leading."""
        self.fabric = pipeline.fabric
        self.interval_s = interval_s
        self.lease, self.standby = f"leader.{word(self.fabric)}", f"standby.{word(self.fabric)}"
        self.leading = False
        """Whether open incidents were taken over; the lease alone says whether it may act now."""
        self.current = False
        """Whether everything in the log was read: only then may it lead."""
        self.began = 0.0
        """Monotonic time at which this worker's last round began."""
        self._pipeline, self._broker, self._leases = pipeline, broker, leases
        self._context, self._export = context, export
        self._gate, self._books, self._unpacker = Gate(), Books(self.fabric), Unpacker()
        pipeline.targets = self._books.status
        self._after, self._log = 0, 0
        self._assuming = False
        self._number = 0
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._learner: ThreadPoolExecutor | None = None

    @property
    def most_bytes(self) -> int:
        """The largest message there may be."""
        return self._broker.most_bytes

    def may_act(self) -> bool:
        """Whether this worker leads the fabric, and may act on it at this moment."""
        return self.leading and self._token() is not None

    def _token(self) -> int | None:
        return self._leases.token(self.lease, self._context.clock.monotonic())

    # --- life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the threads: one keeps the pipeline in order, one learns."""
        if self._worker is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, f"judge-{self.fabric}")
        self._learner = ThreadPoolExecutor(1, f"learn-{self.fabric}")
        self._pipeline.fit_with(self._learner)

    async def stop(self) -> None:
        """Let go of everything."""
        reading = self.unfollow()
        if reading is not None:
            await asyncio.wait({reading}, timeout=0.5)
        for task in self._tasks:
            task.cancel()
        for pool in (self._worker, self._learner):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        self._worker = self._learner = None

    def follow(self) -> None:
        """Begin to read the log, or go on."""
        if self._following is None:
            self._following = lasting(self._follow, f"judge-{self.fabric}", self._context)

    def unfollow(self) -> asyncio.Task[None] | None:
        """Stop reading; gives the task that ends. Reading goes on some time where it ended."""
        task, self._following, self.current = self._following, None, False
        if task is not None:
            task.cancel()
        return task

    async def lead(self) -> None:
        """Take over the incidents that the leader before had open."""
        if self._assuming:
            return
        self._assuming = True
        try:
            kept = await self._broker.get(self._broker.state, self._key)
            await self._work(self._pipeline.adopt, self._read_open(kept.value if kept else b"[]"))
            self.leading = True
            self._context.report.emit(Event.LEADER_CHANGED, self.fabric, leader=self._leases.me)
        except BrokerError as error:  # the next beat tries again
            self._context.report.emit(Event.CLUSTER_AWAY, self.fabric, error=str(error))
        finally:
            self._assuming = False

    def _read_open(self, value: bytes) -> list[Incident]:
        try:
            return _INCIDENTS.validate_json(value)
        except ValueError as error:  # of another version
            self._refused(f"the open incidents of the leader before: {error}")
            return []

    @property
    def _key(self) -> str:
        return f"open.{word(self.fabric)}"

    def exchange(self, pipeline: Pipeline) -> None:
        """Go on under a new config."""
        self._submit(self._take_over, pipeline)

    def forget(self, target: str) -> None:
        """A target was taken from the config: its ports are not published any more."""
        self._submit(self._forget, target)

    def _forget(self, target: str) -> None:
        self._pipeline.forget(target)
        self._books.forget(target)

    def _take_over(self, pipeline: Pipeline) -> None:
        pipeline.inherit(self._pipeline)
        if self._learner is not None:
            pipeline.fit_with(self._learner)
        self._pipeline = pipeline

    def _submit(self, job: Callable[..., None], *args: object) -> None:
        if self._worker is not None:
            self._worker.submit(job, *args)

    async def _work(self, job: Callable[..., None], *args: object) -> None:
        if self._worker is not None:
            await asyncio.get_running_loop().run_in_executor(self._worker, job, *args)

    # --- rounds -----------------------------------------------------------------------------

    def round_over(self, tick: Tick) -> None:
        """In the poller's thread: this worker has polled its targets. The leader ends the round."""
        clock = self._context.clock
        ago = min(max((clock.now_ns() - tick.time_ns) / 1e9, 0.0), self.interval_s)
        self.began = clock.monotonic() - ago
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_end, tick)

    def _begin_end(self, tick: Tick) -> None:
        if self.may_act() and (self._ending is None or self._ending.done()):
            self._ending = self._begin(self._end_round(tick))

    async def _end_round(self, tick: Tick) -> None:
        """Wait for the others' targets, then write the tick into the log."""
        clock = self._context.clock
        until = self.began + _SETTLE * self.interval_s
        while not self._books.complete() and (rest := until - clock.monotonic()) > 0:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), rest)
            except TimeoutError:
                break
        token = self._token()
        if token is None:
            self._count(Outcome.FENCED)
            return
        self._number += 1
        stamp = Stamp(
            self._leases.me,
            self._broker.store,
            token,
            self._number,
            clock.now_ns(),
            took_s=clock.monotonic() - self.began,
        )
        subject = f"{self._broker.prefix}.{word(self.fabric)}.{TICK}"
        body = pack(Tick(tick.time_ns, self.interval_s), self.fabric)
        try:
            await self._broker.append(subject, body, stamp.headers())
            self._count(Outcome.SENT)
        except BrokerError as error:
            self._count(Outcome.DROPPED)
            self._context.report.emit(Event.CLUSTER_AWAY, self.fabric, error=str(error))

    # --- the log ----------------------------------------------------------------------------

    def _wanted(self) -> bool:
        """Whether the running task is the one that reads: a cancellation may be swallowed."""
        return self._following is asyncio.current_task()

    async def _follow(self) -> None:
        while self._wanted():
            try:
                await self._read()
            except BrokerError as error:
                self.current = False
                self._context.report.emit(Event.CLUSTER_AWAY, self.fabric, error=str(error))
                await self._context.clock.sleep(_RETRY_S)

    async def _read(self) -> None:
        broker = self._broker
        if self._log != broker.log_made:  # another log, which counts from one again
            self._log, self._after = broker.log_made, 0
        follower = await broker.follow(self.fabric, self._leases.me, self._after)
        lag = self._context.report.metrics.cluster_lag.labels(self.fabric)
        try:
            while self._wanted():
                if messages := await follower.fetch():
                    await self._work(self._take, messages)
                    self._after = messages[-1].sequence
                    await follower.done(messages[-1])
                    self._news.set()
                self.current = follower.pending == 0 and self._wanted()
                lag.set(follower.pending)
        finally:
            await follower.close()

    def _take(self, messages: Sequence[Message]) -> None:
        """In the judge's thread."""
        for message in messages:
            try:
                outcome = self._one(message)
            except FormatError as error:
                outcome = Outcome.MALFORMED
                self._refused(f"message {message.sequence}: {error}")
            except Exception as error:  # noqa: BLE001 - one bad message must not end the judging
                outcome = Outcome.MALFORMED
                self._context.report.emit(
                    Event.COMPONENT_FAILED, self.fabric, component="judge", error=repr(error)
                )
            self._count(outcome)

    def _one(self, message: Message) -> Outcome:
        stamp = Stamp.read(message.headers)
        outcome = self._gate.admit(message.subject, stamp)
        if outcome is Outcome.USED:
            item = self._unpacker.item(message.body)
            self._judge(self._gate.aligned(item, stamp, message.stored_ns), stamp)
        return outcome

    def _judge(self, item: Item, stamp: Stamp) -> None:
        self._books.take(item, stamp)
        snapshot = self._pipeline.feed(item)
        if snapshot is None or not self.may_act():
            return
        self._export(snapshot)
        # Evidence is found anew at the next tick; the rest is what makes them the same incidents.
        bare = [replace(incident, evidence=()) for incident in snapshot.incidents]
        value = _INCIDENTS.dump_json(bare)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_keep, value)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"judge-{self.fabric}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _begin_keep(self, value: bytes) -> None:
        self._begin(self._keep(value))

    async def _keep(self, value: bytes) -> None:
        try:
            await self._broker.put(self._broker.state, self._key, value)
        except BrokerError as error:
            self._context.report.emit(Event.CLUSTER_AWAY, self.fabric, error=str(error))

    # --- books ------------------------------------------------------------------------------

    def _count(self, outcome: Outcome, times: int = 1) -> None:
        metrics = self._context.report.metrics
        metrics.cluster_messages.labels(outcome.value).inc(times)

    def _refused(self, what: str) -> None:
        self._context.report.emit(Event.CLUSTER_REFUSED, self.fabric, error=what)
