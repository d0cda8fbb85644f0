"""Who may ask, how often, and what a browser may do with the answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

    from fabricmon.clock import Clock
    from fabricmon.web.webfile import WebFile


USER = web.RequestKey("user", str)
"""Who asks: the name that was authenticated. Absent where nobody has to be."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOBODY = b"$2b$10$CwTycUXWue0Thq9StjUM0uJ8s5Xl1eqQxSAFNbbXjZVXo2Qw3yV5W"
"""A hash that no password has: an unknown name takes as long to refuse as a wrong password."""
_MAX_CACHED = 100


class Gate:
    """The middleware in front of everything."""

    def __init__(self, file: WebFile, clock: Clock) -> None:
        """Follow `file`."""
        self._file = file
        self._clock = clock
        self._known: OrderedDict[bytes, bool] = OrderedDict()
        self._checking = asyncio.Semaphore(2)
        self._tokens: float | None = None
        self._filled_at = 0.0

    @property
    def authenticates(self) -> bool:
        """Whether callers have to show who they are."""
        tls = self._file.config.tls_server_config
        mutual = tls is not None and tls.client_auth_type == "RequireAndVerifyClientCert"
        return mutual or bool(self._file.config.basic_auth_users)

    def middleware(self) -> Middleware:
        """For `aiohttp`."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._file.refresh()
            refused = self._too_fast() or await self._stranger(request)
            response = refused if refused is not None else await handler(request)
            if not response.prepared:
                self.dress(response)
            return response

        return guard

    def dress(self, response: web.StreamResponse) -> None:
        """Put the security headers on."""
        for name, value in {**_HEADERS, **self._file.config.http_server_config.headers}.items():
            response.headers.setdefault(name, value)

    def _too_fast(self) -> web.Response | None:
        """A token bucket over all clients, as exporter-toolkit has it."""
        limit = self._file.config.rate_limit
        interval = limit.interval_s()
        if interval <= 0:
            return None
        now = self._clock.monotonic()
        if self._tokens is None:
            self._tokens, self._filled_at = float(limit.burst), now
        self._tokens = min(self._tokens + (now - self._filled_at) / interval, float(limit.burst))
        self._filled_at = now
        if self._tokens < 1:
            return web.Response(status=429, text="Too Many Requests\n")
        self._tokens -= 1
        return None

    async def _stranger(self, request: web.Request) -> web.Response | None:
        """401 for a caller without a right name and password; else note who it is."""
        users = self._file.config.basic_auth_users
        tls = self._file.config.tls_server_config
        allowed = set(tls.client_allowed_sans) if tls is not None else set()
        if allowed and not allowed & _certificate_sans(request):
            return web.Response(status=403, text="Forbidden\n")
        if not users:
            if self.authenticates:
                request[USER] = _certificate_name(request)
            return None
        name, password = _credentials(request.headers.get("Authorization", ""))
        if await self._is_right(name, password, users.get(name)):
            request[USER] = name
            return None
        return web.Response(
            status=401, text="Unauthorized\n", headers={"WWW-Authenticate": "Basic"}
        )

    async def _is_right(self, name: str, password: bytes, hashed: str | None) -> bool:
        stored = hashed.encode() if hashed is not None else _NOBODY
        key = hashlib.sha256(b"\0".join((name.encode(), password, stored))).digest()
        known = self._known.get(key)
        if known is None:
            async with self._checking:
                known = await asyncio.to_thread(_matches, password, stored)
            self._known[key] = known
            if len(self._known) > _MAX_CACHED:
                self._known.popitem(last=False)
        return known and hashed is not None


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt  # noqa: PLC0415 - only where passwords are used

    try:
        return bcrypt.checkpw(password[:72], hashed)  # bcrypt itself looks no further
    except ValueError:
        return False


def _credentials(header: str) -> tuple[str, bytes]:
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        name, _, password = base64.b64decode(rest, validate=True).partition(b":")
        return name.decode("utf-8"), password
    except (binascii.Error, UnicodeDecodeError):
        return "", b""


def _certificate_name(request: web.Request) -> str:
    """The common name of the client's certificate."""
    certificate = request.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return "certificate"


def _certificate_sans(request: web.Request) -> set[str]:
    """Every alternative name of the client's certificate."""
    certificate = request.get_extra_info("peercert") or {}
    return {str(value) for _, value in certificate.get("subjectAltName", ())}
