"""The status page's files: read once from the package, served from memory with an ETag."""

from __future__ import annotations

import gzip
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING

from aiohttp import web

from fabricmon.web.scrape import takes_gzip

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from fabricmon.web.config import WebConfig

_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class _File:
    """One file, with its gzipped twin."""

    def __init__(self, name: str, body: bytes) -> None:
        suffix = name[name.rindex(".") :]
        self._type = _TYPES[suffix]
        self._body, self._packed = body, gzip.compress(body, 9)
        self._etag = f'"{blake2b(body, digest_size=12).hexdigest()}"'

    async def answer(self, request: web.Request) -> web.Response:
        """304 to a browser that has it; it asks each time, since the name stays the same."""
        headers = {"ETag": self._etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("If-None-Match") == self._etag:
            return web.Response(status=304, headers=headers)
        body = self._body
        if takes_gzip(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"], body = "gzip", self._packed
        return web.Response(body=body, content_type=self._type, charset="utf-8", headers=headers)


def static_routes(config: WebConfig) -> list[web.RouteDef]:
    """`/` and everything under `/static/`; a plain landing page where the page is turned off."""
    if not config.enable_status_page:
        return [web.get("/", _landing(config))]
    folder = files("fabricmon.web") / "static"
    routes = []
    for entry in folder.iterdir():
        if entry.name[entry.name.rfind(".") :] not in _TYPES:
            continue
        file = _File(entry.name, entry.read_bytes())
        path = "/" if entry.name == "index.html" else f"/static/{entry.name}"
        routes.append(web.get(path, file.answer))
    icon = next((route for route in routes if route.path == "/static/icon.svg"), None)
    if icon is not None:
        routes.append(web.get("/favicon.ico", icon.handler))
    return routes


def _landing(config: WebConfig) -> Handler:
    links = (config.telemetry_path, "/-/healthy", "/-/ready", "/sd/targets", "/api/v1/status")
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    text = f"<!doctype html><title>fabricmon</title><h1>fabricmon</h1><ul>{items}</ul>"

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html")

    return answer
