"""SONiC's `show` tables: PFC, PFC history, queue and WRED counters, as text and as JSON.

After `sonic-clear` these print what was counted since, not the counters themselves; hence their
mapping marks them as estimates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GAP = re.compile(r"\s{2,}")
_QUEUE = re.compile(r"^[A-Z]{0,4}(\d+)$")
_PORT = re.compile(r"^\S*[A-Za-z]\S*\d\S*$")
JSON_FIELDS = frozenset(
    {"totalpacket", "totalbytes", "droppacket", "dropbytes", "ecnmarkedpacket", "wreddroppacket"}
)
"""What the JSON form of a queue holds; the rest is derived."""


class Tables:
    """Reads tables line by line; what a row means stands in the header above it."""

    def __init__(self) -> None:
        """No header yet."""
        self._header: list[str] = []

    def is_header(self, text: str) -> bool:
        """Whether a line is the header of a known table; remembered if so."""
        cells = _GAP.split(text.strip())
        known = cells[0] in ("Port Rx", "Port Tx") or (
            cells[0] in ("Port", "TxQ") and len(cells) > 2
        )
        if known:
            self._header = cells
        return known

    def row(self, text: str) -> list[tuple[str, dict[str, str], str]] | None:
        """Path, keys and value of every cell of a row; None where no known table is open."""
        cells = _GAP.split(text.strip())
        if not self._header or len(cells) != len(self._header):
            return None
        if self._header[0] == "TxQ" or not _PORT.match(cells[0]):
            return []  # totals over all ports
        port = cells[0].rpartition("|")[2]
        return list(self._cells(port, cells))

    def _cells(self, port: str, cells: list[str]) -> Iterator[tuple[str, dict[str, str], str]]:
        first = self._header[0]
        if first in ("Port Rx", "Port Tx"):
            for title, cell in zip(self._header[1:], cells[1:], strict=True):
                keys = {"pfc_port": port, "pfc_priority": title.removeprefix("PFC")}
                yield f"/show/pfc/{first[5:].lower()}", keys, _plain(cell)
            return
        queue = _QUEUE.match(cells[1])
        if queue is None:
            return
        for title, cell in zip(self._header[2:], cells[2:], strict=True):
            name = title.lower().replace(" ", "-")
            yield f"/show/queue/{name}", {"queue_port": port, "queue_index": queue[1]}, _plain(cell)


def is_json(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object is `show … -j`: ports, queues, and their counters."""
    for queues in document.values():
        if isinstance(queues, dict):
            for fields in queues.values():
                if isinstance(fields, dict) and fields.keys() & JSON_FIELDS:
                    return True
    return False


def json_values(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], str]]:
    """Path, keys and value of every counter of the JSON form."""
    for port, queues in document.items():
        for name, fields in queues.items() if isinstance(queues, dict) else ():
            queue = _QUEUE.match(name)
            if queue is None or not isinstance(fields, dict):
                continue
            keys = {"queue_port": port.rpartition("|")[2], "queue_index": queue[1]}
            for field in JSON_FIELDS & fields.keys():
                yield f"/show/queue/{field}", keys, _plain(str(fields[field]))


def _plain(cell: str) -> str:
    """A number without its thousands separators; `N/A` as it is."""
    return cell.replace(",", "")
