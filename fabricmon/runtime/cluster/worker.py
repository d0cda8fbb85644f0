"""One worker of a cluster: every 0.1 TTL it looks at the leases and takes what falls to it.

A beat renews what is held, looks at all leases, joins, releases and takes shards, finds its place
among the judges, and now and then looks at the shared config.
"""

from __future__ import annotations

import asyncio
import platform
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fabricmon.errors import ConfigError, FormatError
from fabricmon.runtime.cluster import lease as leases_of
from fabricmon.runtime.cluster.broker import Broker
from fabricmon.runtime.cluster.follower import BrokerError
from fabricmon.runtime.cluster.gate import Outcome
from fabricmon.runtime.cluster.judge import Judge
from fabricmon.runtime.cluster.lease import NOBODY, Entry, Leases, name_of, ranked
from fabricmon.runtime.cluster.message import TICK, Stamp, word
from fabricmon.runtime.cluster.outlet import Outlet, Spool
from fabricmon.runtime.cluster.sender import Sender, lasting
from fabricmon.runtime.cluster.shared import SharedConfig
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fabricmon.api import Context, Target
    from fabricmon.config import ClusterConfig
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.runtime.assembly import FabricPlan

_PATIENCE = 2.0
"""TTLs that a cluster that starts waits for `members` to be there."""
_CONFIG_LOOKS = 10
"""Beats between two looks at the shared config."""
_OFF_BEAT = 0.1
"""Share of the interval by which a round may begin beside the leader's."""


class Host(Protocol):
    """The daemon as its cluster sees it."""

    def export(self, snapshot: Snapshot) -> None:
        """Publish a tick. Called in a judge's thread."""

    def withdraw(self, fabric: str) -> None:
        """Publish nothing of this fabric any more: another worker does."""

    def align(self, fabric: str, first_s: float) -> None:
        """Begin rounds in `first_s` seconds, and from then on at the interval."""

    async def catch_up(self, fabric: str, targets: frozenset[str]) -> None:
        """Poll targets that were just taken over at once, and ask them for the shape."""

    async def settle(self, timeout_s: float) -> None:
        """Wait for the polls in flight, so long at most."""

    async def reload_quietly(self) -> None:
        """Apply the config anew; on an error the old one stays."""


