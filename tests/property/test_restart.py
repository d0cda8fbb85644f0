"""Restarts at any moment, also between a reading and its tick, on a machine that lags."""

from __future__ import annotations

import bisect
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.readings import SECOND, START, Feed

from fabricmon.normalize import Normalizer

if TYPE_CHECKING:
    from fabricmon.model.frame import Frame
    from fabricmon.model.ports import Saved

_RATE = 1_000_000
_EVERY_S, _INTERVAL_S = 0.05, 0.5
_LIVES, _LIFE_S, _DOWN_S = 5, 4.0, 3.0
_LAG_S = 1.0
_HORIZON_S = 60.0
_TIMES = [k * _EVERY_S for k in range(1, round(_HORIZON_S / _EVERY_S))]
"""When a device writes what it has counted into a file; each life reads that from its beginning."""


class _Life:
    """A process that polls the file, ticks, and saves its state now and then, until it is killed.

    Polls take their time and ticks come late, by up to a second: two intervals.
    """

    def __init__(self, dice: Random, feed: Feed, now_s: float) -> None:
        self._dice, self._feed = dice, feed
        self.now_s = now_s
        self.saved: tuple[float, Saved] | None = None
        self._read_to = 0.0

    def run(self) -> list[Frame]:
        """Its frames; `saved` and `now_s` are as it left them."""
        frames, end_s, poll = [], self.now_s + self._dice.random() * _LIFE_S, None
        while self.now_s < end_s:
            tick_s = self.now_s
            poll = poll or self._poll(first=not frames)
            settled_s = tick_s + 0.8 * _INTERVAL_S + self._lag(0.1)
            self.now_s = min(settled_s, max(self.now_s, poll[1]))
            if poll[1] <= settled_s:
                poll = self._take(poll[0])
            if frames or self.saved:
                self._save(tick_s - _INTERVAL_S)
            frames.append(self._feed.tick(tick_s, _INTERVAL_S))
            self._save(tick_s)
            self.now_s = max(self.now_s, tick_s + _INTERVAL_S)
            if poll and poll[1] < self.now_s:
                poll = self._take(poll[0])
                self._save(tick_s)
            self.now_s += self._lag(0.05)
        return frames

    def _lag(self, odds: float) -> float:
        return self._dice.random() * _LAG_S if self._dice.random() < odds else 0.0

    def _poll(self, *, first: bool) -> tuple[float, float]:
        """Until when it reads, and when that is there."""
        takes_s = 0.1 * self._dice.random() + self._lag(1.0 if first else 0.2)
        return self.now_s + takes_s * self._dice.random(), self.now_s + takes_s

    def _take(self, until_s: float) -> None:
        first, stop = (bisect.bisect_right(_TIMES, at) for at in (self._read_to, until_s))
        for at in _TIMES[first:stop]:
            self._feed.read(at, round(_RATE * at))
        self._read_to = until_s

    def _save(self, tick_s: float) -> None:
        if self._dice.random() < 0.3:
            saved = self._feed.normalizer.save()
            saved.ports = {name: array.copy() for name, array in saved.ports.items()}
            self.saved = tick_s, saved


def _reborn(saved: tuple[float, Saved] | None, now_s: float) -> Feed:
    feed = Feed()
    if saved is not None:
        feed.normalizer = Normalizer(feed.table, "f", feed.context)
        feed.normalizer.restore(saved[1], feed.table)
        gap = now_s - saved[0] > 2.5 * _INTERVAL_S
        feed.normalizer.wake(START + round(now_s * SECOND), gap=gap)
    return feed


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_no_restart_makes_a_rate_wrong(seed: int) -> None:
    """Whatever was saved and read when: each rate is the true one, each total one that was told."""
    dice = Random(seed)
    told = {round(_RATE * at) for at in _TIMES} | {0}
    now_s, saved = 1.0, None
    for _ in range(_LIVES):
        life = _Life(dice, _reborn(saved, now_s), now_s + dice.random())
        life.saved = saved
        for frame in life.run():
            rates = frame.rate[:, 0][~np.isnan(frame.rate[:, 0])]
            assert rates == pytest.approx(np.full(len(rates), _RATE), rel=1e-5)
            assert set(frame.total[:, 0].tolist()) <= told
        saved, now_s = life.saved, life.now_s + dice.random() * _DOWN_S
