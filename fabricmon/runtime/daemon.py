"""The daemon: starts everything in order, ticks every fabric, reloads, and stops within seconds."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fabricmon.runtime.notify import feed_watchdog, notify
from fabricmon.runtime.pipeline import Pipeline
from fabricmon.runtime.poller import FabricPoller
from fabricmon.runtime.scheduler import Scheduler
from fabricmon.selfmon import Event, keep_compact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fabricmon.api import Component, Context, Exporter, Page, Target
    from fabricmon.model.maintenance import Maintenance
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.topology import Topology
    from fabricmon.model.window import Window
    from fabricmon.runtime.assembly import Assembly, FabricPlan
    from fabricmon.runtime.cluster import Cluster
    from fabricmon.runtime.poller import Intake

_STOP_S = 1.5
"""A component that does not stop within this is left behind: SIGTERM ends the daemon within 5 s."""
_SAVE_S = 3.0
"""So long the fabrics' states may take to be saved at the end."""


class Server(Protocol):
    """The web server as the daemon needs it."""

    async def start(self) -> None:
        """Listen."""

    async def stop(self) -> None:
        """Stop listening."""

    def publish(self, snapshot: Snapshot) -> None:
        """Take one tick."""


class Daemon:
    """Runs an assembly until told to stop. Also what the web server sees (`web.State`)."""

    def __init__(
        self, assembly: Assembly, reassemble: Callable[[], Assembly], context: Context
    ) -> None:
        """`reassemble` reads the config again and builds it, inert; it raises `ConfigError`."""
        self._now = assembly
        self._reassemble = reassemble
        self._context = context
        self._scheduler = Scheduler(context)
        self._pollers: dict[str, FabricPoller] = {}
        self._latest: dict[str, Snapshot] = {}
        self._server: Server | None = None
        self._cluster: Cluster | None = None
        self._stop = asyncio.Event()
        self._reloading = asyncio.Lock()

    def serve(self, server: Server) -> None:
        """Attach the web server, which itself needs the daemon."""
        self._server = server

    def join(self, cluster: Cluster) -> None:
        """Be a worker of a cluster from the start on."""
        self._cluster = cluster
        cluster.attach(self)

    # --- what the web server sees -----------------------------------------------------------

    def ready(self) -> bool:
        """Every fabric has been through its first full poll cycle."""
        return bool(self._pollers) and all(poller.ready for poller in self._pollers.values())

    def snapshots(self) -> Mapping[str, Snapshot]:
        """The latest snapshot of each fabric."""
        return self._latest

    def windows(self) -> Mapping[str, Window]:
        """The recent past of each fabric."""
        return {n: s.window for n, s in self._latest.items() if s.window is not None}

    def targets(self) -> Sequence[Target]:
        """Every configured target."""
        return [t for p in self._now.fabrics.values() for guard in p.guards for t in guard.targets]

    def maintenance(self) -> Maintenance:
        """The declared maintenance windows."""
        return self._now.maintenance

    def page(self, query: Mapping[str, Sequence[str]], *, openmetrics: bool) -> Page:
        """The scrape page (`api.PageSource`): always of the exporter that is configured now."""
        source: Any = self._now.exporters.get("prometheus")
        if source is None:
            raise ValueError("no prometheus exporter is configured")
        page: Page = source.page(query, openmetrics=openmetrics)
        return page

    async def probe(self, target: str) -> Page:
        """Poll one configured target now. Raises `LookupError` for a name that is not known."""
        for plan in self._now.fabrics.values():
            for guard in plan.guards:
                for known in guard.targets:
                    if known.name == target:
                        return await self._now.probe(known, guard)
        raise LookupError(target)

    def leaders(self) -> Mapping[str, str]:
        """In a cluster, which worker judges each fabric."""
        return self._cluster.leaders() if self._cluster is not None else {}

    async def reload(self) -> None:
        """Validate the config, then apply it whole. On any error the old one stays."""
        await self._renew(lambda _: True)

    async def _renew(self, wanted: Callable[[Assembly], bool]) -> None:
        """Build everything again, and apply it where it is `wanted`."""
        metrics = self._context.report.metrics
        async with self._reloading:
            try:
                new = await asyncio.to_thread(self._reassemble)
                if applied := wanted(new):
                    await self._apply(new)
                else:
                    new.close()
            except Exception as error:
                metrics.reload_ok.set(0)
                self._context.report.emit(Event.CONFIG_REJECTED, error=str(error))
                raise
            metrics.reload_ok.set(1)
            if not applied:
                return
            metrics.reload_time.set(self._context.clock.now_ns() / 1e9)
            self._context.report.emit(Event.CONFIG_RELOADED)

    # --- life -------------------------------------------------------------------------------

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Start, call `on_ready`, stay until SIGTERM or SIGINT, stop."""
        keep_compact()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.create_task(self.reload_quietly()))
        try:
            await self.start()
            on_ready()
            notify("READY=1")
            watchdog = loop.create_task(feed_watchdog(), name="watchdog")
            await self._stop.wait()
            watchdog.cancel()
        finally:
            notify("STOPPING=1")
            self._context.report.emit(Event.STOPPING)
            await self.stop()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)
            self._context.report.emit(Event.STOPPED)

    def request_stop(self) -> None:
        """End `run` as soon as what runs has stopped."""
        self._stop.set()

    async def start(self) -> None:
        """Exporters, web server, then each fabric's collectors and its schedule."""
        metrics = self._context.report.metrics
        metrics.reload_ok.set(1)
        metrics.reload_time.set(self._context.clock.now_ns() / 1e9)
        for exporter in self._now.exporters.values():
            await exporter.start()
        if self._server is not None:
            await self._server.start()
        for name, plan in self._now.fabrics.items():
            await self._revive(plan)
            await self._poller(plan).start()
            await self._run_fabric(name, plan)
        if self._cluster is not None:
            await self._cluster.start()
        if self._now.refresh_s:
            self._scheduler.every(
                "targets", self._now.refresh_s, self.refresh, first_s=self._now.refresh_s
            )
        await self._scheduler.start()
        self._context.report.emit(Event.STARTED, fabrics=len(self._now.fabrics))

    async def stop(self) -> None:
        """In reverse; each piece has a bounded time."""
        await self._stop_all([self._scheduler])
        await self._save_all()
        components: list[Component] = []
        if self._cluster is not None:
            components.append(self._cluster)
        components.extend(self._pollers.values())
        if self._server is not None:
            components.append(self._server)
        await self._stop_all([*components, *self._now.exporters.values()])
        self._now.close()
        self._pollers.clear()

    async def _save_all(self) -> None:
        saves = [
            poller.between(partial(keeper.keep, now=True))
            for name, poller in self._pollers.items()
            if (keeper := self._now.fabrics[name].keeper) is not None
        ]
        try:
            await asyncio.wait_for(asyncio.gather(*saves), _SAVE_S)
        except TimeoutError:
            self._context.report.emit(Event.STATE_FAILED, error=f"not saved within {_SAVE_S:g} s")

    async def _stop_all(self, components: Sequence[Component]) -> None:
        for component in components:
            try:
                await asyncio.wait_for(component.stop(), _STOP_S)
            except TimeoutError:
                name = type(component).__name__
                self._context.report.emit(Event.COMPONENT_FAILED, name, error="does not stop")

    # --- fabrics ----------------------------------------------------------------------------

    async def _revive(self, plan: FabricPlan) -> None:
        if plan.keeper is not None:
            plan.pipeline = await asyncio.to_thread(plan.keeper.revive, plan.pipeline)

    def _poller(self, plan: FabricPlan) -> FabricPoller:
        poller = FabricPoller(
            self._intake(plan), plan.guards, self._context, plan.interval_s, self._publish
        )
        self._pollers[plan.pipeline.fabric] = poller
        return poller

    def _intake(self, plan: FabricPlan) -> Intake:
        """What polls go into."""
        return plan.pipeline if self._cluster is None else self._cluster.entry(plan)

    async def _run_fabric(self, name: str, plan: FabricPlan) -> None:
        """Begin to tick a fabric whose poller was started."""
        poller = self._pollers[name]
        for guard in plan.guards:
            await poller.replay(guard.past())
        self._schedule(name, plan, poller)

    def _schedule(self, name: str, plan: FabricPlan, poller: FabricPoller) -> None:
        async def rediscover() -> None:
            for read in plan.shape:
                await (poller.discover() if read is None else poller.read(read))
            await poller.between(Pipeline.rediscovered)

        async def reshape(found: Topology) -> None:
            for read in plan.shape if None in plan.shape else ():
                await (poller.feed(found) if read is None else poller.read(read))

        poller.reshape = reshape
        self._scheduler.every(f"discover-{name}", plan.rediscover_s, rediscover)
        if (jobs := plan.jobs) is not None:
            self._scheduler.every(f"jobs-{name}", plan.jobs_s, lambda: poller.read(jobs))
        self._scheduler.remove(f"state-{name}")
        if (keeper := plan.keeper) is not None:
            save = partial(poller.between, keeper.keep)
            self._scheduler.every(f"state-{name}", keeper.look_s, save, first_s=keeper.look_s)
        self._scheduler.every(f"tick-{name}", plan.interval_s, poller.tick)

    def _publish(self, snapshot: Snapshot) -> None:
        """In a worker thread: hand one tick to everybody. One that fails costs only itself."""
        self._latest[snapshot.fabric] = snapshot
        takers: list[Exporter | Server] = list(self._now.exporters.values())
        if self._server is not None:
            takers.append(self._server)
        for taker in takers:
            self._give(taker, snapshot)

    def _give(self, taker: Exporter | Server, snapshot: Snapshot) -> None:
        try:
            taker.publish(snapshot)
        except Exception as error:  # noqa: BLE001 - an exporter is a border
            name = type(taker).__name__
            self._context.report.emit(Event.COMPONENT_FAILED, name, error=repr(error))

    # --- what a cluster asks for ------------------------------------------------------------

    def export(self, snapshot: Snapshot) -> None:
        """In a worker thread: the tick of a fabric that this daemon leads."""
        self._publish(snapshot)

    def withdraw(self, fabric: str) -> None:
        """Nothing of it is published any more."""
        self._latest.pop(fabric, None)
        for exporter in self._now.exporters.values():
            exporter.forget(fabric)

    def align(self, fabric: str, first_s: float) -> None:
        """Begin the next round in `first_s` seconds, and the others at the interval from there."""
        poller, plan = self._pollers[fabric], self._now.fabrics[fabric]
        self._scheduler.every(f"tick-{fabric}", plan.interval_s, poller.tick, first_s=first_s)

    async def catch_up(self, fabric: str, targets: frozenset[str]) -> None:
        """Poll what was just taken over, without waiting for the next round."""
        await self._pollers[fabric].catch_up(targets)

    async def settle(self, timeout_s: float) -> None:
        """Wait for the polls in flight, so long at most."""
        await asyncio.gather(*(poller.settle(timeout_s) for poller in self._pollers.values()))

    # --- reload -----------------------------------------------------------------------------

    async def reload_quietly(self) -> None:
        """As `reload`; an error is reported there, and is none here."""
        with suppress(Exception):  # reported by reload itself; the old config stays
            await self.reload()

    async def refresh(self) -> None:
        """Ask again for targets that are kept elsewhere, and reload where they are others."""
        with suppress(Exception):  # reported there
            await self._renew(lambda new: new.work() != self._now.work())

    async def _apply(self, new: Assembly) -> None:
        """Put `new` in place of what runs. Pipelines, and guards that did not change, stay.

        First everything that can fail is started beside what runs, and stopped again if any of it
        does; only then is anything exchanged.
        """
        async with AsyncExitStack() as undo:
            dropped = await self._begin_exporters(new, undo)
            for name, plan in new.fabrics.items():
                await self._begin_fabric(name, plan, undo)
            undo.pop_all()
        await self._exchange(new)
        for exporter in dropped:
            await exporter.stop()

    async def _begin_exporters(self, new: Assembly, undo: AsyncExitStack) -> list[Exporter]:
        """Start what is new or changed, with the latest tick; the rest stays. Gives the dropped."""
        old = self._now.exporters
        for name, exporter in new.exporters.items():
            running = old.get(name)
            if running is not None and self._now.settings[name] == new.settings[name]:
                new.exporters[name] = running
                continue
            undo.push_async_callback(exporter.stop)
            await exporter.start()
            for snapshot in list(self._latest.values()):
                if snapshot.fabric in new.fabrics:
                    await asyncio.to_thread(self._give, exporter, snapshot)
        return [e for n, e in old.items() if new.exporters.get(n) is not e]

    async def _begin_fabric(self, name: str, plan: FabricPlan, undo: AsyncExitStack) -> None:
        """Start the guards of a known fabric that are new, or all there is of a new fabric."""
        old = self._now.fabrics.get(name)
        if old is None:
            await self._revive(plan)
            plan.pipeline.maintenance = self._now.maintenance
            poller = self._poller(plan)
            undo.callback(self._pollers.pop, name)
            undo.push_async_callback(poller.stop)
            await poller.start()
            return
        for i, guard in enumerate(plan.guards):
            kept = next((kept for kept in old.guards if kept.key == guard.key), None)
            if kept is not None:
                plan.guards[i] = kept
                continue
            undo.push_async_callback(guard.stop)
            await guard.start()

    async def _exchange(self, new: Assembly) -> None:
        before, old = self._now, self._now.fabrics
        self._now.maintenance.configure(new.maintenance.windows())
        new.maintenance = self._now.maintenance
        for name in old.keys() - new.fabrics.keys():
            await self._end_fabric(name)
        for name in old.keys() & new.fabrics.keys():
            plan, poller = new.fabrics[name], self._pollers[name]
            await poller.exchange(self._intake(plan), plan.guards, plan.interval_s)
            self._schedule(name, plan, poller)
        self._now = new
        for name in sorted(new.fabrics.keys() - old.keys()):
            await self._run_fabric(name, new.fabrics[name])
        before.close()

    async def _end_fabric(self, name: str) -> None:
        for job in ("tick", "discover", "jobs", "state"):
            self._scheduler.remove(f"{job}-{name}")
        await self._pollers.pop(name).stop()
        if self._cluster is not None:
            await self._cluster.end(name)
        self.withdraw(name)
