"""ibnetdiscover's text, plain and `-p`: nodes, ports and cables of one subnet.

Names in it are free text (quotes, brackets, dashes and all), so a line is cut at the fields before
the name first. Lines of the tools' stderr, which cron jobs mix in, tell which direct-route paths
did not answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats.base import Bad, BadRecord
from fabricmon.formats.infiniband.ibfabric import AGGREGATION_NODE, IbFabric, IbNode, IbPort

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS = {"Switch": "switch", "SW": "switch", "Ca": "host", "CA": "host", "Rt": "router"}
_KINDS["RT"] = "router"
_SPEED = r"(?P<width>\d{1,3}[xX]|\?\?)\s*(?P<speed>[A-Z]{3}(?:10)?|\?\?\?)"

_ID = re.compile(r"(?P<key>vendid|devid|sysimgguid)=0x(?P<value>[0-9a-fA-F]+)")
_NODE = re.compile(
    r"(?P<type>Switch|Ca|Rt)\s+(?P<ports>\d{1,9})\s+\"[SHR]-(?P<guid>[0-9a-fA-F]{16})\"\s*#\s*"
    r"\"(?P<name>.*)\"(?:\s+(?:base|enhanced) port 0 lid (?P<lid>\d{1,9}) lmc \d+)?\s*$"
)
_PORT = re.compile(
    r"\[(?P<port>\d{1,9})\](?:\[ext \d+\])?(?:\((?P<own>[0-9a-fA-F]+)\))?\s+"
    r"\"[SHR]-(?P<peer>[0-9a-fA-F]{16})\"\[(?P<peer_port>\d{1,9})\](?:\[ext \d+\])?"
    r"(?:\((?P<peer_guid>[0-9a-fA-F]+)\))?\s*#\s*(?:lid (?P<lid>\d{1,9}) lmc \d+\s+)?"
    r"\"(?P<name>.*)\"\s+lid (?P<peer_lid>\d{1,9})\s+" + _SPEED
)
_PLAIN = re.compile(
    r"^# Topology file: generated|^Switch\t\d+ \"S-|^Ca\t\d+ \"H-"
    r"|; umad \(DR path|^ibnetdiscover: iberror",
    re.MULTILINE,
)
_ROOT = re.compile(r"# Initiated from node (?P<guid>[0-9a-fA-F]+) port")
_PAIR = re.compile(
    r"(?P<type>CA|SW|RT)\s+(?P<lid>\d{1,9})\s+(?P<port>\d{1,9})\s+0x(?P<guid>[0-9a-fA-F]{16})\s+"
    r"(?P<width>\d{1,3}[xX]|\?\?)\s+(?P<speed>\S+)"
    r"(?:\s+-\s+(?P<peer_type>CA|SW|RT)\s+(?P<peer_lid>\d{1,9})\s+(?P<peer_port>\d{1,9})\s+"
    r"0x(?P<peer>[0-9a-fA-F]{16})\s+\( (?P<names>'.*') \)|\s+(?P<name>'.*'))\s*$"
)
_SILENT = re.compile(r"umad \(DR path .*; (?P<path>[\d,]+) Attr 0x[0-9a-fA-F]+:\d+\) bad status")
_NO_PORT = re.compile(r"can't open MAD port|client_register .*failed|iberror: failed: (?P<why>.+)")


def sniff(head: bytes) -> bool:
    """Whether this is ibnetdiscover output, plain or `-p`, or only its complaints."""
    text = head.decode("latin-1")
    if _PLAIN.search(text) is not None:
        return True
    return any(_PAIR.match(line) for line in text.splitlines()[:40])


def failure(stderr: str) -> str:
    """Why the tool could not even begin, in words for people, or empty."""
    for line in stderr.splitlines():
        match = _NO_PORT.search(line)
        if match is not None:
            if match["why"] is None:
                return "this host has no usable InfiniBand port (is its link layer Ethernet?)"
            return match["why"]
    return ""


def silent_paths(lines: Iterable[str]) -> list[str]:
    """Direct-route paths that did not answer, as told on stderr."""
    found = (_SILENT.search(line) for line in lines)
    return list(dict.fromkeys(match["path"] for match in found if match is not None))


def read(lines: Iterable[str], bad: Bad, file: str = "") -> IbFabric:
    """One discovery. A line that looks like a node or a port and is none is reported, alone."""
    return _Reader(bad, file).read(lines)


class _Reader:
    """Keeps the node whose ports are being listed."""

    def __init__(self, bad: Bad, file: str) -> None:
        self._bad, self._file = bad, file
        self._fabric = IbFabric()
        self._ids: dict[str, int] = {}
        self._node: IbNode | None = None

    def read(self, lines: Iterable[str]) -> IbFabric:
        for number, raw in enumerate(lines, 1):
            line = raw.rstrip("\r\n")
            if line and not self._line(line):
                self._bad(BadRecord(self._file, number, f"cannot be read: {line[:80]!r}"))
            why = failure(line)
            if why:
                self._bad(BadRecord(self._file, number, why))
        return self._fabric

    def _line(self, line: str) -> bool:
        """Whether the line was understood, or is none of ours."""
        if line[0] == "[":
            return line.startswith("[rc=") or self._port(line)
        match = _ID.match(line)
        if match is not None:
            self._ids[match["key"]] = int(match["value"], 16)
            return True
        match = _NODE.match(line)
        if match is not None:
            self._begin(match)
            return True
        match = _PAIR.match(line)
        if match is not None:
            self._pair(match)
            return True
        return self._remark(line)

    def _remark(self, line: str) -> bool:
        match = _ROOT.match(line)
        if match is not None:
            self._fabric.root = int(match["guid"], 16)
        self._fabric.unreachable += silent_paths([line])
        begins_record = line.startswith(("Switch\t", "Ca\t", "Rt\t", "CA ", "SW ", "RT "))
        if begins_record:
            self._node = None  # its ports must not be given to the node before
        return not begins_record

    def _begin(self, match: re.Match[str]) -> None:
        guid = int(match["guid"], 16)
        self._node = node = self._fabric.node(guid)
        node.kind = _kind(match["type"], match["name"])
        node.description = match["name"]
        node.port_count = int(match["ports"])
        node.lid = int(match["lid"] or 0)
        node.vendor_id = self._ids.get("vendid", 0)
        node.device_id = self._ids.get("devid", 0)
        node.system_guid = self._ids.get("sysimgguid", 0)
        self._ids = {}

    def _port(self, line: str) -> bool:
        match = _PORT.match(line)
        if match is None:
            return False
        if self._node is None:
            return False
        port = self._node.port(int(match["port"]))
        port.peer = (int(match["peer"], 16), int(match["peer_port"]))
        port.up, port.width, port.speed = True, match["width"].lower(), match["speed"]
        port.guid = int(match["own"] or "0", 16)
        if match["lid"]:
            port.lid = int(match["lid"])
        return True

    def _pair(self, match: re.Match[str]) -> None:
        names = _split_names(match["names"]) if match["names"] else (match["name"][1:-1], "")
        port = self._end(match, "", names[0])
        port.width = match["width"].lower()
        port.speed = match["speed"]
        port.up = match["peer"] is not None
        if match["peer"] is None:
            return
        far = self._end(match, "peer_", names[1])
        port.peer = (int(match["peer"], 16), far.number)
        if far.peer is None:
            far.peer, far.up = (int(match["guid"], 16), port.number), True
            far.width, far.speed = port.width, port.speed

    def _end(self, match: re.Match[str], side: str, name: str) -> IbPort:
        guid = int(match[side[:-1] if side else "guid"], 16)
        kind = _kind(match[f"{side}type"], name)
        node = self._fabric.node(guid, kind)
        node.description = node.description or name
        port = node.port(int(match[f"{side}port"]))
        lid = int(match[f"{side}lid"])
        if kind == "switch":
            node.lid = lid
            node.port_count = max(node.port_count, port.number)
        else:
            port.lid, port.guid = lid, guid
        return port


def _kind(word: str, name: str) -> str:
    if name.strip() == AGGREGATION_NODE:
        return "aggregation"
    return _KINDS[word]


def _split_names(text: str) -> tuple[str, str]:
    """`'a' - 'b'` cut where both halves are quoted; names may hold quotes and dashes themselves.

    With several possible cuts the middle one is taken: names only label, GUIDs identify.
    """
    cuts = [m.start() for m in re.finditer(r"' - '", text)]
    cut = cuts[len(cuts) // 2] if cuts else len(text) - 1
    return text[1:cut], text[cut + 5 : -1]


def write(fabric: IbFabric) -> Iterable[str]:
    """The plain form, as ibnetdiscover prints it, one line at a time without line ends."""
    yield "#"
    yield "# Topology file: generated by fabricmon"
    yield "#"
    yield f"# Initiated from node {fabric.root:016x} port {fabric.root:016x}"
    for node in fabric.nodes.values():
        yield ""
        yield f"vendid=0x{node.vendor_id:x}"
        yield f"devid=0x{node.device_id:x}"
        yield f"sysimgguid=0x{node.system_guid:x}"
        yield from _write_node(fabric, node)


def _write_node(fabric: IbFabric, node: IbNode) -> Iterable[str]:
    switch = node.kind == "switch"
    letter, word = ("S", "Switch") if switch else ("H", "Ca")
    yield f"{'switch' if switch else 'ca'}guid=0x{node.guid:x}" + (
        f"({node.guid:x})" if switch else ""
    )
    tail = f" enhanced port 0 lid {node.lid} lmc 0" if switch else ""
    yield f'{word}\t{node.port_count} "{letter}-{node.guid:016x}"\t\t# "{node.description}"{tail}'
    for port in sorted(node.ports.values(), key=lambda p: p.number):
        if port.peer is None or port.peer[0] not in fabric.nodes:
            continue
        far = fabric.nodes[port.peer[0]]
        far_port = far.port(port.peer[1])
        own = "" if switch else f"({port.guid:x})"
        lid = "" if switch else f" lid {port.lid} lmc 0"
        far_switch = far.kind == "switch"
        peer = f'"{"S" if far_switch else "H"}-{far.guid:016x}"[{far_port.number}]'
        peer += "" if far_switch else f"({far_port.guid:x})"
        far_lid = far.lid if far_switch else far_port.lid
        speed = f"{port.width}{port.speed}"
        yield f'[{port.number}]{own}\t{peer}\t\t#{lid} "{far.description}" lid {far_lid} {speed}'
