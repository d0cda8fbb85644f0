"""Rates of a real cluster whose switch renews its counters about as often as it was polled."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
from support import samples
from support.readings import Feed

_MS = 1_000
_HOLE_S = 300
"""The recording begins with a hole of 253 seconds."""
_BUSY = 1e9


@pytest.mark.parametrize("port", ["Leaf-1_16_1", "Leaf-1_25_1"])
def test_rates_of_a_slow_cache_are_right(port: str) -> None:
    """38 % of the readings move nothing; the rates neither saw nor drift from the sum."""
    with gzip.open(samples("roce-production", "Leaf-1", f"{port}.csv.gz"), "rt") as file:
        rows = list(csv.DictReader(file))
    times = np.array([int(row["SaveTimeUTC"]) for row in rows])
    seconds = (times - times[0]) / _MS
    total = np.cumsum([int(row["InOctets"]) for row in rows])
    feed = Feed(["rx_bytes"], speed_bps=200e9)
    rates, read = [], 0
    for now in range(1, int(seconds[-1])):
        while seconds[read] <= now:
            feed.read(float(seconds[read]), int(total[read]))
            read += 1
        rates.append(float(feed.tick(now).rate[0, 0]))
    rate = np.array(rates)[_HOLE_S:]
    around = np.arange(1, len(rates) + 1)[_HOLE_S:]
    truth = (np.interp(around + 3, seconds, total) - np.interp(around - 3, seconds, total)) / 6
    busy = truth > _BUSY
    known = busy & ~np.isnan(rate)
    assert rate[known].mean() == pytest.approx(truth[known].mean(), rel=0.03)
    assert (rate[known] == 0).mean() < 0.02
    assert np.quantile(rate[known] / truth[known], 0.95) < 1.7
    assert feed.counted("over_rate") == 0
