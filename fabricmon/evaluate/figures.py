"""The figures: what the books of many runs add up to."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import mean
from typing import TYPE_CHECKING, Any

from fabricmon.evaluate.match import Matched, match

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fabricmon.evaluate.match import Answer, Cables
    from fabricmon.evaluate.watch import Observed, Run

_Z = 1.959964
_DAY_NS = 86_400e9


def wilson(good: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share; (0, 1) where nothing was tried."""
    if of == 0:
        return 0.0, 1.0
    share = good / of
    middle = share + _Z**2 / (2 * of)
    spread = _Z * sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2))
    scale = 1 + _Z**2 / of
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def _share(good: float, of: float) -> float | None:
    return round(good / of, 4) if of else None


@dataclass(slots=True)
class Figures:
    """Counts that add up over runs; ratios are made when asked for."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    fragments: int = 0
    delays: list[float] = field(default_factory=list)
    """Polls from the start of each found fault to its first alarm."""
    causes: list[tuple[bool, bool]] = field(default_factory=list)
    """First cause right, one of the first three right; found faults that have a cause."""
    kinds: list[bool] = field(default_factory=list)
    jaccard: list[float] = field(default_factory=list)
    confusion: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Label kind -> judged kind, `missed` among them; `healthy` -> kinds of false alarms."""
    port_days: float = 0.0
    per_kind: dict[str, Figures] = field(default_factory=dict)

    def take(self, matched: Matched, run: Run) -> None:
        """Add the books of one run."""
        for answer in matched.answers:
            self.take_answer(answer, matched.cables, run)
            kind = self.per_kind.setdefault(answer.label.kind, Figures())
            kind.take_answer(answer, matched.cables, run)
        self.fp += len(matched.false)
        for event in matched.false:
            self.confusion["healthy"][event.kind] += 1
        self.port_days += run.ports * _healthy_ns(run) / _DAY_NS

    def take_answer(self, answer: Answer, cables: Cables, run: Run) -> None:
        """Add what was said of one fault."""
        label, judged = answer.label, answer.judged
        if judged is None:
            self.fn += 1
            self.confusion[label.kind]["missed"] += 1
            return
        self.tp += 1
        self.fragments += len(answer.events) - 1
        self.confusion[label.kind][judged.kind] += 1
        self.kinds.append(judged.kind == label.kind or judged.kind in label.accept)
        opened = answer.opened_ns
        assert opened is not None
        self.delays.append(max(0.0, (opened - label.start_ns) / run.poll_ns))
        if label.causes:
            right = [cables.right(cause, label) for cause in judged.causes[:3]]
            self.causes.append((bool(right) and right[0], any(right)))
        if label.victims:
            hurt = frozenset(label.victims)
            self.jaccard.append(len(judged.victims & hurt) / len(judged.victims | hurt))

    def to_json(self) -> dict[str, Any]:
        """The stable form of `evaluate -o json`; null where nothing was tried."""
        precision, recall = _share(self.tp, self.tp + self.fp), _share(self.tp, self.tp + self.fn)
        both = (precision or 0) + (recall or 0)
        f1 = None if precision is None or recall is None else _share(2 * precision * recall, both)
        ordered = sorted(self.delays)
        return {
            "events": {
                "tp": self.tp,
                "fp": self.fp,
                "fn": self.fn,
                "fragments": self.fragments,
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "ci95": {
                    "precision": [round(x, 4) for x in wilson(self.tp, self.tp + self.fp)],
                    "recall": [round(x, 4) for x in wilson(self.tp, self.tp + self.fn)],
                },
            },
            "confusion": {kind: dict(row) for kind, row in sorted(self.confusion.items())},
            "delay_polls": {"median": _quantile(ordered, 0.5), "p95": _quantile(ordered, 0.95)},
            "cause_top1": _share(sum(first for first, _ in self.causes), len(self.causes)),
            "cause_top3": _share(sum(any3 for _, any3 in self.causes), len(self.causes)),
            "kind_accuracy": _share(sum(self.kinds), len(self.kinds)),
            "victim_jaccard": round(mean(self.jaccard), 4) if self.jaccard else None,
            "false_alarms_per_port_day": round(self.fp / self.port_days, 6)
            if self.port_days
            else None,
            "port_days": round(self.port_days, 4),
            "per_kind": {kind: _of_kind(own) for kind, own in sorted(self.per_kind.items())},
        }


def _of_kind(figures: Figures) -> dict[str, Any]:
    """The figures that mean something for one kind alone."""
    whole = figures.to_json()
    del whole["per_kind"], whole["confusion"], whole["port_days"]
    del whole["false_alarms_per_port_day"]
    return whole


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[max(0, ceil(share * len(ordered)) - 1)], 2)


def _healthy_ns(run: Run) -> float:
    """Time of the run in which nothing was wrong."""
    ill, until = 0, run.start_ns
    for label in sorted(run.labels, key=lambda label: label.start_ns):
        start, end = max(label.start_ns, until), min(label.end_ns, run.end_ns)
        if end > start:
            ill += end - start
            until = end
    return run.end_ns - run.start_ns - ill


def score(runs: Iterable[Run], alarms: dict[str, Sequence[Observed]] | None = None) -> Figures:
    """The figures of many runs; `alarms` (by run name) replaces what the product said."""
    figures = Figures()
    for run in runs:
        observed = alarms.get(run.name) if alarms is not None else None
        figures.take(match(run, observed), run)
    return figures
