"""What the forest finds alone, what the rules find alone, and both: recall per kind.

Five episodes of every kind on both technologies (`QUICK=1`: one), 1-s polls, each read by three
pipelines. The forest alone is the rule that reports its alarms where a counter bears them out; it
names a place and no kind, so recall and cause are all that can be compared.
`make -s bench NAME=ablation | python tests/bench/ablation.py` prints the table of the docs.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from detect import Case, _row

from fabricmon.api import Context
from fabricmon.detect import ForestConfig, ForestDetector
from fabricmon.diagnose import DiagnoseConfig, Diagnoser
from fabricmon.evaluate import Run, Watcher, score
from fabricmon.model.incident import IncidentKind
from fabricmon.model.ports import PortTable
from fabricmon.model.topology import Technology
from fabricmon.model.window import Window
from fabricmon.normalize import Normalizer
from fabricmon.runtime.offline import drive
from fabricmon.runtime.pipeline import Pipeline, Stages
from fabricmon.selfmon import Reporter
from fabricmon.simulate.campaign import KINDS
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SEEDS = range(700, 701 if os.environ.get("QUICK") else 705)
"""Of those for tuning: what is shown here must not spend those that judge."""
_FOREST = IncidentKind.UNCLASSIFIED.value
_WITHOUT = {
    "both": (),
    "rules alone": (_FOREST,),
    "forest alone": tuple(kind.value for kind in IncidentKind if kind.value != _FOREST),
}
"""The kinds that each way of looking leaves out."""


def _pipeline(context: Context, disabled: tuple[str, ...]) -> Pipeline:
    """The product's own, with some rules left out."""
    table, detect, diagnose = PortTable(), ForestConfig(), DiagnoseConfig(disabled=disabled)
    stages = Stages(
        table,
        Normalizer(table, "bench", context),
        Window(),
        ForestDetector(detect, context),
        Diagnoser(diagnose, "bench", context),
        detect,
        diagnose,
    )
    return Pipeline("bench", stages, context)


def play(case: Case) -> list[Run]:
    """One run per way of looking; none where the draw came to nothing."""
    try:
        made = case.draw()
    except ValueError:
        return []
    items = list(made.simulation.items())
    runs = []
    for way, disabled in _WITHOUT.items():
        clock = ManualClock()
        context = Context(clock, Reporter(clock))
        watcher = Watcher()
        drive(items, _pipeline(context, disabled), watcher.see)
        name = f"{case.kind}, {case.technology.value}"
        runs.append(watcher.run(name, made.labels, way=way, kind=case.kind))
    return runs


def run() -> Iterator[dict[str, Any]]:
    """Recall and cause per kind and way of looking."""
    cases = [
        Case(kind, seed, technology, 1.0, paused_time=True)
        for technology in Technology
        for kind in KINDS[technology]
        for seed in _SEEDS
    ]
    with ProcessPoolExecutor() as pool:
        runs = [made for several in pool.map(play, cases) for made in several]

    def key(made: Run) -> tuple[str, str]:
        return made.tags["kind"], made.tags["way"]

    for (kind, way), group in groupby(sorted(runs, key=key), key):
        done = score(list(group)).to_json()
        yield _share(f"{kind}, {way}: recall", done["events"]["recall"])
        yield _share(f"{kind}, {way}: cause", done["cause_top1"])
    for way in _WITHOUT:
        done = score([made for made in runs if made.tags["way"] == way]).to_json()
        yield _share(f"all, {way}: precision", done["events"]["precision"])
        yield _share(f"all, {way}: recall", done["events"]["recall"])


def _share(metric: str, value: float | None) -> dict[str, Any]:
    return {**_row(metric, value, "share", "", None), "bench": "ablation"}


def table(lines: Iterable[str]) -> Iterator[str]:
    """The rows that `run` printed, as Markdown: kinds down, ways of looking across."""
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    value = {row["metric"]: row["value"] for row in rows if row["bench"] == "ablation"}
    ways = ("forest alone", "rules alone", "both")
    yield f"| kind | {' | '.join(f'{way}: recall, cause' for way in ways)} |"
    yield "|---|---|---|---|"
    for kind in sorted({metric.split(", ")[0] for metric in value} - {"all"}):
        cells = (
            f"{_cell(value[f'{kind}, {way}: recall'])}, {_cell(value[f'{kind}, {way}: cause'])}"
            for way in ways
        )
        yield f"| `{kind}` | {' | '.join(cells)} |"
    whole = (
        f"{_cell(value[f'all, {way}: recall'])}, {_cell(value[f'all, {way}: precision'])}"
        for way in ways
    )
    yield f"| **all: recall, precision** | {' | '.join(whole)} |"


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    print("\n".join(table(sys.stdin)))
