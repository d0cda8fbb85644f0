"""One isolation forest with a threshold calibrated on healthy rows it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PRIOR_SHARE = 0.02
_PRIOR_LOW, _PRIOR_HIGH = 0.01, 10.0
"""Where the prior of a column that never moved lies: below a percent of time, above any log rate
a port that starts to lose packets begins with."""
_TAIL = 0.999
_MARGIN = 0.02
"""Scores wander by under 0.01 between forests; the threshold keeps twice that from the tail."""
_HIGHEST = 0.65
"""A threshold above this would be deaf: where healthy rows score so high, physics decides."""
_WORST = 0.9
_CEILING = 0.995


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """A fitted forest. Scores are 0..1, higher = worse; `threshold` maps to an anomaly of 0.5.

    ceiling  float32[F]  what healthy rows stay below, feature by feature
    centre   float32[F]  medians of the training rows, to see drift by
    """

    model: Any
    threshold: float
    usual: float
    ceiling: NDArray[np.float32]
    centre: NDArray[np.float32]

    def score(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[M]: raw isolation scores of rows float32[M,F]."""
        return (-self.model.score_samples(rows)).astype(np.float32)

    def anomaly(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[M]: 0 the usual, 0.5 the threshold, 1 the worst a forest can say."""
        low = (raw - self.usual) / max(self.threshold - self.usual, 1e-6) / 2
        high = 0.5 + (raw - self.threshold) / max(_WORST - self.threshold, 1e-6) / 2
        return np.clip(np.where(raw < self.threshold, low, high), 0, 1).astype(np.float32)

    def stands_out(self, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """bool[M]: some feature of values float32[F,M] is above what healthy rows stay below."""
        out: NDArray[np.bool_] = np.any(values > self.ceiling[:, None], axis=0)
        return out


def fit(train: NDArray[np.float32], held: NDArray[np.float32], *, trees: int, seed: int) -> Forest:
    """Fit on rows float32[M,F]; calibrate on the rows held back. The same input, the same forest.

    A column that never moved is invisible to a forest, since nothing can be split there: such
    columns get a few prior rows, log-uniform over what they could show.
    """
    from sklearn.ensemble import IsolationForest  # noqa: PLC0415 - a second of imports, used late

    generator = np.random.default_rng(seed)
    model = IsolationForest(n_estimators=trees, max_samples="auto", random_state=seed)
    model.fit(np.concatenate([train, _prior(train, generator)]))
    raw = -model.score_samples(held)
    return Forest(
        model=model,
        threshold=min(float(np.quantile(raw, _TAIL)) + _MARGIN, _HIGHEST),
        usual=float(np.median(raw)),
        ceiling=np.quantile(held, _CEILING, axis=0).astype(np.float32),
        centre=np.median(train, axis=0).astype(np.float32),
    )


def _prior(train: NDArray[np.float32], generator: np.random.Generator) -> NDArray[np.float32]:
    """float32[P,F]: training rows in which one column that never moved shows something."""
    still = np.flatnonzero(np.ptp(train, axis=0) == 0)
    each = max(1, round(len(train) * _PRIOR_SHARE / max(len(still), 1)))
    rows = train[generator.integers(0, len(train), each * len(still))].copy()
    column = np.repeat(still, each)
    low, high = np.log(_PRIOR_LOW), np.log(_PRIOR_HIGH)
    rows[np.arange(len(rows)), column] += np.exp(generator.uniform(low, high, len(rows)))
    return rows