class Cluster:
    """This daemon's part in a cluster."""

    def __init__(self, config: ClusterConfig, context: Context) -> None:
        """Inert."""
        self._config, self._context = config, context
        self.broker = Broker(config, context)
        name = word(config.worker or platform.node() or "worker")
        self.leases = Leases(f"{name}-{secrets.token_hex(3)}", config.ttl)
        self.config = SharedConfig(self.broker)
        self._host: Host | None = None
        self._outlets: dict[str, Outlet] = {}
        self._spool = Spool(config.buffer, partial(self._count, Outcome.DROPPED))
        self._sender = Sender(self._spool, self.broker, self.leases, context, self._lost)
        self._owned: frozenset[str] | None = None
        """Leases under which this worker polls; None before it was ever dealt any: everything."""
        self._sure = self._listening = False
        """Whether the last beat got through; whether ticks of leaders are heard."""
        self._leaving = asyncio.Event()
        self._beats = 0
        self._joined_at: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._started: set[asyncio.Task[None]] = set()
        self._shown: set[str] = set()
        """Fabrics that this worker exports."""

    @property
    def _me(self) -> str:
        return self.leases.me

    @property
    def _member(self) -> str:
        return f"member.{self._me}"

    @property
    def _daemon(self) -> Host:
        assert self._host is not None, "attached before anything is built"
        return self._host

    def attach(self, host: Host) -> None:
        """The daemon this belongs to."""
        self._host = host

    def entry(self, plan: FabricPlan) -> Outlet:
        """What the poller of a fabric feeds instead of its pipeline."""
        name = plan.pipeline.fabric
        known = self._outlets.get(name)
        judge = known.judge if known else self._judge(plan)
        judge.interval_s = plan.interval_s
        kinds = {t.name: guard.kind for guard in plan.guards for t in guard.targets}
        outlet = Outlet(
            judge, self.broker.prefix, self._config.shards, kinds, self._spool, self._member
        )
        if known is not None:
            outlet.pipeline = plan.pipeline
        self._outlets[name] = outlet
        for guard in plan.guards:
            guard.mine = partial(self._polls, outlet)
        return outlet

    def _judge(self, plan: FabricPlan) -> Judge:
        return Judge(
            plan.pipeline,
            plan.interval_s,
            self.broker,
            self.leases,
            self._context,
            self._daemon.export,
        )

    def leaders(self) -> dict[str, str]:
        """Fabric -> the worker that leads it, as far as this one knows; empty: nobody."""
        now, leases = self._now, self.leases
        return {f: name_of(leases.holder(o.judge.lease, now)) for f, o in self._outlets.items()}

    def _polls(self, outlet: Outlet, target: Target) -> bool:
        return self._owned is None or outlet.lease(target.name) in self._owned

    # --- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join. A server that is away is joined later; one that is not fit is an error now."""
        self._spool.bind()
        try:
            await self._meet()
        except BrokerError as error:
            self._away(error)
        self._tasks = [
            lasting(self._run, "cluster", self._context),
            lasting(self._sender.run, "cluster-sender", self._context),
            lasting(self._guard, "cluster-guard", self._context),
        ]

    async def stop(self) -> None:
        """Send what waits, give back what is held, leave: the others need not wait for the TTL."""
        tasks, self._tasks = self._tasks, []
        if tasks:
            await self._drain(tasks[0])
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=0.2)
        for outlet in self._outlets.values():
            await outlet.judge.stop()
        await self.broker.close()

    async def _drain(self, beat: asyncio.Task[None]) -> None:
        self._leaving.set()
        try:
            async with asyncio.timeout(1.0):
                await self._daemon.settle(0.6)
                if self._sure and len(self._spool):
                    await self._spool.empty.wait()
                await asyncio.wait({beat})
                for key in sorted(self.leases.held, key=lambda key: key == self._member):
                    await self._release(key)
        except (TimeoutError, BrokerError) as error:
            self._away(error)

    async def _meet(self) -> None:
        """Reach a server, and see that it fits."""
        await self.broker.connect()
        await self.broker.ensure()
        if not self._listening:
            await self.broker.listen(f"{self.broker.prefix}.*.{TICK}", self._heard_tick)
            self._listening = True

    async def _run(self) -> None:
        pause = leases_of.BEAT * self._config.ttl
        connected = self._context.report.metrics.cluster_connected.labels(self._config.name)
        while not self._leaving.is_set():
            try:
                if not self._sure:
                    await self._meet()
                await self._beat()
                self._sure = True
            except BrokerError as error:
                self._away(error)
            except ConfigError as error:
                self._sure = False
                self._context.report.emit(Event.CLUSTER_REFUSED, error=str(error))
            connected.set(self._sure)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), pause)

    async def _guard(self) -> None:
        """Beside the beat, which may wait for a server."""
        while True:
            self._fence()
            await self._context.clock.sleep(leases_of.BEAT * self._config.ttl)

    def _away(self, error: Exception) -> None:
        self._sure = False
        self._context.report.emit(Event.CLUSTER_AWAY, "nats", error=repr(error))

    def _fence(self) -> None:
        """Where this worker led and may not act any more, what it exports is withdrawn."""
        metrics = self._context.report.metrics
        for fabric, outlet in self._outlets.items():
            acts = outlet.judge.may_act()
            metrics.cluster_leading.labels(fabric).set(acts)
            metrics.cluster_current.labels(fabric).set(outlet.judge.current)
            if fabric in self._shown and not acts:
                self._context.report.emit(Event.CLUSTER_FENCED, fabric)
                self._daemon.withdraw(fabric)
                self._shown.discard(fabric)
            elif acts:
                self._shown.add(fabric)

    # --- the beat ---------------------------------------------------------------------------

    async def _beat(self) -> None:
        await self._renew()
        await self._look()
        await self._join()
        members = self.leases.members("member.", self._now)
        self._context.report.metrics.cluster_members.labels(self._config.name).set(len(members))
        if self._me in members:  # not where this beat took longer than the lease lasts
            if self._all_here(members):
                await self._deal(members)
            for outlet in list(self._outlets.values()):
                await self._place_judge(outlet.judge, members)
        if self._beats % _CONFIG_LOOKS == 0 and await self.config.sync():
            self._begin(self._daemon.reload_quietly())
        self._beats += 1

    @property
    def _now(self) -> float:
        return self._context.clock.monotonic()

    async def _renew(self) -> None:
        for key in self.leases.due(self._now):
            asked = self._now
            revision = await self._swap(key, self.leases.entry(key))
            if revision is None:
                continue  # the look that follows tells whose it is
            self.leases.renewed(key, revision, asked)

    async def _look(self) -> None:
        kept = await self.broker.keys(self.broker.leases)
        found = {key: Entry.read(one.revision, one.value) for key, one in kept.items()}
        for key in self.leases.observe(found, self._now):
            self._context.report.emit(Event.CLUSTER_FENCED, key)
        for key in self.leases.expired("member.", self._now):
            await self.broker.purge(self.broker.leases, key)

    async def _join(self) -> None:
        """Be a member; a lease that was lost is taken anew."""
        if self._member not in self.leases.held and await self._take(self._member):
            if self._joined_at is None:
                self._joined_at = self._now
                self._context.report.emit(
                    Event.CLUSTER_JOINED, self._me, server=self.broker.version
                )
            await self._look()

    def _all_here(self, members: list[str]) -> bool:
        """Whether shards may be dealt: not before those that are meant to share them are there."""
        if self._owned is not None or len(members) >= self._config.members:
            return True
        waited = self._now - (self._joined_at if self._joined_at is not None else self._now)
        return waited >= _PATIENCE * self._config.ttl

    async def _deal(self, members: list[str]) -> None:
        """Release what falls to another, take what falls to me and is free."""
        now, held = self._now, self.leases.held
        for number in range(self._config.shards):
            key = f"shard.{number}"
            mine = ranked(key, members)[0] == self._me
            if key in held and not mine:
                await self._release(key)
            elif mine and key not in held and self.leases.holder(key, now) == NOBODY:
                await self._take(key)
        self._own(frozenset(key for key in self.leases.held if key.startswith("shard.")))

    def _own(self, owned: frozenset[str]) -> None:
        """Poll under these leases from now on, the new ones at once."""
        before, self._owned = self._owned, owned
        self._context.report.metrics.cluster_shards.labels(self._config.name).set(len(owned))
        if before == owned:
            return
        fresh = owned - (before or frozenset())
        self._context.report.emit(Event.SHARDS_CHANGED, self._me, held=len(owned), new=len(fresh))
        for fabric, outlet in self._outlets.items():
            if before is not None and (targets := outlet.names(fresh)):
                self._begin(self._daemon.catch_up(fabric, targets))

    async def _place_judge(self, judge: Judge, members: list[str]) -> None:
        """Be what falls to me: the standby, or the leader once the standby has read everything.

        Both stay what they are while they live, so that nobody leaves before the next one can.
        """
        held, now = self.leases.held, self._now
        leader = self.leases.holder(judge.lease, now)
        if judge.standby in held and leader == NOBODY and judge.current:
            if await self._take(judge.lease):
                await self._release(judge.standby)
        elif judge.lease not in held and self.leases.holder(judge.standby, now) == NOBODY:
            rest = [member for member in members if member != leader]
            if ranked(judge.standby, rest)[:1] == [self._me]:
                await self._take(judge.standby)
        self._judge_on(judge)

    def _judge_on(self, judge: Judge) -> None:
        held = self.leases.held
        if judge.lease not in held:
            judge.leading = False
        if judge.lease not in held and judge.standby not in held:
            judge.unfollow()
            return
        judge.follow()
        if judge.lease in held and not judge.leading:
            self._begin(judge.lead())  # which may have to wait for the pipeline

    # --- leases -----------------------------------------------------------------------------

    async def _swap(self, key: str, entry: Entry) -> int | None:
        revision = self.leases.revision(key)
        return await self.broker.swap(self.broker.leases, key, entry.written(), revision)

    async def _take(self, key: str) -> bool:
        asked = self._now
        revision = await self._swap(key, Entry(0, self._me))
        if revision is None:
            return False
        self.leases.took(key, revision, asked)
        self._context.report.metrics.cluster_takeovers.labels(key.partition(".")[0]).inc()
        return True

    async def _release(self, key: str) -> None:
        await self._swap(key, Entry(0, NOBODY))
        self.leases.dropped(key)

    def _lost(self, lease: str) -> bool:
        """Whether a lease is certainly another's: what was polled under it is not to be sent."""
        return self._sure and self._owned is not None and lease not in self.leases.held

    # --- what is heard ----------------------------------------------------------------------

    async def _heard_tick(self, message: Any) -> None:
        """A leader ended a round: begin mine when it begins its own."""
        try:
            stamp = Stamp.read(message.headers)
        except FormatError:
            return  # judges count it
        for fabric, outlet in self._outlets.items():
            judge = outlet.judge
            if message.subject.split(".")[-2] != word(fabric) or stamp.worker == self._me:
                continue
            interval, now = judge.interval_s, self._now
            began = now - stamp.took_s
            off = (judge.began - began + interval / 2) % interval - interval / 2
            if abs(off) > _OFF_BEAT * interval:
                self._daemon.align(fabric, interval - (now - began) % interval)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="cluster-takeover")
        self._started.add(task)
        task.add_done_callback(self._started.discard)

    def _count(self, outcome: Outcome, times: int = 1) -> None:
        self._context.report.metrics.cluster_messages.labels(outcome.value).inc(times)

    async def end(self, fabric: str) -> None:
        """A fabric was taken from the config."""
        outlet = self._outlets.pop(fabric, None)
        if outlet is not None:
            await outlet.judge.stop()
