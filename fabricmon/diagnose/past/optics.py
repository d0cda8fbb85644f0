"""Slow trends of a link's light and of the errors that FEC still corrects: what comes before loss.

Each signal is on a scale where higher is worse and one unit is a clear step: decades of an error
rate, three decibels of received power. It is compared with what the port itself has shown, since
modules and lengths differ: a level far above its past that stays there is fading, however small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.frame import Frame

FADING = 1.0
"""Units above its past at which a link is fading."""
_LEARN = 20
"""Polls before a port has a past."""
_FAST, _SLOW = np.float32(0.3), np.float32(0.02)
"""Weight of the latest poll in what a port shows now, and in its past."""
_STAY = 5
"""Polls in a row that it takes."""
_FLOOR = {"fec_corrected": 2.0, "pre_fec_ber": -8.0, "effective_ber": -13.0}
"""Decades below which an error rate says nothing: hundreds a second, or that share of bits."""
_STEP_DB = 3.0
SIGNALS = ("fec_corrected", "pre_fec_ber", "effective_ber", "rx_power_dbm")


def _units(frame: Frame, signal: str) -> NDArray[np.float32] | None:
    """float32[N], higher is worse, NaN unknown; None where no source has it."""
    if signal == "fec_corrected":
        if frame.row(signal) is None:
            return None
        value = frame.rate_of(signal)
    elif signal in frame.gauges:
        value = frame.gauges[signal]
    else:
        return None
    if signal == "rx_power_dbm":
        return (-value / np.float32(_STEP_DB)).astype(np.float32)
    floor = np.float32(10.0 ** _FLOOR[signal])
    return np.log10(np.fmax(value, floor) + value * 0).astype(np.float32)


class Optics:
    """What each port shows now and has shown. One per fabric; grows with it."""

    def __init__(self) -> None:
        """Empty."""
        self._now = np.empty((len(SIGNALS), 0), np.float32)
        self._past = np.empty((len(SIGNALS), 0), np.float32)
        self._seen = np.empty((len(SIGNALS), 0), np.int32)
        self._high = np.empty((len(SIGNALS), 0), np.int32)

    def update(self, frame: Frame) -> None:
        """Take one tick."""
        self._grow(frame.n_ports)
        for at, signal in enumerate(SIGNALS):
            level = _units(frame, signal)
            if level is not None:
                self._learn(at, level)

    def _learn(self, at: int, level: NDArray[np.float32]) -> None:
        now, past, known = self._now[at], self._past[at], np.isfinite(level)
        fresh = known & (self._seen[at] == 0)
        now[fresh] = past[fresh] = level[fresh]
        now[known] += _FAST * (level - now)[known]
        rise = now - past
        high = known & (rise >= FADING) & (self._seen[at] >= _LEARN)
        self._high[at] = np.where(high, self._high[at] + 1, np.where(known, 0, self._high[at]))
        # While it is bad, it teaches a tenth as fast: what never gets better is no longer news.
        weight = np.where(self._seen[at] < _LEARN, _FAST, np.where(high, _SLOW / 10, _SLOW))
        past[known] += (weight * rise)[known]
        self._seen[at] += known

    def _grow(self, n: int) -> None:
        more = n - self._now.shape[1]
        if more > 0:
            pad = ((0, 0), (0, more))
            self._now, self._past = np.pad(self._now, pad), np.pad(self._past, pad)
            self._seen, self._high = np.pad(self._seen, pad), np.pad(self._high, pad)

    def fading(self) -> NDArray[np.intp]:
        """int[M,2]: port and index into SIGNALS of what is fading, the steepest first."""
        at, row = np.nonzero(self._high >= _STAY)
        order = np.argsort(-(self._now - self._past)[at, row], kind="stable")
        return np.stack([row, at], axis=1)[order]

    def levels(self, row: int, signal: int) -> tuple[float, float]:
        """What a port shows of a signal now and has shown, in the counter's own unit."""
        return tuple(  # type: ignore[return-value]
            -_STEP_DB * units if SIGNALS[signal] == "rx_power_dbm" else 10.0**units
            for units in (float(self._now[signal, row]), float(self._past[signal, row]))
        )
