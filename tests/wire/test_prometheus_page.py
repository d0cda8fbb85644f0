"""promtool reads the page."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import require
from support.snapshots import (
    leaf_spine,
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)

from fabricmon.model.counters import CATALOGUE
from fabricmon.model.incident import Victim
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from fabricmon.api import Context

pytestmark = pytest.mark.wire


@pytest.mark.parametrize("query", [{}, {"collect[]": ["all"]}])
def test_promtool_has_nothing_to_say(context: Context, query: dict[str, list[str]]) -> None:
    """`promtool check metrics` is silent on the whole page, with every metric that there is."""
    topology = leaf_spine(2, 2, 2)
    table = make_table([])
    table.adopt(topology)
    counters = [c for c in CATALOGUE if not c.is_gauge]
    n = len(table)
    frame = make_frame(
        n,
        counters=[c.id for c in counters if c.scope == "port"],
        queue_counters=[c.id for c in counters if c.scope == "queue"],
    )
    for counter in CATALOGUE:
        if counter.is_gauge and counter.scope == "port":
            frame.gauges[counter.id] = np.ones(n, np.float32)
        elif counter.is_gauge:
            frame.queue_gauges[counter.id] = np.ones((n, 2), np.float32)
    exporter = PrometheusExporter(PrometheusConfig(), context)
    exporter.publish(
        make_snapshot(
            table,
            frame,
            topology=topology,
            targets=[make_status()],
            incidents=[make_incident(victims=[Victim("leaf0", "up0", 0.5)], maintenance=True)],
            job_cost={"llm-1": 1.0},
        )
    )
    page = exporter.page(query, openmetrics=False)
    done = subprocess.run(
        [require("promtool"), "check", "metrics"], input=page.body, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
