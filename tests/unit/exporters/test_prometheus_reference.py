"""The reference of metrics is what the page has."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from support import ROOT
from support.snapshots import make_frame, make_snapshot, make_table

from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from fabricmon.api import Context


def test_the_reference_is_up_to_date() -> None:
    """`docs/metrics.md` is what `docs/metrics.py` would write."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "metrics.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_everything_on_a_page_is_in_the_reference(context: Context) -> None:
    """No metric without its line, own ones included."""
    exporter = PrometheusExporter(PrometheusConfig(), context)
    exporter.publish(make_snapshot(make_table([("a", "1")]), make_frame(1)))
    text = exporter.page({"collect[]": ["all"]}, openmetrics=False).body.decode()
    names = set(re.findall(r"^# TYPE (fabricmon_\S+)", text, re.MULTILINE))
    listed = set(
        re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    )
    assert names <= listed
