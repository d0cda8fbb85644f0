"""The HTTP side: scrape page, health, JSON API, status page.

`WebServer(config, context, state, page_source)` is a component (inert constructor, `start`,
`stop`). The runtime hands it a `State` (the daemon as the server may see it) and the exporter that
renders `/metrics`, and calls `server.publish(snapshot)` after each tick, from the worker thread
like an exporter, which feeds the live page and the timeline. After `start()`, `server.port` is the
port it listens on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabricmon.web.config import WebConfig
from fabricmon.web.state import State

if TYPE_CHECKING:
    from fabricmon.web.server import WebServer

__all__ = ["State", "WebConfig", "WebServer"]


def __getattr__(name: str) -> Any:
    """`WebServer` is imported when asked for: `fabricmon check` need not load an HTTP server."""
    if name == "WebServer":
        from fabricmon.web.server import WebServer  # noqa: PLC0415

        return WebServer
    raise AttributeError(name)
