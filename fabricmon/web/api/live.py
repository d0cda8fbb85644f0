"""Server-sent events: one short line per tick; the page then asks for what it shows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

if TYPE_CHECKING:
    from fabricmon.web.security import Gate

_MAX_LISTENERS = 64
_KEEPALIVE_S = 15.0
_BEHIND = 16
"""A listener that is that many events behind loses the oldest."""


class Live:
    """Who listens, and how to tell them."""

    def __init__(self, gate: Gate) -> None:
        """Nobody listens yet. Made on the event loop."""
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._listeners: set[asyncio.Queue[bytes | None]] = set()

    def announce(self, event: dict[str, Any]) -> None:
        """Tell everybody. From any thread."""
        text = b"data: " + orjson.dumps(event) + b"\n\n"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, text)

    def _put(self, text: bytes | None) -> None:
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(text)

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._put(None)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """`/api/v1/events`."""
        if len(self._listeners) >= _MAX_LISTENERS:
            raise web.HTTPServiceUnavailable(
                text="too many listeners\n", headers={"Retry-After": "10"}
            )
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        self._gate.dress(response)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BEHIND)
        self._listeners.add(queue)
        try:
            await response.prepare(request)
            await response.write(b"retry: 2000\n\n")
            while (text := await _next(queue)) is not None:
                await response.write(text)
        finally:
            self._listeners.discard(queue)
        return response


async def _next(queue: asyncio.Queue[bytes | None]) -> bytes | None:
    """The next event; a comment now and then shows the client that we are there."""
    try:
        async with asyncio.timeout(_KEEPALIVE_S):
            return await queue.get()
    except TimeoutError:
        return b": still here\n\n"
