"""Who is cabled to whom, from files made for other tools.

`lldpctl -f json` (what is, at one host), containerlab's `*.clab.yml`, and the `topology.dot` of
NVIDIA's PTM (what should be).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fabricmon import yamlfile
from fabricmon.errors import ConfigError, FormatError
from fabricmon.model.topology import Link, Node, PortId, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_BYTES = 64 << 20
_COMMENT = re.compile(r"/\*(?:.*?\*/|.*)|(?://|#)[^\n]*", re.DOTALL)
"""One that is not closed reaches to the end, so that no opening is looked at twice."""
_DOT_START = re.compile(r"\s*(?:strict\s+)?(?:di)?graph\b")
_DOT_EDGE = re.compile(
    r'(?P<a>"[^"\n]+"|(?<![\w.-])[\w.-]{1,255})\s*:\s*(?P<ap>"[^"\n]+"|[\w./-]{1,255})\s*--\s*'
    r'(?P<b>"[^"\n]+"|[\w.-]{1,255})\s*:\s*(?P<bp>"[^"\n]+"|[\w./-]{1,255})'
)
_HOST_WORDS = ("host", "server", "gpu", "node", "linux")


def sniff(head: bytes) -> bool:
    """Whether a file beginning like this is one of the three."""
    text = head.decode("utf-8", "replace").lstrip()
    return (
        ('"lldp"' in text and text[:1] == "{")
        or bool(_DOT_START.match(_COMMENT.sub("", text)))
        or ("topology:" in text and "nodes:" in text)
    )


def read(text: str, *, file: str = "", device: str = "") -> Topology:
    """The cables a file names. `device` is where `lldpctl` was run. Raises `FormatError`."""
    if len(text) > _MAX_BYTES:
        raise FormatError("too large to be a plan of cables", file=file)
    start = text.lstrip()
    if start[:1] == "{":
        return lldpctl(text, device=device, file=file)
    if _DOT_START.match(_COMMENT.sub("", start)):
        return ptm_dot(text)
    return containerlab(text, file=file)


def lldpctl(text: str, *, device: str, file: str = "") -> Topology:
    """What `lldpctl -f json` says at `device`; both of its layouts (`json` and `json0`)."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", file=file) from error
    links = []
    for port, entry in _interfaces(document):
        peer, peer_port = _neighbour(entry)
        if peer and peer_port:
            links.append(Link(PortId(device, port), PortId(peer, peer_port)))
    nodes = [Node(device, "host")]
    nodes += [Node(name, "switch") for name in sorted({link.b.device for link in links})]
    return Topology(tuple(nodes), tuple(links))


def _interfaces(document: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    found = document.get("lldp") if isinstance(document, dict) else None
    for block in found if isinstance(found, list) else [found]:
        interfaces = block.get("interface") if isinstance(block, dict) else None
        for entry in interfaces if isinstance(interfaces, list) else [interfaces]:
            if not isinstance(entry, dict):
                continue
            if isinstance(entry.get("name"), str):  # json0
                yield entry["name"], entry
            else:
                yield from ((k, v) for k, v in entry.items() if isinstance(v, dict))


def _neighbour(entry: dict[str, Any]) -> tuple[str, str]:
    chassis = _first(entry.get("chassis"))
    name = _text(chassis.get("name"))
    if not name and len(chassis) == 1:
        name, inner = next(iter(chassis.items()))
        name = "" if name == "id" or not isinstance(inner, dict) else name
    port = _first(entry.get("port"))
    identifier = _first(port.get("id"))
    port_name = _text(identifier.get("value"))
    if identifier.get("type") not in ("ifname", "ifalias", "local"):
        port_name = _text(port.get("descr")) or port_name
    return name, port_name


def _first(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        value = value[0] if value else {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        value = value.get("value", "")
    return str(value) if isinstance(value, str | int) else ""


def ptm_dot(text: str) -> Topology:
    """The edges of PTM's Graphviz file: `"leaf1":"swp1" -- "spine1":"swp3"`."""
    links = []
    for found in _DOT_EDGE.finditer(_COMMENT.sub("", text)):
        a, ap, b, bp = (found[name].strip('"') for name in ("a", "ap", "b", "bp"))
        links.append(Link(PortId(a, ap), PortId(b, bp)))
    return _with_nodes(links, hosts=set())


def containerlab(text: str, *, file: str = "") -> Topology:
    """The links of a containerlab topology. Raises `FormatError`."""
    try:
        document = yamlfile.loads(text, file=file)
    except ConfigError as error:
        raise FormatError(error.message, file=file, line=error.line) from error
    topology = document.data.get("topology") if isinstance(document.data, dict) else None
    if not isinstance(topology, dict):
        raise FormatError("no `topology:` in it", file=file)
    nodes, cables = topology.get("nodes"), topology.get("links")
    if not isinstance(nodes, dict):
        nodes = {}
    hosts = {name for name, node in nodes.items() if _is_host(node)}
    links = []
    for entry in cables if isinstance(cables, list) else ():
        ends = entry.get("endpoints") if isinstance(entry, dict) else None
        if not isinstance(ends, list) or len(ends) != 2:
            continue
        a, b = (str(end).partition(":") for end in ends)
        links.append(Link(PortId(a[0], a[2]), PortId(b[0], b[2])))
    return _with_nodes(links, hosts)


def _is_host(node: Any) -> bool:
    return isinstance(node, dict) and str(node.get("kind", "")) in _HOST_WORDS


def _with_nodes(links: list[Link], hosts: set[str]) -> Topology:
    """Nodes of the cables; a name with one cable and a host's word in it is a host."""
    names = sorted({end.device for link in links for end in (link.a, link.b)})
    nodes = []
    for name in names:
        looks = re.sub(r"[\d_.-]", "", name.lower()) in _HOST_WORDS
        nodes.append(Node(name, "host" if name in hosts or looks else "switch"))
    return Topology(tuple(nodes), tuple(links))
