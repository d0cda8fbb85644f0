"""`/metrics` and `/probe`: pages of the exporter, gzipped where asked, with a cap on how many."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from aiohttp import web

from fabricmon.api import Page
from fabricmon.errors import PollError
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fabricmon.api import Context, PageSource
    from fabricmon.web.config import WebConfig
    from fabricmon.web.state import State

_CHUNK = 1 << 18
_SEND_S = 30.0
"""A client that has not read the page by then is cut off."""
_PROBE_HEAD = (
    b"# HELP fabricmon_probe_success 1 if the target gave something\n"
    b"# TYPE fabricmon_probe_success gauge\nfabricmon_probe_success "
)


class Scraping:
    """The handlers, and how many run."""

    def __init__(
        self, config: WebConfig, context: Context, state: State, source: PageSource | None
    ) -> None:
        """Store."""
        self._limit = config.max_concurrent_scrapes
        self._running = 0
        self._context = context
        self._state = state
        self._source = source

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """The scrape page."""
        if self._source is None:
            raise web.HTTPNotFound(text="no prometheus exporter is configured\n")
        query = {name: request.query.getall(name) for name in request.query}
        openmetrics = "application/openmetrics-text" in request.headers.get("Accept", "")
        return await self._slotted(request, self._page(query, openmetrics=openmetrics))

    async def _page(self, query: dict[str, list[str]], *, openmetrics: bool) -> Page:
        assert self._source is not None
        try:
            return await asyncio.to_thread(self._source.page, query, openmetrics=openmetrics)
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error

    async def probe(self, request: web.Request) -> web.StreamResponse:
        """One configured target, polled now. Names only: an address is never connected to."""
        target = request.query.get("target", "")
        if not target:
            raise web.HTTPBadRequest(text="which target? /probe?target=NAME\n")
        return await self._slotted(request, self._probe(target))

    async def _probe(self, target: str) -> Page:
        try:
            page = await self._state.probe(target)
        except LookupError as error:
            raise web.HTTPNotFound(
                text="not a configured target; /sd/targets lists them\n"
            ) from error
        except (PollError, TimeoutError):
            return Page(_PROBE_HEAD + b"0\n", "text/plain; version=0.0.4; charset=utf-8")
        return Page(_PROBE_HEAD + b"1\n" + page.body, page.content_type)

    async def _slotted(
        self, request: web.Request, work: Coroutine[None, None, Page]
    ) -> web.StreamResponse:
        """Run `work`, unless too many do already, and send its page.

        Who reads slowly holds a connection, but no slot: others are not refused for it.
        """
        if self._running >= self._limit:
            work.close()
            self._context.report.emit(Event.SCRAPE_REFUSED, request.path)
            raise web.HTTPServiceUnavailable(
                text="too many scrapes at once\n", headers={"Retry-After": "1"}
            )
        self._running += 1
        try:
            page = await work
        finally:
            self._running -= 1
        return await _send(request, page)


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header wants gzip: named, and not with a weight of zero."""
    for part in accepted.lower().split(","):
        name, _, weight = part.strip().partition(";")
        if name.strip() == "gzip":
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) is None
    return False


async def _send(request: web.Request, page: Page) -> web.StreamResponse:
    """In chunks, so that a slow reader holds a few of them and not a copy of the page."""
    gzip = page.gzipped is not None and takes_gzip(request.headers.get("Accept-Encoding", ""))
    body = page.gzipped if gzip and page.gzipped is not None else page.body
    headers = {"Content-Type": page.content_type, "Vary": "Accept-Encoding, Accept"}
    if gzip:
        headers["Content-Encoding"] = "gzip"
    if len(body) <= _CHUNK:
        return web.Response(body=body, headers=headers)
    response = web.StreamResponse(headers=headers)
    response.content_length = len(body)
    view = memoryview(body)
    async with asyncio.timeout(_SEND_S):
        await response.prepare(request)
        if request.method != "HEAD":
            for at in range(0, len(view), _CHUNK):
                await response.write(view[at : at + _CHUNK])
            await response.write_eof()
    return response
