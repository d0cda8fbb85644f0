"""Write `docs/metrics.md` from the exporter's own tables.

python docs/metrics.py           write it
python docs/metrics.py --check   exit 1 if it is not what would be written
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.metrics import MetricWrapperBase

from fabricmon.selfmon import SelfMetrics
from fabricmon_exporters.prometheus.families import FAMILIES, GROUPS
from fabricmon_exporters.prometheus.small import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = Path(__file__).parent / "metrics.md"
_GROUPS = {
    "info": "what is at the other end",
    "traffic": "bytes and packets",
    "ratio": "shares of the poll interval",
    "score": "the detector's judgement",
    "wait": "transmit wait",
    "loss": "discards and errors",
    "pause": "global pause and PFC",
    "ecn": "congestion marks",
    "link": "state, speed, errors and optics of the link",
    "host": "what only host NICs count",
    "queue": "what else queues count",
}
_TEXT = """# Metrics

Written by `docs/metrics.py` from the tables that make the page.

The page carries what follows in the order of these tables. **A port has at most ten series** on it
(`exporters.prometheus.series_per_port`): the first ten that it has, in the order of the table; of
queues only those that are declared lossless or ever paused or marked. `/metrics?collect[]=NAME` has
metrics or whole groups instead, `collect[]=all` everything, `shard=i/n` one of n parts.

What is not known has no series: a value that was never read, a counter that is stuck at its maximum
or comes from a stale cache, a wait whose tick length is unknown. A counter that misses a poll keeps
its value for three polls. Counters beyond 2^53 start over. There are no timestamps: a port or
target that vanishes is gone at the next scrape.

## Ports and queues

| metric | type | labels | group | help |
|---|---|---|---|---|
{ports}

Groups: {groups}.

## Incidents, jobs, targets, coverage

| metric | type | labels | group | help |
|---|---|---|---|---|
{small}

Of an incident's victims the 256 hardest hit have a series.

## fabricmon itself

Group `self`; of several shards, in shard 0 only. Beside these, the usual `process_` and
`python_gc_` metrics.

| metric | type | labels | help |
|---|---|---|---|
{own}
"""


def _own() -> Iterable[tuple[str, str, tuple[str, ...], str]]:
    for metric in vars(SelfMetrics()).values():
        if isinstance(metric, MetricWrapperBase):
            described = metric.describe()[0]
            suffix = "_total" if described.type == "counter" else ""
            labels = metric._labelnames  # noqa: SLF001 - prometheus_client shows them nowhere else
            yield described.name + suffix, described.type, labels, described.documentation


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _names(labels: Iterable[str]) -> str:
    return ", ".join(sorted(labels)) or "none"


def text() -> str:
    """The whole page."""
    return _TEXT.format(
        ports="\n".join(
            _row(f"`{f.name}`", f.type, _names(f.labels), f.group, f.help) for f in FAMILIES
        ),
        small="\n".join(
            _row(f"`{f.name}`", f.type, _names(f.labels), f.group, f.help) for f in SMALL
        ),
        own="\n".join(
            _row(f"`{name}`", kind, _names(labels), help_) for name, kind, labels, help_ in _own()
        ),
        groups="; ".join(f"`{group}` {_GROUPS[group]}" for group in GROUPS),
    )


def main(arguments: list[str]) -> int:
    """Write, or check that nothing would be written."""
    if arguments == ["--check"]:
        same = FILE.exists() and FILE.read_text(encoding="utf-8") == text()
        if not same:
            print("docs/metrics.md is out of date: run docs/metrics.py")  # noqa: T201
        return not same
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
