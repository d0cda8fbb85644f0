"""Reading a Prometheus page: UFM's telemetry, or another InfiniBand exporter.

Where UFM owns the counters this avoids asking every switch twice. A page names ports by GUID and
number in labels whose spelling differs between exporters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fabricmon.errors import PollError, Reason
from fabricmon.formats.infiniband.tools import ibprom
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from fabricmon.api import Context, Credential
    from fabricmon.formats.base import BadRecord
    from fabricmon.formats.infiniband.ibtext import PortCounts

_MAX_BYTES = 512 << 20
_CHUNK = 1 << 20


class Endpoint:
    """One page."""

    def __init__(
        self, target: str, url: str, credential: Credential | None, context: Context
    ) -> None:
        """Nothing is fetched yet."""
        self._target, self._url, self._credential = target, url, credential
        self._report = context.report
        self._session: Any = None

    async def fetch(self) -> list[PortCounts]:
        """Every port the page tells of. Raises `PollError` where it tells of none."""
        text = await self._get()
        lines = text.splitlines()
        blocks = await asyncio.to_thread(lambda: list(ibprom.read(lines, self._bad, self._url)))
        if not blocks:
            raise PollError(Reason.NO_DATA, f"{self._url} tells of no InfiniBand port")
        return blocks

    async def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _get(self) -> str:
        import aiohttp  # noqa: PLC0415 - keeps construction light

        if self._session is None:
            self._session = aiohttp.ClientSession(auth=self._auth(aiohttp))
        try:
            async with self._session.get(self._url) as answer:
                if answer.status in {401, 403}:
                    raise PollError(Reason.AUTHENTICATION, f"{self._url}: HTTP {answer.status}")
                if answer.status != 200:
                    raise PollError(Reason.UNEXPECTED, f"{self._url}: HTTP {answer.status}")
                body = bytearray()
                async for part in answer.content.iter_chunked(_CHUNK):
                    body += part
                    if len(body) > _MAX_BYTES:
                        limit = f"{_MAX_BYTES >> 20} MiB"
                        raise PollError(Reason.LIMIT, f"{self._url}: the page is over {limit}")
        except aiohttp.ClientConnectorError as error:
            raise PollError(Reason.REFUSED, f"{self._url}: {error}") from error
        except aiohttp.ClientError as error:
            raise PollError(Reason.UNREACHABLE, f"{self._url}: {error}") from error
        return body.decode("utf-8", "replace")

    def _auth(self, aiohttp: Any) -> Any:
        credential = self._credential
        if credential is None or "password" not in credential.secrets:
            return None
        user = credential.options.get("username", "")
        return aiohttp.BasicAuth(user, credential.secrets["password"].reveal())

    def _bad(self, record: BadRecord) -> None:
        self._report.emit(Event.RECORD_SKIPPED, self._target, error=str(record))
