"""Incidents as JSON messages on NATS: one when it opens, when it changes, and when it closes.

Subject `<prefix>.<fabric>.<kind>`, the fabric with what a subject cannot hold replaced by `_`. The
message id is made of incident and content, so that a stream with a duplicate window keeps one. A
server that is away costs what no longer fits into a bounded buffer, oldest first, and counted.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from fabricmon.errors import ConfigError
from fabricmon.selfmon import Event
from fabricmon.settings import Duration, NatsAccess, Settings
from fabricmon_exporters import tasks
from fabricmon_exporters.changes import Changes

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot

_UNSAFE = re.compile(r"[^\w-]")


class NatsConfig(NatsAccess):
    """What users write under `exporters: nats:`."""

    prefix: Annotated[str, Field(pattern=r"^[\w-]+(\.[\w-]+)*$")] = "fabricmon.incidents"
    jetstream: bool = False
    """Wait for a stream's acknowledgement of each message; the stream is yours to make."""
    buffer: Annotated[int, Field(ge=1)] = 10_000
    """Messages that wait while the server is away."""
    timeout: Duration = 5.0


class NatsExporter:
    """Publishes news of incidents."""

    Config: ClassVar[type[Settings]] = NatsConfig

    def __init__(self, config: NatsConfig, context: Context) -> None:
        """Store; nothing else."""
        self.config = config
        self._context = context
        self._changes = Changes()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to connect and to send; neither is waited for. Raises `ConfigError`."""
        if find_spec("nats") is None:
            raise ConfigError(
                "this needs nats-py: install fabricmon[cluster]", key="exporters.nats"
            )
        self._changes.forget()
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self._task = tasks.begin(self._run(self._news), "nats", self._context)

    async def stop(self) -> None:
        """Send what fits into a moment, and leave."""
        task, self._task, self._loop = self._task, None, None
        await tasks.end(task)

    def publish(self, snapshot: Snapshot) -> None:
        """Queue what changed at this tick."""
        import orjson  # noqa: PLC0415 - only a daemon that sends needs it

        fabric = _UNSAFE.sub("_", snapshot.fabric)
        for event, incident in self._changes.of(snapshot):
            body = orjson.dumps({"event": event, **incident.to_json()})
            self._queue(f"{self.config.prefix}.{fabric}.{incident.kind.value}", body)
        if self._loop is not None and self._news is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    def forget(self, fabric: str) -> None:
        """Its incidents end without a message: nobody knows how they went on."""
        self._changes.forget(fabric)

    def _queue(self, subject: str, body: bytes) -> None:
        with self._lock:
            self._waiting.append((subject, body))
            over = len(self._waiting) - self.config.buffer
            for _ in range(over):
                self._waiting.popleft()
        if over > 0:
            self._context.report.emit(Event.EXPORT_DROPPED, "nats", messages=over)

    async def _run(self, news: asyncio.Event) -> None:
        client = None
        try:
            while client is None:
                client = await self._connect()
            while True:
                await news.wait()
                news.clear()
                await self._drain(client)
        finally:
            if client is not None:
                await client.close()

    async def _connect(self) -> Any:
        """A client, or None after a failure and a pause."""
        import nats  # noqa: PLC0415 - an extra, and 0.3 s
        from nats.errors import Error  # noqa: PLC0415

        try:
            return await nats.connect(
                servers=self.config.servers,
                name="fabricmon",
                connect_timeout=self.config.timeout,
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                error_cb=self._trouble,
                **self.config.access(),
            )
        except (Error, ConfigError, OSError, TimeoutError) as error:
            await self._trouble(error)
            await self._context.clock.sleep(self.config.timeout)
            return None

    async def _trouble(self, error: Exception) -> None:
        """The library reports here, again and again while a server is away."""
        text = str(error) or type(error).__name__
        self._context.report.emit(Event.EXPORT_FAILED, "nats", error=text)

    async def _drain(self, client: Any) -> None:
        """Send what waits; what fails goes back to the front and waits for the next news."""
        from nats.errors import Error  # noqa: PLC0415 - see `_connect`

        while True:
            with self._lock:
                if not self._waiting:
                    return
                subject, body = self._waiting.popleft()
            try:
                await self._send(client, subject, body)
            except (Error, OSError, TimeoutError) as error:
                await self._trouble(error)
                with self._lock:
                    self._waiting.appendleft((subject, body))
                return

    async def _send(self, client: Any, subject: str, body: bytes) -> None:
        headers = {"Nats-Msg-Id": blake2b(body, digest_size=16).hexdigest()}
        if self.config.jetstream:
            timeout = self.config.timeout
            await client.jetstream().publish(subject, body, timeout=timeout, headers=headers)
        else:
            if not client.is_connected:
                raise ConnectionError("not connected")
            await client.publish(subject, body, headers=headers)
            await client.flush(timeout=max(1, round(self.config.timeout)))
