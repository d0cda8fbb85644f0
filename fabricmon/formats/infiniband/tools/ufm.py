"""UFM's telemetry (collectx): CSV and JSON samples, one row per port and time.

Rows name a port by node GUID and number; cumulative counters carry the names of ibdiagnet
(`PortXmitDataExtended`). Times are microseconds since the epoch.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import orjson

from fabricmon.formats.base import Bad, BadRecord
from fabricmon.formats.infiniband.ibtext import PortCounts, parse_count, parse_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GROUP = "ufm"
_GUIDS = ("node_guid", "nodeguid", "port_guid", "portguid")
_PORTS = ("port_num", "port_number", "portnum", "portnumber")
_TIMES = ("timestamp", "sample_time")
_LABELS = frozenset({*_GUIDS, *_PORTS, *_TIMES, "source_id", "port_label", "tag"})


def sniff(head: bytes) -> bool:
    """Whether this is telemetry of UFM: its key columns stand in a CSV header or a JSON object."""
    first = head.lstrip()[:4096].split(b"\n", 1)[0].lower()
    if first[:1] in b"[{" and first:
        text = head[:4096].lower()
        return b'"node_guid"' in text and b'"port_num' in text
    cells = {cell.strip().strip(b'"') for cell in first.split(b",")}
    return bool(cells & {b"node_guid", b"nodeguid"}) and bool(
        cells & {b"port_num", b"port_number", b"portnum", b"portnumber"}
    )


def read(text: str, bad: Bad, file: str = "") -> Iterator[tuple[int, PortCounts]]:
    """(time in ns since the epoch or 0, counts) of every row. Bad rows are reported and skipped."""
    is_json = text.lstrip()[:1] in {"[", "{"}
    rows = _json_rows(text, bad, file) if is_json else _csv_rows(text, bad, file)
    for number, row in rows:
        try:
            yield _counts({key.strip().lower(): value for key, value in row.items()}, number)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            bad(BadRecord(file, number, f"no port's sample: {error}"))


def _csv_rows(text: str, bad: Bad, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = csv.DictReader(text.splitlines(), skipinitialspace=True, restkey="")
    try:
        for row in lines:
            yield lines.line_num, row
    except csv.Error as error:
        bad(BadRecord(file, lines.line_num, f"no CSV: {error}"))


def _json_rows(text: str, bad: Bad, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of an array, of an object's first array, or one a line."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        yield from _json_lines(text.splitlines(), bad, file)
        return
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if lists else [document]
    yield from enumerate(document, 1)


def _json_lines(lines: Iterable[str], bad: Bad, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, orjson.loads(line)
        except orjson.JSONDecodeError as error:
            bad(BadRecord(file, number, f"no JSON: {error}"))


def _counts(row: dict[str, Any], line: int) -> tuple[int, PortCounts]:
    guid, port, time = (
        next((str(row[key]) for key in keys if row.get(key) not in {None, ""}), "")
        for keys in (_GUIDS, _PORTS, _TIMES)
    )
    counts = PortCounts(GROUP, int(port, 0), guid=parse_guid(guid), line=line)
    for key, value in row.items():
        if key and key not in _LABELS and isinstance(value, str | int):
            try:
                count = parse_count(str(value))
            except ValueError:
                continue  # rates, ratios and names stand among the counters
            if count is not None:
                counts.values[key] = count
    return int(float(time or 0)) * 1000, counts
