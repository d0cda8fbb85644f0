"""The ways a subnet is read: our own datagrams, the tools, a folder. Each keeps what it knows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fabricmon.collectors.infiniband.endpoint import Endpoint
from fabricmon.collectors.infiniband.folder import Folder
from fabricmon.collectors.infiniband.known import KnownFabric
from fabricmon.collectors.infiniband.native.counters import Counters
from fabricmon.collectors.infiniband.native.pump import Pump
from fabricmon.collectors.infiniband.native.sweep import sweep
from fabricmon.collectors.infiniband.tools import Tools
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import Poll
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.api import Context, Target
    from fabricmon.collectors.infiniband.config import InfinibandConfig
    from fabricmon.collectors.infiniband.native.counters import Outcome
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Topology

ANY = "any"
"""The address that stands for the first active port of this host."""

_NO_DATA = "the subnet has no port with a LID: is a subnet manager running?"
_SWEEP_SHARE = 20
"""A sweep is repeated no sooner than this many times its own length."""
_HASTY_SWEEP_SHARE = 1
"""The same while nodes are missing: they may be back, or somewhere else."""
_NEWS_SWEEP_SHARE = 4
"""The same where counters tell that links have changed, which a flapping one does for ever."""
_HASTY_SWEEPS = 5
"""How often so, until the same nodes are looked for no more often than all others."""
_SLOWEST_WINDOW = 8


def make(target: Target, config: InfinibandConfig, context: Context, names: dict[int, str]) -> Way:
    """The way for a target, by its address and the config."""
    known = KnownFabric(target.name, config, context, names)
    if target.address.startswith(("http://", "https://")):
        endpoint = Endpoint(target.name, target.address, target.credential, context)
        return EndpointWay(known, endpoint, context)
    if Path(target.address).is_absolute():
        folder = Folder(target.name, Path(target.address), context, config.max_age)
        return FolderWay(known, folder)
    adapter = "" if target.address == ANY else target.address
    tools = ToolsWay(known, Tools(target.name, adapter, config, context), context, config)
    if config.read == "tools":
        return tools
    native = NativeWay(known, Pump(adapter, config), target, context, config)
    return native if config.read == "native" else AutoWay(native, tools, target, context)


class Way:
    """One way of reading one target. `lock` keeps discovery and polls apart."""

    def __init__(self, known: KnownFabric) -> None:
        """`known` is kept for as long as the target is."""
        self.known = known
        self.lock = asyncio.Lock()
        self.handed: Topology | None = None
        """The shape that was handed out last."""
        self._shape: tuple[int, Topology | None] = 0, None

    async def discover(self) -> None:
        """Learn the subnet's shape into `known`."""
        raise NotImplementedError

    async def poll(self) -> Poll:
        """Counters of every port."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of processes, files and connections."""

    def shape(self) -> Topology | None:
        """What is known of the subnet's shape; None where nothing is."""
        version, shape = self._shape
        if version != self.known.version:
            shape = self.known.topology()
            self._shape = self.known.version, shape
        return shape

    def _with_silent(self, lost: dict[Reason, int]) -> dict[Reason, int]:
        """Ports of nodes that discovery does not reach count as lost until they are forgotten."""
        silent = self.known.silent_ports()
        if not silent:
            return lost
        return {**lost, Reason.UNREACHABLE: lost.get(Reason.UNREACHABLE, 0) + silent}

    def _poll(self, batches: Iterable[ReadingBatch], lost: dict[Reason, int]) -> Poll:
        """What was read; ports that did not answer are still there."""
        if lost:
            batches = (replace(batch, partial=True) for batch in batches)
        return Poll(tuple(batches), lost)


class ToolsWay(Way):
    """`ibnetdiscover` and `perfquery`."""

    def __init__(
        self, known: KnownFabric, tools: Tools, context: Context, config: InfinibandConfig
    ) -> None:
        """Nothing runs yet."""
        super().__init__(known)
        self._tools, self._clock, self._rediscover_s = tools, context.clock, config.rediscover
        self._swept_at: float | None = None

    async def discover(self) -> None:
        """One sweep by ibnetdiscover."""
        self.known.adopt(await self._tools.discover())
        self._swept_at = self._clock.monotonic()

    async def poll(self) -> Poll:
        """Sweep where the last one is old, then one or two perfquery for each switch."""
        now = self._clock.monotonic()
        if self._swept_at is None or now - self._swept_at >= self._rediscover_s:
            await self.discover()
        reading = await self._tools.read(list(self.known.asked()))
        if reading.lost:
            self._swept_at = None  # LIDs may have changed: look again before the next reading
        batches = self.known.batches(reading.blocks, self._clock.now_ns())
        if not batches:
            raise reading.first_error or PollError(Reason.NO_DATA, _NO_DATA)
        return self._poll(batches, self._with_silent(reading.lost))

    async def close(self) -> None:
        """Remove the scratch directory; running tools die with their task."""
        self._tools.close()


