"""The default page, line by line: a renamed metric or label breaks somebody's dashboard.

After a wanted change: `GOLDEN_WRITE=1 python -m pytest tests/golden/test_exposition.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from support.snapshots import (
    leaf_spine,
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)

from fabricmon.model.incident import Victim
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from fabricmon.api import Context

GOLDEN = Path(__file__).with_name("exposition.txt")


def test_the_page_is_as_it_was(context: Context) -> None:
    """Names, labels, order and values of a small fabric with an incident."""
    topology = leaf_spine(1, 1, 1)
    table = make_table([])
    table.adopt(topology)
    exporter = PrometheusExporter(PrometheusConfig(), context)
    exporter.publish(
        make_snapshot(
            table,
            make_frame(len(table), stall=[0.5, 0.25, 0.0, 0.0]),
            topology=topology,
            incidents=[make_incident(victims=[Victim("leaf0", "up0", 0.5)])],
            targets=[make_status(), make_status("leaf2", up=False, last_success_ns=None)],
            job_cost={"llm-1": 12.5},
            anomaly=[0.97, 0.5, 0.25, 0.125],
        )
    )
    text = exporter.page({}, openmetrics=False).body.decode()
    own = text.index("# HELP process_") if "# HELP process_" in text else len(text)
    ours = text[: min(own, text.index("# HELP python_gc_"))]
    if os.environ.get("GOLDEN_WRITE"):
        GOLDEN.write_text(ours, encoding="utf-8")
    assert ours == GOLDEN.read_text(encoding="utf-8")
