"""What needs no forest and no learning: physics that is wrong on any port, from the first tick.

A forest is blind to a counter that never moved while it learned, and cannot tell bad from worse.
Here a port that stands still most of the time, or loses, damages or flaps, gets its score at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.detect.features import LASTING, NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MUST_BE_ZERO = ("drops", "errors", "downs")
_WORST = 14.0
"""A million a minute."""
_HELD_BACK = 0.5


def judge(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[N]: 0 where nothing is wrong, else 0.5..1 by how much. `values` float32[F,N]."""
    score = np.zeros(values.shape[1], np.float32)
    for name in _MUST_BE_ZERO:
        value = values[NAMES.index(f"{name} over own past")]
        graded = 0.5 + np.minimum(value / _WORST, 1) / 2
        np.maximum(score, np.where(value > LASTING, graded, 0), out=score, casting="same_kind")
    for name in ("stall", "press"):
        level = values[NAMES.index(name)]
        risen = values[NAMES.index(f"{name} over own past")]
        wrong = (level > _HELD_BACK) & (risen > _HELD_BACK / 2)
        np.maximum(score, np.where(wrong, level, 0), out=score, casting="same_kind")
    return score
