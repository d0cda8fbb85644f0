"""An hour of 48 ports of a real cluster through the whole product, beside our own reckoning.

The switch renews its counters about as often as it was polled, rows come at any pace, and the
recording begins with a hole of 253 seconds. Nobody said that anything was wrong that hour.
"""

from __future__ import annotations

import csv
import gzip
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import ROOT, samples

from fabricmon import app
from fabricmon.record import open_source
from fabricmon.runtime.offline import drive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fabricmon.model.incident import Incident
    from fabricmon.model.snapshot import Snapshot

_FIELDS = {"rx_bytes": "InOctets", "tx_bytes": "OutOctets"}
_SPAN_S = 300
_HOLE_S = 300
_WORKS = 1e3
"""Bytes a second in every five minutes."""


class Hour:
    """What the product made of the rows: incidents, and each tick's rates."""

    def __init__(self) -> None:
        context = app.make_context(quiet=True)
        columns = ROOT / "docs" / "examples" / "columns-differences.yaml"
        source = open_source([samples("roce-production")], report=context.report, columns=columns)
        self._first: list[dict[str, int]] = []
        """Totals of each row at the first tick it was seen."""
        self.times: list[int] = []
        self.rates: dict[str, list[NDArray[np.float32]]] = {counter: [] for counter in _FIELDS}
        pipeline = app.make_pipeline(source.fabric, context)
        outcome = drive(source.items(), pipeline, self._see)
        self.incidents: list[Incident] = list(outcome.worst_first())
        self.row = {(port.device, port.port): n for n, port in enumerate(pipeline.table.ids)}

    def _see(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        for row in range(len(self._first), len(snapshot.table)):
            self._first.append({c: self._total(c, row) for c in _FIELDS})
        self.times.append(snapshot.frame.time_ns)
        for counter, rates in self.rates.items():
            rates.append(snapshot.frame.rate_of(counter).copy())

    def _total(self, counter: str, row: int) -> int:
        frame = self._last.frame
        k = frame.row(counter)
        assert k is not None
        return int(frame.total[k, row])

    def counted(self, counter: str, port: tuple[str, str]) -> int:
        """What the counter gained since its first row, unwrapped."""
        row = self.row[port]
        return self._total(counter, row) - self._first[row][counter]

    def spans(self, counter: str, port: tuple[str, str]) -> Iterator[tuple[float, float]]:
        """(end in Unix seconds, mean known rate) of every five minutes after the hole."""
        at = np.array(self.times) / 1e9
        rate = np.array([tick[self.row[port]] for tick in self.rates[counter]], np.float64)
        took = np.where(np.isnan(rate), 0.0, np.diff(at, prepend=at[0]))
        for end in np.arange(at[0] + _HOLE_S + _SPAN_S, at[-1], _SPAN_S):
            inside = (at > end - _SPAN_S) & (at <= end)
            yield float(end), float(np.nansum(rate[inside] * took[inside]) / took[inside].sum())


@cache
def hour() -> Hour:
    """The run, once."""
    return Hour()


def _rows() -> Iterator[
    tuple[tuple[str, str], NDArray[np.float64], dict[str, NDArray[np.float64]]]
]:
    """(port, times in seconds, running totals by counter) of every file, read by other code."""
    for path in sorted(samples("roce-production").rglob("*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        port = rows[0]["DeviceName"], rows[0]["PortName"]
        times = np.array([int(row["SaveTimeUTC"]) for row in rows]) / 1e3
        yield (
            port,
            times,
            {
                counter: np.cumsum([int(row[field]) for row in rows], dtype=np.float64)
                for counter, field in _FIELDS.items()
            },
        )


@pytest.mark.timeout(600)
def test_an_hour_of_production_is_silent() -> None:
    """No incident of any kind: nothing in these files shows that anything was wrong."""
    assert len(hour().row) == 48
    assert hour().incidents == []


@pytest.mark.timeout(600)
def test_totals_of_production_are_exact() -> None:
    """Of every port, what was counted from the first row to the last is the sum of the rows."""
    for port, _, totals in _rows():
        for counter, total in totals.items():
            assert hour().counted(counter, port) == total[-1] - total[0], (port, counter)


@pytest.mark.timeout(600)
def test_rates_of_production_are_right() -> None:
    """Every port that works all the time: the hour within 5 %, every five minutes within 15 %.

    Of one tick in fourteen there is no row; whether it held a burst is chance.
    """
    working = 0
    for port, times, totals in _rows():
        for counter, total in totals.items():
            spans = list(hour().spans(counter, port))
            ends, found = (np.array(column) for column in zip(*spans, strict=True))
            gained = np.interp(ends, times, total) - np.interp(ends - _SPAN_S, times, total)
            truth = gained / _SPAN_S
            if truth.min() < _WORKS:
                continue
            working += 1
            assert found == pytest.approx(truth, rel=0.15), (port, counter)
            assert found.mean() == pytest.approx(truth.mean(), rel=0.05), (port, counter)
    assert working >= 80
