"""The server's life and its sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fabricmon.errors import ConfigError
from fabricmon.selfmon import Event
from fabricmon.web.api.history import History
from fabricmon.web.api.kept import Kept
from fabricmon.web.config import split_address
from fabricmon.web.webfile import WebFile

if TYPE_CHECKING:
    from aiohttp import web

    from fabricmon.api import Context, PageSource
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.web.api.live import Live
    from fabricmon.web.config import WebConfig
    from fabricmon.web.state import State

_BACKLOG = 1024


class WebServer:
    """A component. Constructing it touches nothing."""

    def __init__(
        self, config: WebConfig, context: Context, state: State, source: PageSource | None
    ) -> None:
        """`source` renders `/metrics`; None where no prometheus exporter is configured."""
        self._config = config
        self._context = context
        self._state = state
        self._file = WebFile(config.config_file, context)
        self._source = source
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._history = History(config.history_mib << 20)
        self._kept = Kept(config.state_file, context, state.maintenance)
        self._live: Live | None = None
        self._busy: set[asyncio.BaseProtocol] = set()
        self.port = 0
        """The port it listens on, once started."""

    async def start(self) -> None:
        """Listen. Raises `ConfigError` for a bad file or an address that is taken."""
        from fabricmon.web.routes import make_site  # noqa: PLC0415 - see there

        self._file.load()
        self._kept.load()
        site = make_site(
            self._config,
            self._context,
            self._state,
            self._source,
            self._file,
            self._history,
            self._kept,
            self._busy,
        )
        self._runner, self._live = site.runner, site.live
        await self._runner.setup()
        self._listener = await self._listen()
        self.port = self._listener.sockets[0].getsockname()[1]
        self._context.report.emit(Event.LISTENING, address=self.url)

    async def _listen(self) -> asyncio.Server:
        host, port = split_address(self._config.listen_address)
        tls = self._file.tls
        try:
            return await asyncio.get_running_loop().create_server(
                self._admit,
                host,
                port,
                ssl=tls,
                ssl_handshake_timeout=self._config.request_timeout if tls else None,
                backlog=_BACKLOG,
            )
        except OSError as error:
            await self.stop()
            raise ConfigError(
                f"cannot listen on {self._config.listen_address}: {error.strerror or error}",
                key="web.listen_address",
            ) from error

    async def stop(self) -> None:
        """Stop listening, end what runs."""
        listener, self._listener = self._listener, None
        runner, self._runner = self._runner, None
        if listener is not None:
            listener.close()
        live, self._live = self._live, None
        if live is not None:
            live.close()
        if runner is not None:
            await runner.cleanup()

    def publish(self, snapshot: Snapshot) -> None:
        """Take one tick of one fabric, for the status page. Runs in a worker thread."""
        self._history.retain({*self._state.snapshots(), snapshot.fabric})
        moment = self._history.add(snapshot)
        live = self._live
        if live is not None:
            live.announce(
                {
                    "fabric": snapshot.fabric,
                    "tick": snapshot.tick,
                    "time": moment.time_ns / 1e9,
                    "incidents": moment.n_incidents,
                }
            )

    @property
    def url(self) -> str:
        """Where people find it."""
        if self._config.external_url:
            return self._config.external_url
        host, _ = split_address(self._config.listen_address)
        scheme = "https" if self._file.tls is not None else "http"
        name = "localhost" if host is None else f"[{host}]" if ":" in host else host
        return f"{scheme}://{name}:{self.port}"

    def _admit(self) -> asyncio.BaseProtocol:
        """A new connection. When there are too many, the one that idles longest has to go."""
        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= self._config.max_connections:
            idle = next((c for c in server.connections if c not in self._busy), None)
            if idle is not None:
                idle.force_close()
        return server()
