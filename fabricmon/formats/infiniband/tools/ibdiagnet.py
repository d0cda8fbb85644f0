"""What ibdiagnet leaves behind: `ibdiagnet2.db_csv` (nodes, ports, links, counters) and `.pm`.

db_csv is sections (`START_X`, header, rows, `END_X`) whose columns are only ever taken by name:
their order, and the case of their names, differ between versions and sections. Numbers are decimal
or hex as they please; `N/A`, `NA` and 0xfffffffffffffffe mean that there is none.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from fabricmon.formats.base import Bad, BadRecord
from fabricmon.formats.infiniband.ibfabric import AGGREGATION_NODE, IbFabric
from fabricmon.formats.infiniband.ibtext import PortCounts, parse_count, parse_guid
from fabricmon.formats.infiniband.mad import WIDTHS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CSV_GROUP, PM_GROUP = "ibdiagnet.csv", "ibdiagnet.pm"

_NO_VALUE = 0xFFFF_FFFF_FFFF_FFFE
_SPEEDS = {
    1: "SDR",
    2: "DDR",
    4: "QDR",
    1 << 8: "FDR",
    1 << 9: "EDR",
    1 << 10: "HDR",
    1 << 11: "NDR",
    1 << 16: "FDR10",
}
_NODE_TYPES = {1: "host", 2: "switch", 3: "router"}
_ACTIVE = 4
_BLOCK = re.compile(
    r"Port=(?P<port>\d{1,9})\s+Lid=(?P<lid>0x[0-9a-fA-F]+|\d{1,9})\s+GUID=(?P<guid>0x[0-9a-fA-F]+)"
    r"(?:\s+Device=(?P<device>\d{1,9}))?(?:\s+Port Name=(?P<name>.*))?"
)
_FIELD = re.compile(r"(?P<name>[a-z]\w*)=(?P<value>\S+)\s*$")


def sniff_csv(head: bytes) -> bool:
    """Whether this is a db_csv."""
    return re.search(rb"^START_[A-Z]", head, re.MULTILINE) is not None


def sniff_pm(head: bytes) -> bool:
    """Whether this is an ibdiagnet2.pm."""
    return re.search(rb"^Port=\d+ Lid=", head, re.MULTILINE) is not None


def read_csv(lines: Iterable[str], bad: Bad, file: str = "") -> tuple[IbFabric, list[PortCounts]]:
    """Shape and counters. A row that cannot be read is reported with its line, and skipped."""
    fabric = IbFabric()
    counts: list[PortCounts] = []
    takers: dict[str, Callable[[dict[str, str], int], None]] = {
        "NODES": lambda row, _: _node(fabric, row),
        "PORTS": lambda row, _: _port(fabric, row),
        "LINKS": lambda row, _: _link(fabric, row),
        "PM_INFO": lambda row, line: counts.append(_counts(row, line)),
    }
    section, header = "", list[str]()
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if line.startswith("START_"):
            section, header = line.removeprefix("START_"), []
        elif line.startswith("END_"):
            section = ""
        elif line and section in takers:
            cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
            if not header:
                header = [cell.lower() for cell in cells]
                continue
            try:
                takers[section](dict(zip(header, cells, strict=True)), number)
            except (ValueError, KeyError) as error:
                bad(BadRecord(file, number, f"{section}: {error}"))
    _finish(fabric)
    return fabric, counts


def _number(row: dict[str, str], *names: str) -> int:
    for name in names:
        if name in row:
            return parse_count(row[name]) or 0
    return 0


def _node(fabric: IbFabric, row: dict[str, str]) -> None:
    node = fabric.node(parse_guid(row["nodeguid"]))
    node.description = row.get("nodedesc", "").strip('"')
    node.kind = _NODE_TYPES.get(_number(row, "nodetype"), "host")
    if node.description.strip() == AGGREGATION_NODE:
        node.kind = "aggregation"
    node.system_guid = _number(row, "systemimageguid")
    node.port_count = _number(row, "numports")
    node.device_id, node.vendor_id = _number(row, "deviceid"), _number(row, "vendorid")


def _port(fabric: IbFabric, row: dict[str, str]) -> None:
    node = fabric.node(parse_guid(row["nodeguid"]))
    number = _number(row, "portnum", "portnumber")
    lid = _number(row, "lid")
    if number == 0:
        node.lid = lid
        return
    port = node.port(number)
    port.lid, port.guid = lid, _number(row, "portguid")
    port.width = WIDTHS.get(_number(row, "linkwidthactv"), "???")
    port.speed = _SPEEDS.get(_number(row, "linkspeedactv"), "???")
    port.up = _number(row, "portstate") == _ACTIVE


def _link(fabric: IbFabric, row: dict[str, str]) -> None:
    a = (parse_guid(row["nodeguid1"]), _number(row, "portnum1"))
    b = (parse_guid(row["nodeguid2"]), _number(row, "portnum2"))
    for guid, number in (a, b):
        fabric.node(guid).port(number)
    fabric.connect(a, b)


def _counts(row: dict[str, str], line: int) -> PortCounts:
    counts = PortCounts(
        CSV_GROUP,
        _number(row, "portnumber", "portnum"),
        guid=parse_guid(row["nodeguid"]),
        line=line,
    )
    for name, text in row.items():
        if name not in {"nodeguid", "portguid", "portnumber", "portnum"}:
            _take(counts, name, text)
    return counts


def _take(counts: PortCounts, name: str, text: str) -> None:
    """One value; what has none is left out, which is missing and not zero."""
    try:
        value = parse_count(text)
    except ValueError:
        return  # rates with decimals and words stand among the counters
    if value is not None and value != _NO_VALUE:
        counts.values[name] = value


def _finish(fabric: IbFabric) -> None:
    for node in fabric.nodes.values():
        node.kind = node.kind or ("switch" if len(node.ports) > 1 else "host")
        node.port_count = max([node.port_count, *node.ports])


def read_pm(lines: Iterable[str], bad: Bad, file: str = "") -> Iterator[PortCounts]:
    """Every port's block. A line that cannot be read is reported and costs that one value."""
    block: PortCounts | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        head = _BLOCK.match(line)
        if head is not None:
            if block is not None and block.values:
                yield block
            block = _begin(head, BadRecord(file, number, ""), bad)
            continue
        field = _FIELD.match(line)
        if field is None or block is None:
            continue
        try:
            value = parse_count(field["value"])
        except ValueError:
            bad(BadRecord(file, number, f"{field['name']} is no count: {field['value'][:40]!r}"))
            continue
        if value is not None and value != _NO_VALUE:
            block.values[field["name"]] = value
    if block is not None and block.values:
        yield block


def _begin(head: re.Match[str], place: BadRecord, bad: Bad) -> PortCounts | None:
    try:
        guid = parse_guid(head["guid"])
        port, lid, device = (parse_count(head[key] or "") or 0 for key in ("port", "lid", "device"))
    except ValueError as error:
        bad(BadRecord(place.file, place.line, str(error)))
        return None
    return PortCounts(
        PM_GROUP,
        port,
        guid=guid,
        lid=lid,
        device_id=device,
        name=(head["name"] or "").rpartition("/")[0],
        line=place.line,
    )
