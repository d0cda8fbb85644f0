"""What each port shows now, and what it has always shown.

What a fabric does in every training iteration is its normal state. So each signal is averaged over
a short span of polls, and the span means of the past are kept as block statistics: a robust maximum
(what the port has reached before) and a median (what it usually shows). A rise is counted from the
robust maximum. Blocks that an incident touched are left out for the ports it touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.ports import Saved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.window import Window

SPAN = 2
"""Polls a level is averaged over."""
BLOCK = 8
"""Polls in one block of the past: with the span, longer than most training iterations in polls."""
BLOCKS = 12
"""Blocks kept."""
PAST = BLOCK * BLOCKS
"""Polls until the past is as long as it will ever be."""
LONG = 8
"""Polls of a long level: some iterations of most jobs."""
TRACKED = {
    "stall": ("stall", SPAN),
    "press": ("press", SPAN),
    "tx_use": ("tx_use", SPAN),
    "tx_use_long": ("tx_use", LONG),
    "tx_use_poll": ("tx_use", 1),
    "rx_use": ("rx_use", SPAN),
    "rx_use_long": ("rx_use", LONG),
    "rx_use_poll": ("rx_use", 1),
    "rx_pause": ("rx_pause", SPAN),
    "tx_pause": ("tx_pause", SPAN),
    "ecn": ("ecn", SPAN),
    "drops": ("drops", SPAN),
    "errors": ("errors", SPAN),
    "depth": ("depth", SPAN),
    "resent": ("resent", SPAN),
}
"""Levels whose past is kept: the signal of the window, and the polls it is averaged over."""
_SLOW = frozenset({"stall", "press", "rx_pause", "tx_pause"})
"""Levels whose maximum is forgotten slowly: a job that comes back congests as it did before."""
_FORGET = np.float32(0.99)
"""What is left of it with each block."""
_LOW = frozenset(name for name in TRACKED if "_use" in name)
"""Levels whose robust minimum is kept as well."""
_LOW_ONLY = ("low", "minima")


def known_mean(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[N]: mean over the first axis of what is known; NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, np.float32(0)).sum(axis=0, dtype=np.float32)
    out = np.full(total.shape, np.nan, np.float32)
    np.divide(total, count, out=out, where=count > 0)
    return out


def _ranked(blocks: NDArray[np.float32], *, top: bool) -> NDArray[np.float32]:
    """float32[N]: the second largest (`top`) or the median of [G,N], NaN where there is no block.

    With few blocks the largest counts, so that a short past is not read as a calm one.
    """
    ordered = np.sort(blocks, axis=0)  # NaN sorts last
    count = (~np.isnan(blocks)).sum(axis=0)
    place = np.where(count > 3, count - 2, count - 1) if top else (count - 1) // 2
    picked = np.take_along_axis(ordered, np.maximum(place, 0)[None, :], axis=0)[0]
    return np.where(count > 0, picked, np.float32(np.nan))


class Levels:
    """Span means of the latest tick and the ports' own past. One per fabric; grows with it."""

    def __init__(self) -> None:
        """Empty."""
        self.ticks = 0
        self._n = 0
        self._now: dict[str, NDArray[np.float32]] = {}
        self._high: dict[str, NDArray[np.float32]] = {}
        self._usual: dict[str, NDArray[np.float32]] = {}
        self._maxima: dict[str, NDArray[np.float32]] = {}
        self._means: dict[str, NDArray[np.float32]] = {}
        self._low: dict[str, NDArray[np.float32]] = {}
        self._minima: dict[str, NDArray[np.float32]] = {}
        """Negated, so that the largest is the lowest."""
        self._running: dict[str, NDArray[np.float32]] = {}
        self._touched = np.zeros(0, np.bool_)
        for name in TRACKED:
            self._high[name] = self._usual[name] = np.zeros(0, np.float32)
            self._maxima[name] = self._means[name] = np.zeros((BLOCKS, 0), np.float32)
            if name in _LOW:
                self._low[name] = np.zeros(0, np.float32)
                self._minima[name] = np.zeros((BLOCKS, 0), np.float32)
            self._running[name] = np.zeros((4, 0), np.float32)

    def update(self, window: Window, touched: NDArray[np.intp]) -> None:
        """Take the latest tick of `window`; `touched` rows are in an incident and do not teach."""
        assert window.frame is not None
        self._grow(window.frame.n_ports)
        self._touched[touched] = True
        ends = self.ticks % BLOCK == BLOCK - 1
        for place, name in enumerate(TRACKED):
            signal, span = TRACKED[name]
            level = known_mean(window.past(signal, span))
            self._now[name] = level
            top, total, count, bottom = self._running[name]
            np.fmax(top, level, out=top)
            np.fmin(bottom, level, out=bottom)
            known = ~np.isnan(level)
            total += np.where(known, level, np.float32(0))
            count += known
            if ends:
                self._close_block(name)
            if place % BLOCK == self.ticks % BLOCK or self.ticks <= 2 * BLOCK:
                self._refresh(name)
        if ends:
            self._touched[:] = False
        self.ticks += 1

    def _grow(self, n: int) -> None:
        more = n - self._n
        if more <= 0:
            return
        self._n = n
        self._touched = np.pad(self._touched, (0, more))
        for name in TRACKED:
            stores = [self._high, self._usual, self._maxima, self._means]
            stores += [self._low, self._minima] if name in _LOW else []
            for store in stores:
                old = store[name]
                pad = np.full((*old.shape[:-1], more), np.nan, np.float32)
                store[name] = np.concatenate([old, pad], axis=-1)
            fresh = np.array([[np.nan], [0], [0], [np.nan]], np.float32).repeat(more, axis=1)
            self._running[name] = np.concatenate([self._running[name], fresh], axis=1)

    def _stores(self) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Every array per level, by what it holds."""
        return {
            "now": self._now, "high": self._high, "usual": self._usual, "maxima": self._maxima,
            "means": self._means, "low": self._low, "minima": self._minima,
            "running": self._running,
        }  # fmt: skip

    def save(self) -> Saved:
        """Levels and their past."""
        saved = Saved({"touched": self._touched})
        for what, store in self._stores().items():
            saved.add(what, Saved(dict(store)))
        saved.write("about", {k: list(v) for k, v in TRACKED.items()})
        saved.write("ticks", self.ticks)
        return saved

    @classmethod
    def restored(cls, saved: Saved) -> Levels:
        """Go on from there. Raises `KeyError` or `ValueError` where it was of another kind."""
        levels = cls()
        if saved.read("about") != {k: list(v) for k, v in TRACKED.items()}:
            raise ValueError("the levels are others")
        for what, store in levels._stores().items():
            part = saved.part(what).ports
            store |= {name: part[name] for name in (_LOW if what in _LOW_ONLY else TRACKED)}
        levels._touched, levels.ticks = saved.ports["touched"], int(saved.read("ticks"))
        levels._n = len(levels._touched)
        return levels

    def _close_block(self, name: str) -> None:
        slot = self.ticks // BLOCK % BLOCKS
        top, total, count, bottom = self._running[name]
        new = np.isnan(self._high[name])  # a port without a past learns whatever it shows
        learn = (count > 0) & (new | ~self._touched)
        self._maxima[name][slot] = np.where(learn, top, np.float32(np.nan))
        mean = np.divide(total, count, out=np.full_like(total, np.nan), where=learn)
        self._means[name][slot] = mean
        if name in _LOW:
            self._minima[name][slot] = np.where(learn, -bottom, np.float32(np.nan))
        top[:] = bottom[:] = np.nan
        total[:] = count[:] = 0

    def _refresh(self, name: str) -> None:
        """Recompute the statistics of one signal; ports with no free block keep the old ones."""
        for store, blocks, top in (
            (self._high, self._maxima[name], True),
            (self._usual, self._means[name], False),
        ):
            fresh, old = _ranked(blocks, top=top), store[name]
            store[name] = np.where(np.isnan(fresh), old, fresh)
            if top and name in _SLOW:
                store[name] = np.fmax(store[name], old * _FORGET)
        if name in _LOW:
            lowest = -_ranked(self._minima[name], top=True)
            self._low[name] = np.where(np.isnan(lowest), self._low[name], lowest)

    def now(self, signal: str) -> NDArray[np.float32]:
        """float32[N]: mean of the last `SPAN` polls, NaN unknown."""
        return self._now[signal]

    def high(self, signal: str) -> NDArray[np.float32]:
        """float32[N]: what a span mean has reached before; NaN while there is no past."""
        return self._high[signal]

    def usual(self, signal: str) -> NDArray[np.float32]:
        """float32[N]: median of block means of the past; NaN while there is none."""
        return self._usual[signal]

    def low(self, signal: str) -> NDArray[np.float32]:
        """float32[N]: the least a level has fallen to before (use only); NaN without a past."""
        return self._low[signal]
