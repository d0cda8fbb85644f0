"""The collector: picks a way of reading for each target and keeps what is known of its subnet."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fabricmon.collectors.infiniband.config import InfinibandConfig
from fabricmon.errors import ConfigError, PollError, Reason
from fabricmon.model.readings import Poll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.api import Context, Target
    from fabricmon.collectors.infiniband.folder import Folder
    from fabricmon.collectors.infiniband.known import KnownFabric
    from fabricmon.collectors.infiniband.tools import Tools
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Topology

_NAME_LINE = re.compile(r'\s*(?:0x)?(?P<guid>[0-9a-fA-F]{1,16})\s+"(?P<name>[^"]*)"')


class InfinibandCollector:
    """Reads InfiniBand subnets. Never writes, never resets a counter."""

    Config: ClassVar[type[InfinibandConfig]] = InfinibandConfig

    def __init__(
        self, config: InfinibandConfig, targets: Sequence[Target], context: Context
    ) -> None:
        """Store; nothing else."""
        self._config, self._targets, self._context = config, tuple(targets), context
        self._ways: dict[str, _Way] = {}
        self._names: dict[int, str] = {}

    async def start(self) -> None:
        """Read the node-name-map; the subnet is touched at the first poll."""
        if self._config.node_names is not None:
            self._names = read_node_names(self._config.node_names)

    async def stop(self) -> None:
        """Kill what runs, forget what is known."""
        for way in self._ways.values():
            way.close()
        self._ways.clear()

    async def discover(self, target: Target) -> Topology | None:
        """The subnet as the last sweep saw it, with what is kept of silent nodes."""
        way = self._way(target)
        async with way.lock:
            await way.discover()
        return way.known.topology()

    async def poll(self, target: Target) -> Poll:
        """Counters of every port."""
        way = self._way(target)
        async with way.lock:
            return await way.poll()

    def _way(self, target: Target) -> _Way:
        way = self._ways.get(target.name)
        if way is None:
            way = self._ways[target.name] = _make(target, self._config, self._context, self._names)
        return way


def _make(
    target: Target, config: InfinibandConfig, context: Context, names: dict[int, str]
) -> _Way:
    from fabricmon.collectors.infiniband.known import KnownFabric  # noqa: PLC0415 - light `check`

    known = KnownFabric(target.name, config, context, names)
    if "/" in target.address and Path(target.address).is_absolute():
        from fabricmon.collectors.infiniband.folder import Folder  # noqa: PLC0415 - as above

        path = Path(target.address)
        return _FolderWay(known, Folder(target.name, path, context, config.max_age))
    from fabricmon.collectors.infiniband.tools import Tools  # noqa: PLC0415 - as above

    tools = Tools(target.name, target.address, config, context)
    return _ToolsWay(known, tools, context, config.rediscover)


class _Way:
    """One way of reading one target."""

    def __init__(self, known: KnownFabric) -> None:
        self.known = known
        self.lock = asyncio.Lock()

    async def discover(self) -> None:
        raise NotImplementedError

    async def poll(self) -> Poll:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything."""


class _ToolsWay(_Way):
    def __init__(
        self, known: KnownFabric, tools: Tools, context: Context, rediscover_s: float
    ) -> None:
        super().__init__(known)
        self._tools, self._clock, self._rediscover_s = tools, context.clock, rediscover_s
        self._swept_at: float | None = None

    async def discover(self) -> None:
        self.known.adopt(await self._tools.discover())
        self._swept_at = self._clock.monotonic()

    async def poll(self) -> Poll:
        now = self._clock.monotonic()
        if self._swept_at is None or now - self._swept_at >= self._rediscover_s:
            await self.discover()
        reading = await self._tools.read(list(self.known.asked()))
        if reading.lost:
            self._swept_at = None  # LIDs may have changed: look again before the next reading
        batches = self.known.batches(reading.blocks, self._clock.now_ns())
        lost = dict(reading.lost)
        silent = self.known.silent_ports()
        if silent:
            lost[Reason.UNREACHABLE] = lost.get(Reason.UNREACHABLE, 0) + silent
        if not batches:
            raise reading.first_error or PollError(
                Reason.NO_DATA, "the subnet has no port with a LID: is a subnet manager running?"
            )
        return Poll(batches, lost)

    def close(self) -> None:
        self._tools.close()


class _FolderWay(_Way):
    def __init__(self, known: KnownFabric, folder: Folder) -> None:
        super().__init__(known)
        self._folder = folder
        self._last: tuple[int, tuple[ReadingBatch, ...]] = (0, ())

    async def discover(self) -> None:
        await self._scan()

    async def poll(self) -> Poll:
        return Poll(await self._scan())

    async def _scan(self) -> tuple[ReadingBatch, ...]:
        """The newest counts; the same batches again while no file is newer."""
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


def read_node_names(path: Path) -> dict[int, str]:
    """The operator's node-name-map. Raises `ConfigError` naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the node-name-map cannot be read: {error}", file=str(path)) from error
    names: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _NAME_LINE.match(line)
        if match is None:
            raise ConfigError('expected 0xGUID "name"', file=str(path), line=number)
        names[int(match["guid"], 16)] = match["name"].strip()
    return names