class NativeWay(Way):
    """Datagrams of our own."""

    def __init__(
        self,
        known: KnownFabric,
        pump: Pump,
        target: Target,
        context: Context,
        config: InfinibandConfig,
    ) -> None:
        """The worker starts at the first datagram."""
        super().__init__(known)
        self._pump, self._target, self._report = pump, target.name, context.report
        self._clock, self._config = context.clock, config
        self._counters = Counters(target.name, pump, config.groups)
        self._sweep_due: float | None = None
        self._sweep_soonest = self._news_soonest = 0.0
        self._trouble: tuple[frozenset[int], int] = (frozenset(), 0)
        self._hasty_left = 0
        self._window = config.window
        self._dropped: int | None = None

    async def discover(self) -> None:
        """One sweep by direct routes, and what new nodes can count."""
        begun = self._clock.monotonic()
        self.known.adopt(await sweep(self._pump))
        self._counters.forget_plan()
        await self._counters.learn(self.known)
        now = self._clock.monotonic()
        self._sweep_due = now + max(self._config.rediscover, (now - begun) * _SWEEP_SHARE)
        self._sweep_soonest = now + (now - begun) * _HASTY_SWEEP_SHARE
        self._news_soonest = now + (now - begun) * _NEWS_SWEEP_SHARE

    async def poll(self) -> Poll:
        """Every port's counters; a sweep first where one is due or the last poll missed a node."""
        if await self._must_sweep():
            await self.discover()
        outcome = await self._counters.poll(self.known, self._clock, self._window)
        if outcome.moved and outcome.mostly_lost:
            await self.discover()  # a new subnet manager has numbered everything anew
            outcome = await self._counters.poll(self.known, self._clock, self._window)
        self._hurry(outcome)
        self._pace(outcome)
        lost = self._with_silent(outcome.lost)
        if not outcome.read:
            if lost:
                raise PollError(Reason.TIMEOUT, "no node answers performance management")
            raise PollError(Reason.NO_DATA, _NO_DATA)
        return self._poll(outcome.batches, lost)

    async def _must_sweep(self) -> bool:
        """Whether a sweep is due, or a node is back that the last one missed."""
        now = self._clock.monotonic()
        if self._sweep_due is None or now >= self._sweep_due:
            return True
        missed = self.known.silent and now >= self._sweep_soonest
        return bool(missed) and await self._counters.any_back(self.known)

    def _hurry(self, outcome: Outcome) -> None:
        """Sweep again soon while nodes are newly missing: they may be back, or somewhere else."""
        trouble = (frozenset(self.known.silent), sum(outcome.lost.values()))
        if trouble != self._trouble:
            self._trouble, self._hasty_left = trouble, _HASTY_SWEEPS
        if self._hasty_left and (outcome.moved or self.known.silent):
            self._hasty_left -= 1
            self._sweep_due = self._sweep_soonest
        elif outcome.relinked and self._sweep_due is not None:
            self._sweep_due = min(self._sweep_due, self._news_soonest)

    def _pace(self, outcome: Outcome) -> None:
        """Fewer datagrams on the wire while ports drop management packets, then slowly more."""
        rising = self._dropped is not None and outcome.dropped > self._dropped
        self._dropped = outcome.dropped
        if rising:
            self._window = max(_SLOWEST_WINDOW, self._window // 2)
            self._report.emit(Event.POLLING_SLOWED, self._target, window=self._window)
        else:
            self._window = min(self._config.window, self._window + self._window // 4 + 1)

    async def close(self) -> None:
        """End the worker."""
        await asyncio.to_thread(self._pump.close)


class AutoWay(Way):
    """Datagrams of our own where that works, the tools otherwise."""

    def __init__(self, native: NativeWay, tools: ToolsWay, target: Target, ctx: Context) -> None:
        """Decided at the first use."""
        super().__init__(native.known)
        self._native, self._tools = native, tools
        self._target, self._report = target.name, ctx.report
        self._chosen: Way | None = None

    async def discover(self) -> None:
        """By the chosen way; the first discovery chooses."""
        if self._chosen is not None:
            await self._chosen.discover()
            return
        try:
            await self._native.discover()
            self._chosen = self._native
        except PollError as error:
            if error.reason not in {Reason.NOT_FOUND, Reason.PERMISSION, Reason.INTERNAL}:
                raise
            self._report.emit(
                Event.FALLBACK, self._target, to="ibnetdiscover and perfquery", why=str(error)
            )
            await self._tools.discover()
            self._chosen = self._tools

    async def poll(self) -> Poll:
        """By the chosen way."""
        if self._chosen is None:
            await self.discover()
        assert self._chosen is not None
        return await self._chosen.poll()

    async def close(self) -> None:
        """Close both."""
        await self._native.close()
        await self._tools.close()


class FolderWay(Way):
    """A directory of tool output."""

    def __init__(self, known: KnownFabric, folder: Folder) -> None:
        """Nothing is read yet."""
        super().__init__(known)
        self._folder = folder
        self._last: tuple[int, tuple[ReadingBatch, ...]] = (0, ())

    async def discover(self) -> None:
        """The newest discovery in the folder."""
        await self._scan()

    async def poll(self) -> Poll:
        """The newest counts; the same batches again while no file is newer."""
        return Poll(await self._scan())

    async def _scan(self) -> tuple[ReadingBatch, ...]:
        by_time = await asyncio.to_thread(self._folder.scan)
        if self._folder.fresh_fabric is not None:
            self.known.adopt(self._folder.fresh_fabric)
        newest = max(by_time)
        if newest != self._last[0]:
            batches: list[ReadingBatch] = []
            for time_ns in sorted(t for t in by_time if t > self._last[0]):
                batches += self.known.batches(by_time[time_ns], time_ns)
            self._last = (newest, tuple(batches))
        return self._last[1]


class EndpointWay(Way):
    """A Prometheus page. It knows no cables: the fabric's shape comes from elsewhere."""

    def __init__(self, known: KnownFabric, endpoint: Endpoint, context: Context) -> None:
        """Nothing is fetched yet."""
        super().__init__(known)
        self._endpoint, self._clock = endpoint, context.clock

    async def discover(self) -> None:
        """A page tells of ports, not of cables."""

    async def poll(self) -> Poll:
        """Every port the page tells of."""
        blocks = await self._endpoint.fetch()
        return Poll(self.known.batches(blocks, self._clock.now_ns()))

    async def close(self) -> None:
        """Close the connection."""
        await self._endpoint.close()
