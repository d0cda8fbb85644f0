"""A daemon made by hand, for the web server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp

from fabricmon.api import Page, Target
from fabricmon.model.maintenance import Maintenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.window import Window
    from fabricmon.web import WebServer
    from fabricmon_exporters.prometheus import PrometheusExporter


class HandState:
    """`web.State` whose answers the test sets."""

    def __init__(self) -> None:
        """Not ready, no fabrics, one target."""
        self.is_ready = False
        self.latest: dict[str, Snapshot] = {}
        self.past: dict[str, Window] = {}
        self.configured: list[Target] = [Target("pod1", "leaf1", "192.0.2.1:161")]
        self.declared = Maintenance()
        self.led: dict[str, str] = {}
        self.reload_error: Exception | None = None
        self.reloads = 0
        self.probe_error: Exception | None = None

    def ready(self) -> bool:
        """As set."""
        return self.is_ready

    def snapshots(self) -> Mapping[str, Snapshot]:
        """As set."""
        return self.latest

    def windows(self) -> Mapping[str, Window]:
        """As set."""
        return self.past

    def targets(self) -> Sequence[Target]:
        """As set."""
        return self.configured

    def maintenance(self) -> Maintenance:
        """As set."""
        return self.declared

    def leaders(self) -> Mapping[str, str]:
        """As set."""
        return self.led

    async def reload(self) -> None:
        """Count, and raise what was set."""
        self.reloads += 1
        if self.reload_error is not None:
            raise self.reload_error

    async def probe(self, target: str) -> Page:
        """A page for a configured name."""
        if target not in {known.name for known in self.configured}:
            raise LookupError(target)
        if self.probe_error is not None:
            raise self.probe_error
        return Page(b"fabricmon_target_up 1\n", "text/plain; version=0.0.4; charset=utf-8")


class Served:
    """A running server with what is behind it."""

    def __init__(self, server: WebServer, state: HandState, exporter: PrometheusExporter) -> None:
        """Keep all three."""
        self.server, self.state, self.exporter = server, state, exporter
        self.url = f"http://127.0.0.1:{server.port}"

    async def get(self, path: str, **options: Any) -> tuple[int, str, Mapping[str, str]]:
        """(status, text, headers)."""
        return await self.ask("GET", path, **options)

    async def ask(
        self, method: str, path: str, **options: Any
    ) -> tuple[int, str, Mapping[str, str]]:
        """(status, text, headers)."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, **options) as response,
        ):
            return response.status, await response.text(), response.headers
