"""The HTTP side: scrape page, health, JSON API, status page.

`WebServer(config, context, state, page_source)` is a component (inert constructor, `start`,
`stop`). The runtime hands it a `State` (the daemon as the server may see it) and the exporter that
renders `/metrics`, and calls `server.publish(snapshot)` after each tick, from the worker thread
like an exporter, which feeds the live page and the timeline. After `start()`, `server.port` is the
port it listens on.
"""

from fabricmon.web.config import WebConfig
from fabricmon.web.state import State

__all__ = ["State", "WebConfig"]
