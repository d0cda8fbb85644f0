"""What the forest finds alone, what the rules find alone, and both: recall per kind.

One episode of every kind on both technologies, 1-s polls, each read by three pipelines. The forest
alone is the rule that reports its alarms where a counter bears them out; it names a place and no
kind, so recall and cause are all that can be compared.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from typing import TYPE_CHECKING, Any

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
    from collections.abc import Iterator

_SEED = 9500
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
        Case(kind, _SEED, technology, 1.0, paused_time=True)
        for technology in Technology
        for kind in KINDS[technology]
    ]
    with ProcessPoolExecutor() as pool:
        runs = [made for several in pool.map(play, cases) for made in several]

    def key(made: Run) -> tuple[str, str]:
        return made.tags["kind"], made.tags["way"]

    for (kind, way), group in groupby(sorted(runs, key=key), key):
        done = score(list(group)).to_json()
        yield _row(f"{kind}, {way}: recall", done["events"]["recall"], "share", "", None)
        yield _row(f"{kind}, {way}: cause", done["cause_top1"], "share", "", None)
    for way in _WITHOUT:
        done = score([made for made in runs if made.tags["way"] == way]).to_json()
        yield _row(f"all, {way}: precision", done["events"]["precision"], "share", "", None)
        yield _row(f"all, {way}: recall", done["events"]["recall"], "share", "", None)
