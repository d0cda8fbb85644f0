"""One isolation forest with a threshold calibrated on healthy rows it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.detect.features import NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PRIOR_SHARE = 0.02
_PRIOR_LOW, _PRIOR_HIGH = 0.05, 4.0
"""Where the prior of a column that never moved lies: from next to nothing to fifteen ceilings."""
_TAIL = 0.999
_MARGIN = 0.02
"""Scores wander by under 0.01 between forests; the threshold keeps twice that from the tail."""
_HIGHEST = 0.65
"""A threshold above this would be deaf: where healthy rows score so high, physics decides."""
_WORST = 0.9
_CEILING = 0.995
_SHARE_FLOOR, _LOG_FLOOR = 0.02, 0.5
"""What a feature may always show, however quiet its ports were while they were learned."""

_IS_SHARE = np.array([n.startswith(("stall", "press", "use")) for n in NAMES])
_FLOORS = np.where(_IS_SHARE, _SHARE_FLOOR, _LOG_FLOOR).astype(np.float32)
_FAMILIES = (
    ("stall", "press"),
    ("rx_pause", "tx_pause", "ecn", "depth", "cnp"),
    ("drops", "errors", "downs", "resent"),
    ("use",),
)
_FAMILY_ROWS = [
    [i for i, name in enumerate(NAMES) if name.startswith(family)] for family in _FAMILIES
]
_BOTH = [
    [NAMES.index(f"{name} over own past"), NAMES.index(f"{name} over peers")]
    for name in ("stall", "press")
]


def view(values: NDArray[np.float32], ceiling: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[M,V]: what a forest sees of features float32[F,M].

    Every feature as a multiple of what healthy rows stay below, on a log scale; of these the three
    largest, the largest of each family, and how far both past and peers are exceeded. One feature
    out of twenty that stands alone would be picked by too few splits to be noticed; so it moves
    three columns of eight.
    """
    excess = np.log2(1 + values / (ceiling + _FLOORS)[:, None])
    top = np.partition(excess, (-3, -2, -1), axis=0)[-3:]
    families = [excess[rows].max(axis=0) for rows in _FAMILY_ROWS]
    both = np.max([excess[rows].min(axis=0) for rows in _BOTH], axis=0)
    return np.stack([*top, *families, both], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """A fitted forest. Scores are 0..1, higher = worse; `threshold` maps to an anomaly of 0.5.

    ceiling  float32[F]  what healthy ports stay below, feature by feature
    """

    model: Any
    threshold: float
    usual: float
    ceiling: NDArray[np.float32]

    def score(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[M]: raw isolation scores of features float32[F,M]."""
        return (-self.model.score_samples(view(values, self.ceiling))).astype(np.float32)

    def anomaly(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[M]: 0 the usual, 0.5 the threshold, 1 the worst a forest can say."""
        low = (raw - self.usual) / max(self.threshold - self.usual, 1e-6) / 2
        high = 0.5 + (raw - self.threshold) / max(_WORST - self.threshold, 1e-6) / 2
        return np.clip(np.where(raw < self.threshold, low, high), 0, 1).astype(np.float32)

    def excess(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[F,M]: features as multiples of what healthy ports stay below."""
        return values / (self.limit if values.ndim == 1 else self.limit[:, None])

    @property
    def limit(self) -> NDArray[np.float32]:
        """float32[F]: what a port has to exceed in some feature to be judged at all."""
        return self.ceiling + _FLOORS


def fit(train: NDArray[np.float32], held: NDArray[np.float32], *, trees: int, seed: int) -> Forest:
    """Fit on healthy rows float32[M,F]; calibrate on the rows held back. Repeatable.

    A column that never moved is invisible to a forest, since nothing can be split there: such
    columns get a few prior rows, log-uniform over what they could show.
    """
    from sklearn.ensemble import IsolationForest  # noqa: PLC0415 - a second of imports, used late

    generator = np.random.default_rng(seed)
    ceiling = np.quantile(train, _CEILING, axis=0).astype(np.float32)
    seen = view(train.T, ceiling)
    model = IsolationForest(n_estimators=trees, max_samples="auto", random_state=seed)
    model.fit(np.concatenate([seen, _prior(seen, generator)]))
    raw = -model.score_samples(view(held.T, ceiling))
    return Forest(
        model=model,
        threshold=min(float(np.quantile(raw, _TAIL)) + _MARGIN, _HIGHEST),
        usual=float(np.median(raw)),
        ceiling=ceiling,
    )


def _prior(seen: NDArray[np.float32], generator: np.random.Generator) -> NDArray[np.float32]:
    """float32[P,V]: training rows in which one column that never moved shows something."""
    still = np.flatnonzero(np.ptp(seen, axis=0) == 0)
    each = max(1, round(len(seen) * _PRIOR_SHARE / max(len(still), 1)))
    rows = seen[generator.integers(0, len(seen), each * len(still))].copy()
    column = np.repeat(still, each)
    low, high = np.log(_PRIOR_LOW), np.log(_PRIOR_HIGH)
    rows[np.arange(len(rows)), column] += np.exp(generator.uniform(low, high, len(rows)))
    return rows
