"""A bug is a folder: `input/` as somebody had it, `case.yaml` with what is right.

`case.yaml`: `about` (what went wrong), and any of `ticks`, `skipped` (records lost, each named),
`incidents` (kind and cause of each, worst first) and `values`, a list of `{device, port, queue,
counter, rates}`: the rate a second at every tick, `null` where there must be none.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML
from support.pipelines import make_pipeline
from support.selfmon import events

from fabricmon.model.topology import PortId
from fabricmon.record import open_source
from fabricmon.runtime.offline import Outcome, drive

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.frame import Frame
    from fabricmon.model.snapshot import Snapshot

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/case.yaml"))
ALLOWED = {"about", "ticks", "skipped", "incidents", "values"}


def rate(frame: Frame, row: int, wanted: dict[str, Any]) -> float:
    """Of the counter (and queue) that a case names; NaN where the frame has none."""
    ids = [counter.id for counter in frame.counters]
    queue_ids = [counter.id for counter in frame.queue_counters]
    if "queue" not in wanted:
        known = wanted["counter"] in ids and row < frame.n_ports
        return float(frame.rate[ids.index(wanted["counter"]), row]) if known else math.nan
    if wanted["counter"] not in queue_ids or wanted["queue"] not in frame.queues:
        return math.nan
    k, q = queue_ids.index(wanted["counter"]), frame.queues.index(wanted["queue"])
    return float(frame.queue_rate[k, row, q]) if row < frame.n_ports else math.nan


def incidents(outcome: Outcome) -> list[str]:
    """`kind device port` of each, worst first."""
    return [
        " ".join([i.kind, *(f"{c.device} {c.port or ''}".strip() for c in i.causes[:1])])
        for i in outcome.worst_first()
    ]


def run(folder: Path, context: Context) -> tuple[Outcome, list[Snapshot]]:
    """The case's input through the whole pipeline; the detector is blind, physics is not."""
    source = open_source([folder / "input"], report=context.report, fabric="case")
    seen: list[Snapshot] = []
    return drive(source.items(), make_pipeline(context, "case"), seen.append), seen


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_case_stays_right(folder: Path, context: Context) -> None:
    """Ticks, lost records, rates and incidents are as the case says."""
    case = YAML(typ="safe").load(folder / "case.yaml")
    assert case["about"]
    assert set(case) <= ALLOWED
    outcome, seen = run(folder, context)
    assert events(context, "record_skipped") == case.get("skipped", 0)
    assert outcome.ticks == case.get("ticks", outcome.ticks)
    for wanted in case.get("values", ()):
        port = PortId(wanted["device"], str(wanted["port"]))
        row = seen[-1].table.row(port)
        assert row is not None, port
        got = [rate(snapshot.frame, row, wanted) for snapshot in seen]
        expected = [math.nan if value is None else value for value in wanted["rates"]]
        assert got == pytest.approx(expected, rel=1e-3, nan_ok=True), (port, wanted["counter"])
    if "incidents" in case:
        assert incidents(outcome) == case["incidents"]


def test_every_folder_is_a_case() -> None:
    """A folder without `case.yaml` would never be run."""
    here = Path(__file__).parent
    assert {path for path in here.iterdir() if path.is_dir() and path.name[0] not in "_."} == set(
        CASES
    )
    assert CASES
