"""How often the right port and the right kind are named, on faults drawn at random.

Episodes come from `fabricmon.simulate.campaign`, with seeds that nothing was tuned on; the whole
product runs on them: normalizer, forest, diagnosis. Figures stand per technology x poll length x
with or without paused time, beside an alarm that is always on, a coin and one threshold. Healthy
days in each of these groups give the false alarms, and all episodes together say how far a
confidence can be believed. `QUICK=1` draws fewer episodes and shorter days, and says how many.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2
from support.fabrics import Run as HandRun
from support.fabrics import leaf_spine

from fabricmon.api import Context
from fabricmon.app import make_pipeline
from fabricmon.evaluate import Run, Watcher, baselines, reliability, score
from fabricmon.model.topology import Job, PortId, Technology
from fabricmon.runtime.offline import drive
from fabricmon.selfmon import Reporter
from fabricmon.simulate.campaign import KINDS, Episode, episode, healthy_run
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_QUICK = bool(os.environ.get("QUICK"))
_SEEDS = 1 if _QUICK else 5
_FIRST_SEED = 9000
"""Seeds below this one are for tuning."""
_HOURS = 2.0 if _QUICK else 24.0
_DAYS = {10.0: (1, 0)} if _QUICK else {1.0: (1, 200), 5.0: (2, 200), 10.0: (4, 150)}
"""Poll length -> healthy runs in each group, ports of each at the least: 21 seeds in all."""
_PAIRS = 1 if _QUICK else 2
"""Draws of each two kinds of fault at once."""
_PORTS = 10_000 if _QUICK else 100_000
_TAIL = {"precision": "events", "recall": "events", "median": "delay_polls", "p95": "delay_polls"}
_FIGURES = (
    "precision",
    "recall",
    "cause_top1",
    "cause_top3",
    "kind_accuracy",
    "victim_jaccard",
    "median",
    "p95",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One run to make: `kind` is a fault, two of them joined by `+`, or `healthy`."""

    kind: str
    seed: int
    technology: Technology
    poll: float
    paused_time: bool

    @property
    def group(self) -> str:
        """What its figures are pooled with."""
        time = "" if self.technology is Technology.INFINIBAND else ", time"
        return f"{self.technology.value}, {self.poll:g} s{time if self.paused_time else ', frames'}"

    def draw(self) -> Episode:
        """The episode of this case."""
        if self.kind == "healthy":
            return healthy_run(
                seed=self.seed,
                technology=self.technology,
                poll=self.poll,
                hours=_HOURS,
                ports=_DAYS[self.poll][1],
                paused_time=self.paused_time,
            )
        first, _, second = self.kind.partition("+")
        return episode(
            first,
            seed=self.seed,
            technology=self.technology,
            poll=self.poll,
            paused_time=self.paused_time,
            second=second or None,
        )


def _axes() -> list[tuple[Technology, float, bool]]:
    roce, infiniband = Technology.ROCE, Technology.INFINIBAND
    polls = (1.0, 10.0) if _QUICK else (1.0, 5.0, 10.0)
    axes = [(roce, poll, paused) for poll in polls for paused in (True, False)]
    return axes + [(infiniband, poll, True) for poll in polls]


def _single() -> list[Case]:
    return [
        Case(kind, _FIRST_SEED + seed, *axis)
        for seed in range(_SEEDS)
        for axis in _axes()
        for kind in KINDS[axis[0]]
    ]


def _double() -> list[Case]:
    pairs = combinations(("incast", "slow-receiver", "degraded-link", "path-imbalance"), 2)
    drawn = [f"{a}+{b}" for a, b in pairs] * _PAIRS
    return [
        Case(kind, _FIRST_SEED + 100 + i, technology, 5.0, paused_time=True)
        for technology in Technology
        for i, kind in enumerate(drawn)
    ]


def _healthy() -> list[Case]:
    """No seed twice; the longest runs first."""
    axes = [axis for axis in sorted(_axes(), key=itemgetter(1)) for _ in range(_runs(axis[1]))]
    return [Case("healthy", _FIRST_SEED + 200 + i, *axis) for i, axis in enumerate(axes)]


def _runs(poll: float) -> int:
    return _DAYS.get(poll, (0, 0))[0]


def play(case: Case) -> Run | None:
    """The product on one case; None where the draw came to nothing."""
    try:
        made = case.draw()
    except ValueError:
        return None
    clock = ManualClock()
    context = Context(clock, Reporter(clock))
    watcher = Watcher()
    drive(made.simulation.items(), make_pipeline("bench", context), watcher.see)
    name = f"{case.kind} {case.seed} {case.group}"
    return watcher.run(name, made.labels, group=case.group)


def _row(metric: str, value: float | None, unit: str, peer: str, beside: float | None) -> Any:
    ratio = value / beside if value is not None and beside else None
    return {
        "bench": "detect",
        "metric": metric,
        "value": value,
        "unit": unit,
        "peer": peer,
        "peer_value": beside,
        "ratio": round(ratio, 2) if ratio is not None else None,
    }


def _figure(done: dict[str, Any], name: str) -> float | None:
    value: float | None = done[_TAIL[name]][name] if name in _TAIL else done[name]
    return value


