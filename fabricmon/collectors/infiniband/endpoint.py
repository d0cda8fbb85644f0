"""Reading a Prometheus page: UFM's telemetry, or another InfiniBand exporter.

Where UFM owns the counters this avoids asking every switch twice. A page names ports by GUID and
number in labels whose spelling differs between exporters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fabricmon.errors import PollError, Reason
from fabricmon.formats import promtext
from fabricmon.formats.ibtext import PortCounts, parse_guid
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.api import Context, Credential
    from fabricmon.formats.base import BadRecord

_MAX_BYTES = 512 << 20
_CHUNK = 1 << 20
_EXACT = 1 << 53
_WANTED = r"(?i)(infiniband_|port|symbol|link|excessive|vl15)"
_GUIDS = ("node_guid", "nodeguid", "local_guid", "guid", "port_guid", "portguid")
_PORTS = ("port_num", "port_number", "portnum", "portnumber", "local_port", "port")
_NAMES = ("node_description", "node_desc", "local_name", "switch", "node_name")


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
        blocks = await asyncio.to_thread(counts, text.splitlines(), self._bad, self._url)
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


def counts(lines: Iterable[str], bad: Any, file: str = "") -> list[PortCounts]:
    """Samples of a page by port. Samples without a port's GUID and number are left out.

    A float holds counts exactly up to 2^53; beyond, the last digits are the page's, not the port's.
    """
    ports: dict[tuple[int, int], PortCounts] = {}
    for sample in promtext.samples(lines, _WANTED, bad, file):
        labels = {key.lower(): value for key, value in sample.labels.items()}
        guid = _first(labels, _GUIDS)
        number = _first(labels, _PORTS)
        if not guid or not number.isdigit() or not 0 <= sample.value < _EXACT * 2048:
            continue
        try:
            key = (parse_guid(guid), int(number))
        except ValueError:
            continue
        port = ports.get(key)
        if port is None:
            name = _first(labels, _NAMES)
            port = ports[key] = PortCounts("prometheus", key[1], guid=key[0], name=name)
        port.values[sample.name.lower()] = int(sample.value)
    return list(ports.values())


def _first(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
