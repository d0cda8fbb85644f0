"""One scrape page in a test: what is on it, by name and labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter
from support.snapshots import (
    make_frame,
    make_snapshot,
    make_table,
)

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot

PORTS = [("leaf1", "Ethernet1"), ("leaf1", "Ethernet2"), ("leaf2", "Ethernet1")]


def make_exporter(context: Context, **config: int) -> PrometheusExporter:
    """The exporter, not started."""
    return PrometheusExporter(PrometheusConfig(**config), context)


def page_text(exporter: PrometheusExporter, **query: list[str]) -> str:
    """The page that a scrape gets; `collect` stands for `collect[]`."""
    asked = {("collect[]" if key == "collect" else key): value for key, value in query.items()}
    return exporter.page(asked, openmetrics=False).body.decode()


def value_of(text: str, name: str, **labels: str) -> float | None:
    """A sample; None where the page has none of these labels."""
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    match = re.search(rf"^{re.escape(f'{name}{{{inside}}} ')}(.*)$", text, re.MULTILINE)
    return float(match[1]) if match else None


def port_value(
    text: str, name: str, device: str = "leaf1", port: str = "Ethernet1"
) -> float | None:
    """A sample of one port."""
    return value_of(text, name, device=device, fabric="pod1", port=port)


def simple_snapshot(**changes: object) -> Snapshot:
    """A tick of `PORTS` with a value for everything."""
    table = make_table(PORTS)
    return make_snapshot(table, make_frame(3), **changes)  # type: ignore[arg-type]