def _rows(group: str, runs: list[Run]) -> Iterator[dict[str, Any]]:
    done = score(runs).to_json()
    beside = {name: figures.to_json() for name, figures in baselines(runs).items()}
    yield _row(f"{group}: episodes", len(runs), "runs", "", None)
    for name in _FIGURES:
        unit = "polls" if name in {"median", "p95"} else "share"
        for peer, figures in beside.items():
            yield _row(f"{group}: {name}", _figure(done, name), unit, peer, _figure(figures, name))
    for kind, own in done["per_kind"].items():
        recall, right = own["events"]["recall"], own["kind_accuracy"]
        yield _row(f"{group}: {kind} recall", recall, "share", "", None)
        yield _row(f"{group}: {kind} kind", right, "share", "", None)
        yield _row(f"{group}: {kind} cause", own["cause_top1"], "share", "", None)
        yield _row(f"{group}: {kind} victims", own["victim_jaccard"], "share", "", None)
        for name in ("median", "p95"):
            yield _row(f"{group}: {kind} {name}", own["delay_polls"][name], "polls", "", None)


def _grouped(runs: Iterable[Run | None]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for made in runs:
        if made is not None:
            groups.setdefault(made.tags["group"], []).append(made)
    return groups


def _pooled(groups: dict[str, list[Run]]) -> list[Run]:
    return [run for runs in groups.values() for run in runs]


def run() -> Iterator[dict[str, Any]]:
    """What a tick costs, quality per group and of all, belief, false alarms on healthy days."""
    yield from _speed()
    with ProcessPoolExecutor() as pool:
        days = pool.map(play, _healthy())  # begun first: the longest of all
        single, double = _grouped(pool.map(play, _single())), _grouped(pool.map(play, _double()))
        for group, runs in single.items():
            yield from _rows(group, runs)
        for group, runs in double.items():
            yield from _rows(f"two faults, {group}", runs)
        yield from _rows("one fault", _pooled(single))
        yield from _rows("two faults", _pooled(double))
        yield from _belief([*_pooled(single), *_pooled(double)])
        healthy = _grouped(days)
    for group, runs in healthy.items():
        yield from _false_alarms(f"healthy, {group}", runs)
    yield from _false_alarms("healthy", _pooled(healthy))


def _false_alarms(group: str, runs: list[Run]) -> Iterator[dict[str, Any]]:
    """The rate, and the bound that so many port-days with so few alarms show at 95 %."""
    done, beside = score(runs).to_json(), baselines(runs)["one_threshold"].to_json()
    days, alarms = done["port_days"], done["events"]["fp"]
    yield _row(f"{group}: port-days", days, "port-days", "", None)
    rate = "false_alarms_per_port_day"
    yield _row(f"{group}: false alarms", done[rate], "per port-day", "one_threshold", beside[rate])
    bound = float(chi2.ppf(0.95, 2 * (alarms + 1)) / 2 / days)
    yield _row(f"{group}: at most", round(bound, 6), "per port-day, 95 %", "", None)


def _belief(runs: list[Run]) -> Iterator[dict[str, Any]]:
    """Reliability: what share of the incidents told with such a confidence was right."""
    for band in reliability(runs):
        name = f"confidence {band.low:.2f} to {band.high:.2f}: right of {band.count}"
        yield _row(name, round(band.right, 4), "share", "confidence", round(band.told, 4))


def _speed() -> Iterator[dict[str, Any]]:
    """CPU of graph and rules a tick at full scale, calm and with a wide incast."""
    leaves = _PORTS // 128
    jobs = tuple(
        Job(f"j{k}", tuple(f"h{leaf}-{h}" for leaf in range(8 * k, 8 * k + 8) for h in range(32)))
        for k in range(leaves // 8)
    )
    hand = HandRun(leaf_spine(leaves, 32, 32, jobs=jobs))
    costs: list[float] = []
    diagnose = hand.diagnoser.diagnose

    def timed(*arguments: Any) -> Any:
        begun = process_time()
        diagnosis = diagnose(*arguments)
        costs.append(process_time() - begun)
        return diagnosis

    hand.diagnoser.diagnose = timed  # type: ignore[method-assign]
    hand.ticks(28)
    calm = median(costs[-8:])
    held = {PortId(f"spine{s}", "p3"): 0.5 for s in range(32)}
    held |= {PortId(f"leaf{n}", f"u{s}"): 0.4 for n in range(40) if n != 3 for s in range(32)}
    sink = PortId("leaf3", "d3")
    incast = {"tx_use": {sink: 1.0}, "stall": held, "queue_depth_bytes": {sink: 250_000.0}}
    diagnosis = hand.ticks(6, incast)
    assert diagnosis.findings, "the incast was found"
    busy = float(np.median(costs[-3:]))
    ports = len(hand.table)
    yield _row(f"graph and rules, {ports} ports, calm", round(calm * 1000, 1), "cpu-ms", "", None)
    yield _row(f"one incast with {len(held)} held", round(busy * 1000, 1), "cpu-ms", "", None)
    blame = round(max(0.0, busy - calm) * 1000, 1)
    yield _row("blame of one incident", blame, "cpu-ms", "budget", 50.0)
