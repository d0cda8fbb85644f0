"""Checks an incident's evidence as a person would: from its JSON, beside the raw readings.

Nothing of the product computes here; formulas are read from the evidence and evaluated.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from fabricmon.model.readings import ReadingBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fabricmon.model.stream import Item

    Evidence = dict[str, Any]

_MEAN = re.compile(r"mean of (\d+) polls \(([^)]*)\) of (.+)")
_PACE = re.compile(
    r"median of the hosts' shares \(([^)]*)\), each weighed .* \(([^)]*)\):.*"
    r"here ([\d.e-]+) / ([\d.e-]+)"
)
_LAG = re.compile(r"the job \(([^)]*)\) less this host \(([^)]*)\)")
_NAME = re.compile(r"\b[a-z]\w*(?:\[\d+\])?")
_FUNCTIONS = {"__builtins__": {}, "min": min, "max": max}


class Readings:
    """What was read of each counter of each port, in the order it was read."""

    def __init__(self) -> None:
        self._batches: list[ReadingBatch] = []
        self._values: dict[tuple[str, str, str, int], list[int]] = {}

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same stream; its readings are kept."""
        for item in items:
            if isinstance(item, ReadingBatch):
                self._batches.append(item)
            yield item

    def of(self, raw: dict[str, Any]) -> list[float]:
        """Every count (level) that was read of one counter, in catalogue units."""
        queue = -1 if raw["queue"] is None else raw["queue"]
        found = []
        for batch in self._batches:
            names = zip(batch.ports.device, batch.ports.port, strict=True)
            rows = [i for i, name in enumerate(names) if name == (raw["device"], raw["port"])]
            for columns, values in (
                (batch.columns, batch.values),
                (batch.gauge_columns, batch.gauges),
            ):
                for k, column in enumerate(columns):
                    if (column.counter.id, column.queue) == (raw["counter"], queue):
                        found += [values[k, row].item() * column.scale for row in rows]
        return found


def check(evidence: Evidence, readings: Readings) -> None:
    """The number follows from its raw counters, and those are what was read."""
    assert evidence["raw"], f"nothing to check it by: {evidence}"
    for raw in evidence["raw"]:
        assert all(raw[part] for part in ("source", "unit", "samples")), evidence
        _were_read(raw, readings)
    if pace := _PACE.match(evidence["formula"]):
        shares, usual = _numbers(pace[1]), _numbers(pace[2])
        assert _is_median(evidence["value"], shares, usual), evidence
        own = float(pace[3]) / float(pace[4])
        assert any(_close(own, share) for share in shares), evidence
    if lag := _LAG.match(evidence["formula"]):
        assert abs(evidence["value"] - _fell_behind(*map(_numbers, lag.groups()))) < 1e-2, evidence
    if evidence["formula"].startswith("breaks at "):
        assert evidence["value"] == len(evidence["formula"].split(", ")), evidence
        assert any(sample["rate"] for sample in evidence["raw"][0]["samples"]), evidence
    if mean := _MEAN.fullmatch(evidence["formula"]):
        count, shown, expression = int(mean[1]), mean[2].split(", "), mean[3]
        polls = _polls(evidence["raw"], count, expression)
        for told, poll in zip(shown, polls, strict=True):
            assert (told == "unknown") == (poll is None), (evidence, polls)
            assert poll is None or _close(float(told), poll), (evidence, polls)
        known = [poll for poll in polls if poll is not None]
        assert _close(evidence["value"], sum(known) / len(known)), (evidence, polls)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(", ")]


def _is_median(value: float, shares: list[float], weights: list[float]) -> bool:
    """Whether neither the smaller shares nor the larger ones weigh more than half."""
    pairs = list(zip(shares, weights, strict=True))
    apart = [(share - value, w) for share, w in pairs if not _close(value, share)]
    half = 0.501 * sum(weights)
    below, above = (sum(w for gap, w in apart if gap * sign > 0) for sign in (-1, 1))
    return below <= half and above <= half and len(apart) < len(pairs)


def _fell_behind(job: list[float], own: list[float]) -> float:
    """How far the sum of `own` fell behind that of the job, a straight drift aside."""
    path = list(accumulate(j - o for j, o in zip(job, own, strict=True)))
    steps = len(path) - 1
    level = sorted(p - (path[0] + (path[-1] - path[0]) * i / steps) for i, p in enumerate(path))
    return level[-2] - level[1]


def _close(told: float, found: float) -> bool:
    return abs(told - found) <= 2e-3 * max(abs(told), abs(found)) + 1e-7


def _were_read(raw: dict[str, Any], readings: Readings) -> None:
    """Each value is one that a device showed; a count that ever fell goes on from there."""
    read = readings.of(raw)
    if not _is_level(raw) and any(after < before for before, after in pairwise(read)):
        return
    values = {float(value) for value in read}
    for sample in raw["samples"]:
        assert sample["value"] is None or _among(float(sample["value"]), values), (raw, sample)


def _among(value: float, values: set[float]) -> bool:
    return value in values or any(abs(value - one) <= 1e-6 * abs(one) for one in values)


def _is_level(raw: dict[str, Any]) -> bool:
    return all(sample["rate"] is None for sample in raw["samples"])


def _polls(raws: list[dict[str, Any]], count: int, expression: str) -> list[float | None]:
    """What the expression comes to in each of the latest `count` polls; None where unknown."""
    by_poll: list[dict[str, float]] = [{} for _ in range(count)]
    for raw in raws:
        name = raw["counter"] if raw["queue"] is None else f"{raw['counter']}[{raw['queue']}]"
        values = _levels(raw) if _is_level(raw) else _rates(raw)
        assert len(values) >= count, (raw, count)
        for poll, value in zip(by_poll, values[-count:], strict=True):
            if value is not None:
                poll[name] = value
    return [_evaluate(expression, poll) if poll else None for poll in by_poll]


def _levels(raw: dict[str, Any]) -> list[float | None]:
    return [sample["value"] for sample in raw["samples"]]


def _rates(raw: dict[str, Any]) -> list[float | None]:
    """Per second, from the counts and the times; only a device that renews late needs telling."""
    rates: list[float | None] = []
    for before, after in pairwise(raw["samples"]):
        if after["rate"] is None:
            rates.append(None)
        elif after["state"] == "held":
            rates.append(after["rate"])
        else:
            rates.append((after["value"] - before["value"]) / after["over_s"])
    return rates


def _evaluate(formula: str, values: dict[str, float]) -> float:
    """`expression; x = ...; u = ...` with counters replaced by what they came to, 0 if unknown."""
    expression, *letters = formula.split("; ")

    def number(match: re.Match[str]) -> str:
        return str(values.get(match[0], 0.0)) if "_" in match[0] or match[0] in values else match[0]

    scope: dict[str, Any] = dict(_FUNCTIONS)
    for letter in reversed(letters):
        name, _, text = letter.partition(" = ")
        scope[name] = eval(_NAME.sub(number, text), scope)
    return float(eval(_NAME.sub(number, expression), scope))
