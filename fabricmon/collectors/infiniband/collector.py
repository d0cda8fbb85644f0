"""The collector: picks a way of reading for each target and keeps what is known of its subnet."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import ValidationError

from fabricmon.collectors.infiniband.config import InfinibandConfig
from fabricmon.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.api import Context, Target
    from fabricmon.collectors.infiniband.ways import Way
    from fabricmon.model.readings import Poll
    from fabricmon.model.topology import Topology

_NAME_LINE = re.compile(r'\s*(?:0x)?(?P<guid>[0-9a-fA-F]{1,16})\s+"(?P<name>[^"]*)"')


class InfinibandCollector:
    """Reads InfiniBand subnets. Never writes, never resets a counter."""

    Config: ClassVar[type[InfinibandConfig]] = InfinibandConfig

    def __init__(
        self, config: InfinibandConfig, targets: Sequence[Target], context: Context
    ) -> None:
        """Store; nothing else. A target's `options` go before the collector's own."""
        self._config, self._context = config, context
        self._configs = {target.name: _config_of(config, target) for target in targets}
        self._ways: dict[str, Way] = {}
        self._names: dict[Path, dict[int, str]] = {}

    async def start(self) -> None:
        """Read the node-name-maps; the subnets are touched at the first poll."""
        for config in self._configs.values():
            if config.node_names is not None and config.node_names not in self._names:
                self._names[config.node_names] = read_node_names(config.node_names)

    async def stop(self) -> None:
        """Kill what runs, forget what is known."""
        ways, self._ways = list(self._ways.values()), {}
        await asyncio.gather(*(way.close() for way in ways))

    async def discover(self, target: Target) -> Topology | None:
        """The subnet as the last sweep saw it, with what is kept of silent nodes."""
        way = self._way(target)
        async with way.lock:
            await way.discover()
            way.handed = way.shape()
        return way.handed

    async def poll(self, target: Target) -> Poll:
        """Counters of every port, and the subnet's shape where it was seen to change."""
        way = self._way(target)
        async with way.lock:
            poll = await way.poll()
            shape = way.shape()
        if shape == way.handed:
            return poll
        way.handed = shape
        return replace(poll, topology=shape)

    def _way(self, target: Target) -> Way:
        way = self._ways.get(target.name)
        if way is None:
            from fabricmon.collectors.infiniband import ways  # noqa: PLC0415 - keeps `check` light

            config = self._configs.get(target.name, self._config)
            names = self._names.get(config.node_names, {}) if config.node_names else {}
            way = self._ways[target.name] = ways.make(target, config, self._context, names)
        return way


def _config_of(config: InfinibandConfig, target: Target) -> InfinibandConfig:
    """The collector's config under the target's options, which are checked like it."""
    if not target.options:
        return config
    try:
        return InfinibandConfig.model_validate(
            {
                **config.model_dump(exclude_unset=True),
                **target.options,
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, ("options", *first["loc"])))
        raise ConfigError(f"target {target.name}: {first['msg']}", key=key) from error


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
