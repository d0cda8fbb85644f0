"""iblinkinfo's text, by node and one line per link (`-l`): cables, speeds and states.

Rows without a peer's GUID name it by LID, which is resolved once everything has been read. The line
form does not say what a node is: one with a single port is taken for an adapter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fabricmon.formats.base import Bad, BadRecord
from fabricmon.formats.infiniband.ibfabric import AGGREGATION_NODE, IbFabric, IbNode, speed_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_CA = re.compile(r"CA: (?P<name>.*):\s*$")
_SWITCH = re.compile(r"Switch: 0x(?P<guid>[0-9a-fA-F]+) (?P<name>.*):\s*$")
_ROW = re.compile(
    r"\s*(?:0x(?P<guid>[0-9a-fA-F]+) )?\s*(?:\"(?P<name>.*)\"\s+)?"
    r"(?P<lid>\d{1,9})\s+(?P<port>\d{1,9})\[\s*\] ==\(\s*"
    r"(?:(?P<width>\d{1,3}X)\s+(?P<gbps>[\d.]+) Gbps)?\s*(?P<state>\w+)/\s*\w*\s*\)==>"
    r"(?P<far>.*)$"
)
_FAR = re.compile(
    r"\s+(?:0x(?P<guid>[0-9a-fA-F]+)\s+)?(?P<lid>\d{1,9})\s+(?P<port>\d{1,9})\[\s*\]"
    r" \"(?P<name>.*)\" \("
)
_OURS = re.compile(r"==\(.*/.*\)==>")


def sniff(head: bytes) -> bool:
    """Whether this is iblinkinfo output; ibqueryerrors prints such rows too, after its own."""
    text = head.decode("latin-1")
    return _OURS.search(text) is not None and "Link info:" not in text


class _Cable(NamedTuple):
    """One row's far end, to be resolved."""

    near: tuple[int, int]
    guid: int
    lid: int
    port: int
    name: str


def read(lines: Iterable[str], bad: Bad, file: str = "") -> IbFabric:
    """The fabric. A row that cannot be read is reported, alone."""
    fabric = IbFabric()
    cables: list[_Cable] = []
    switch: IbNode | None = None
    name = ""
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")
        header = _SWITCH.match(line)
        if header is not None:
            switch = fabric.node(int(header["guid"], 16), "switch")
            switch.description = header["name"]
            continue
        header = _CA.match(line)
        if header is not None:
            switch, name = None, header["name"]
            continue
        if "==(" not in line:
            continue
        row = _ROW.match(line)
        if row is None or (row["guid"] is None and (switch is None or row["name"] is not None)):
            bad(BadRecord(file, number, f"cannot be read: {line.strip()[:80]!r}"))
            continue
        cables += _take(fabric, row, switch, name)
    _settle(fabric, cables)
    return fabric


def _take(fabric: IbFabric, row: re.Match[str], switch: IbNode | None, name: str) -> list[_Cable]:
    in_lines = row["name"] is not None
    node = switch
    if node is None or in_lines or row["guid"] is not None:
        node = fabric.node(int(row["guid"], 16), "" if in_lines else "host")
        node.description = (row["name"] if in_lines else name).strip()
    port = node.port(int(row["port"]))
    port.lid = int(row["lid"])
    port.guid = node.guid
    port.up = row["state"] == "Active"
    port.width = (row["width"] or "").lower()
    port.speed = speed_name(row["gbps"] or "") or "???"
    far = _FAR.match(row["far"])
    if far is None:
        return []
    guid = int(far["guid"], 16) if far["guid"] else 0
    near = (node.guid, port.number)
    return [_Cable(near, guid, int(far["lid"]), int(far["port"]), far["name"])]


def _settle(fabric: IbFabric, cables: list[_Cable]) -> None:
    """Say what each node is, and connect the cables to it."""
    for cable in cables:
        if cable.guid and cable.guid not in fabric.nodes:
            far = fabric.node(cable.guid)
            far.description = cable.name.strip()
            far.port(cable.port).lid = cable.lid
    for node in fabric.nodes.values():
        if not node.kind:
            node.kind = "switch" if len(node.ports) > 1 else "host"
        if node.description == AGGREGATION_NODE:
            node.kind = "aggregation"
        if node.kind == "switch":
            node.lid = next((port.lid for port in node.ports.values()), 0)
            node.port_count = max(node.ports, default=0)
    by_lid = fabric.by_lid()
    for cable in cables:
        far_node = fabric.nodes.get(cable.guid) or by_lid.get(cable.lid)
        if far_node is not None:
            fabric.connect(cable.near, (far_node.guid, cable.port))
