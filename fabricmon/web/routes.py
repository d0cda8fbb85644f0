"""The routes: what is answered where, and the middlewares in front of it.

Imported by `WebServer.start`, since aiohttp takes half a second that `check` must not pay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from fabricmon.errors import FabricmonError
from fabricmon.selfmon import Event
from fabricmon.web.api.live import Live
from fabricmon.web.api.responses import json_response
from fabricmon.web.api.v1 import Api
from fabricmon.web.scrape import Scraping
from fabricmon.web.security import Gate
from fabricmon.web.statics import static_routes

if TYPE_CHECKING:
    import asyncio

    from aiohttp.typedefs import Handler, Middleware

    from fabricmon.api import Context, PageSource
    from fabricmon.selfmon import Reporter
    from fabricmon.web.api.history import History
    from fabricmon.web.api.kept import Kept
    from fabricmon.web.config import WebConfig
    from fabricmon.web.state import State
    from fabricmon.web.webfile import WebFile

_SHUTDOWN_S = 0.5
_MAX_BODY = 1 << 20


@dataclass(frozen=True, slots=True)
class Site:
    """The application, ready to be served, and whom to tell of a tick."""

    runner: web.AppRunner
    live: Live


def make_site(
    config: WebConfig,
    context: Context,
    state: State,
    source: PageSource | None,
    file: WebFile,
    history: History,
    kept: Kept,
    busy: set[asyncio.BaseProtocol],
) -> Site:
    """The whole application. Connections with a request in work are kept in `busy`."""
    gate = Gate(file, context.clock)
    live = Live(gate)
    app = web.Application(
        middlewares=[_marking(busy), gate.middleware(), _errors(context.report)],
        client_max_size=_MAX_BODY,
    )
    scraping = Scraping(config, context, state, source)
    app.add_routes(
        [
            web.get(config.telemetry_path, scraping.metrics),
            web.get("/probe", scraping.probe),
            *Basics(config, state).routes(),
            *Api(context, state, history, kept, gate).routes(),
            web.get("/api/v1/events", live.stream),
            *static_routes(config),
        ]
    )
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        keepalive_timeout=config.request_timeout,
        shutdown_timeout=_SHUTDOWN_S,
    )
    return Site(runner, live)


def _marking(busy: set[asyncio.BaseProtocol]) -> Middleware:
    @web.middleware
    async def mark(request: web.Request, handler: Handler) -> web.StreamResponse:
        protocol = request.protocol
        busy.add(protocol)
        try:
            return await handler(request)
        finally:
            busy.discard(protocol)

    return mark


def _errors(report: Reporter) -> Middleware:
    """Refusals are plain text with the same headers as any answer; a bug costs one request."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as refusal:
            response = web.Response(status=refusal.status, text=refusal.text or refusal.reason)
            for name in ("Retry-After", "Allow"):
                if name in refusal.headers:
                    response.headers[name] = refusal.headers[name]
            return response
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - a request is a border
            report.emit(Event.COMPONENT_FAILED, request.path, error=repr(error))
            return web.Response(status=500, text="an error of fabricmon's own; see its log\n")

    return answer


class Basics:
    """What every exporter answers: health, reload, discovery."""

    def __init__(self, config: WebConfig, state: State) -> None:
        """Store."""
        self._config = config
        self._state = state

    def routes(self) -> list[web.RouteDef]:
        """For the application."""
        return [
            web.get("/-/healthy", self._healthy),
            web.get("/-/ready", self._ready),
            web.post("/-/reload", self._reload),
            web.put("/-/reload", self._reload),
            web.get("/sd/targets", self._sd_targets),
            web.get("/sd/shards", self._sd_shards),
        ]

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response(text="fabricmon is healthy.\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        if self._state.ready():
            return web.Response(text="fabricmon is ready.\n")
        return web.Response(status=503, text="fabricmon has not yet polled everything once.\n")

    async def _reload(self, _request: web.Request) -> web.Response:
        if not self._config.enable_lifecycle:
            return web.Response(status=403, text="Lifecycle API is not enabled.\n")
        try:
            await self._state.reload()
        except FabricmonError as error:
            return web.Response(status=500, text=f"failed to reload config: {error}\n")
        return web.Response(text="")

    async def _sd_targets(self, _request: web.Request) -> web.Response:
        """Every configured target by name, for a scrape of `/probe` (http_sd format)."""
        groups = [
            {
                "targets": [target.name],
                "labels": {
                    "__meta_fabricmon_fabric": target.fabric,
                    "__meta_fabricmon_address": target.address,
                },
            }
            for target in self._state.targets()
        ]
        return json_response(groups)

    async def _sd_shards(self, request: web.Request) -> web.Response:
        """This server n times, each time with another shard of the page (http_sd format)."""
        text = request.query.get("n", "1")
        if not text.isdecimal() or not 1 <= int(text) <= 1000:
            raise web.HTTPBadRequest(text="n is the number of shards, 1 to 1000\n")
        address = self._config.external_url.partition("://")[2] or request.host
        groups = [
            {
                "targets": [address.rstrip("/")],
                "labels": {
                    "__metrics_path__": self._config.telemetry_path,
                    "__param_shard": f"{i}/{text}",
                    "shard": str(i),
                },
            }
            for i in range(int(text))
        ]
        return json_response(groups)
