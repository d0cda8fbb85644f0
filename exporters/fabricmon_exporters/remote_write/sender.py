"""Sends what waits, oldest first, one request at a time, until it is delivered or refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fabricmon import __version__
from fabricmon.errors import ConfigError
from fabricmon.selfmon import Event
from fabricmon_exporters.http_client import refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fabricmon.api import Context
    from fabricmon_exporters.remote_write.queue import DiskQueue, Entry

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": f"fabricmon/{__version__}",
}
_MAX_BACKOFF_S = 30.0
_AGAIN = {401, 403, 404, 408, 429}
"""Refusals that somebody will repair: a renewed secret, a receiver that is being moved."""


class Sender:
    """A task that empties a queue into one receiver."""

    def __init__(
        self,
        queue: DiskQueue,
        url: str,
        context: Context,
        connect: Callable[[], Awaitable[Any]],
        headers: Callable[[], Mapping[str, str]],
    ) -> None:
        """`connect` gives an aiohttp session, `headers` what authenticates each request."""
        self._queue, self._url, self._context = queue, url, context
        self._connect, self._headers = connect, headers
        self._metrics = context.report.metrics
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._backoff_s = 0.0

    def wake(self) -> None:
        """There is something new. From any thread."""
        self._loop.call_soon_threadsafe(self._news.set)

    async def run(self) -> None:
        """Until cancelled."""
        session = await self._connect()
        try:
            while True:
                self._news.clear()
                waiting = await asyncio.to_thread(self._queue.oldest)
                if waiting is None:
                    await self._news.wait()
                    continue
                if not await self._deliver(session, *waiting):
                    self._backoff_s = min(max(self._backoff_s * 2, 0.5), _MAX_BACKOFF_S)
                    await self._context.clock.sleep(self._backoff_s)
        finally:
            await session.close()

    async def _deliver(self, session: Any, entry: Entry, body: bytes) -> bool:
        """Whether the entry is done with; otherwise it waits for the next try."""
        outcome, why, wait_s = await self._post(session, body) if body else ("refused", "lost", 0.0)
        if outcome == "later":
            self._context.report.emit(Event.EXPORT_FAILED, "remote_write", error=why)
            self._backoff_s = max(self._backoff_s, wait_s / 2)
            return False
        self._backoff_s = 0.0
        await asyncio.to_thread(self._queue.remove, entry)
        self._metrics.export_samples.labels("remote_write", outcome).inc(entry.samples)
        self._metrics.export_queue_bytes.labels("remote_write").set(self._queue.size)
        if outcome == "refused":
            self._context.report.emit(
                Event.EXPORT_DROPPED, "remote_write", samples=entry.samples, error=why
            )
        return True

    async def _post(self, session: Any, body: bytes) -> tuple[str, str, float]:
        """(outcome, why, seconds to wait at least)."""
        import aiohttp  # noqa: PLC0415 - 0.2 s that `check` must not pay

        try:
            headers = {**HEADERS, **self._headers()}
            async with session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                if answer.status < 300:
                    return "sent", "", 0.0
                why = await refusal(answer)
                if 400 <= answer.status < 500 and answer.status not in _AGAIN:
                    return "refused", why, 0.0
                after = answer.headers.get("Retry-After", "")
                return "later", why, min(float(after), 300.0) if after.isdigit() else 0.0
        except (aiohttp.ClientError, ConfigError, TimeoutError, OSError) as error:
            return "later", str(error) or type(error).__name__, 0.0
