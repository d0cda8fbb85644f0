"""What a dashboard is made of, and the words its queries share.

`F` picks the fabric, `D` also the device, `P` also the port; `$__rate_interval` is Grafana's.
Metrics beyond ten series a port need `collect[]` in the scrape config; panels of such say so.
"""

from __future__ import annotations

from dataclasses import dataclass

F = 'fabric=~"$fabric"'
D = F + ',device=~"$device"'
P = D + ',port=~"$port"'
INFO = "on (fabric, device, port) fabricmon_port_info"
IB = f'and {INFO}{{technology="infiniband"}}'
ROCE = f'and {INFO}{{technology="ethernet"}}'
MORE = "Needs `collect[]` in the scrape config: `all`, or the groups named in docs/metrics.md."


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` are (expression, legend); for `graph` the first gives edges."""

    title: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "lines"
    """`lines`, `number`, `table` or `graph`."""
    unit: str = "short"
    text: str = ""
    width: int = 12
    height: int = 8
    top: float | None = None
    """The axis ends here."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard: `variables` are (name, label, query)."""

    uid: str
    title: str
    text: str
    variables: tuple[tuple[str, str, str], ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


def rate(metric: str, selector: str) -> str:
    """Per second."""
    return f"rate({metric}{{{selector}}}[$__rate_interval])"


def top(expression: str, count: int = 10) -> str:
    """The largest ones only: never a line for each of a hundred thousand ports."""
    return f"topk({count}, {expression})"


def number(title: str, query: str, unit: str = "short", text: str = "") -> Panel:
    """A small panel with one figure."""
    return Panel(title, ((query, ""),), "number", unit, text, width=4, height=4)


FABRIC = ("fabric", "Fabric", "label_values(fabricmon_fabric_ports, fabric)")
STALL = "fabricmon_port_transmit_stall_ratio"
WHERE = "{{device}} [{{port}}]"
QUEUE = "{{device}} [{{port}}] queue {{queue}}"
INCIDENTS = f"fabricmon_incident_active{{{F}}}"
