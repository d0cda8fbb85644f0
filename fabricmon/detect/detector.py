"""`ForestDetector`: one forest per port role and technology, beside plain physics.

    window -> features -> gate -> forest -> k of n -> alarm
                       -> physics --------^

Refits are due by tick count, are computed from what is known at that tick, and are swapped in at a
fixed later tick: the same stream gives the same scores, whether the fit ran in line or in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from fabricmon.detect import physics
from fabricmon.detect.features import NAMES, Features
from fabricmon.detect.nursery import Nursery
from fabricmon.detect.peers import Peers, kind_name
from fabricmon.detect.training import Training
from fabricmon.model.ports import PortRole, Saved
from fabricmon.model.snapshot import Scores
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from fabricmon.api import Context
    from fabricmon.detect.forest import Forest
    from fabricmon.model.incident import Finding
    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import Topology
    from fabricmon.model.window import Window

_SETTLE = 8
"""Ticks until means over two iterations mean something."""
_CROWD = 16
"""From so many ports of a kind on, half of them above the threshold are a new workload."""
_MOST_SCORED = 16_384
"""Ports a tick that a forest judges at the most, the ones that stand out furthest first."""
_EXPLAINED = 3


class ForestConfig(Settings):
    """The `detect` section."""

    trees: int = Field(100, ge=10, le=1000, description="trees in each forest")
    learn_polls: int = Field(20, ge=10, description="polls before the first forest is fitted")
    refit_polls: int = Field(1000, ge=50, description="polls from one refit to the next")
    swap_polls: int = Field(3, ge=0, description="polls from a fit to the use of its forests")
    alarm_polls: int = Field(2, ge=1, le=8, description="polls above the threshold (k) ...")
    alarm_within: int = Field(3, ge=1, le=8, description="... among the last so many (n)")
    seed: int = Field(1, description="seed of forests and samples: the same input, same scores")


class ForestDetector:
    """Scores every port at every tick. A pure state machine."""

    Config: ClassVar[type[Settings]] = ForestConfig

    def __init__(self, config: ForestConfig, context: Context) -> None:
        """Inert: scikit-learn is imported at the first fit."""
        self.config = config
        self.peers = Peers()
        self.features = Features()
        self._nursery = Nursery(config.seed)
        self._training = Training(config, context)
        self._tick = 0
        self._above = np.empty(0, np.uint8)
        self._limits = np.empty((len(NAMES), 0), np.float32)
        self._limits_for: tuple[int, ...] = ()
        self._novel: dict[int, float] = {}

    @property
    def forests(self) -> dict[int, Forest]:
        """The forests in use, per kind (role x technology)."""
        return self._training.forests

    def fit_with(self, executor: Executor) -> None:
        """Fit in this executor instead of in line. The daemon does; scores stay the same."""
        self._training.executor = executor

    def score(self, window: Window, table: PortTable, topology: Topology) -> Scores:
        """Score the tick that was just pushed to `window`."""
        frame = window.frame
        if frame is None:
            raise ValueError("nothing was pushed to the window yet")
        n, self._tick = frame.n_ports, self._tick + 1
        self.peers.follow(table, topology)
        tainted = self._nursery.tainted(self._tick, n)
        self.features.update(window, self.peers, tainted)
        values = self.features.values[:, :n]
        known = frame.age_s <= 3 * frame.interval_s
        kind = self.peers.kind

        evident = self.features.evident()
        anomaly, crossed = self._judge(values, kind, known, evident)
        anomaly[~evident] *= np.float32(0.5)  # without physical evidence, never above the middle
        crossed &= evident
        wrong = np.where(known, physics.judge(values), 0)
        np.fmax(anomaly, np.where(wrong > 0, wrong, np.nan), out=anomaly, casting="same_kind")
        crossed |= wrong > 0
        alarm = self._k_of_n(crossed)

        rows = np.flatnonzero(alarm)
        self._training.remember(kind[rows], values[:, rows].T)
        self._nursery.taint(self._tick, np.flatnonzero(crossed))
        if self._tick > _SETTLE:
            healthy = known & ~evident & ~self._nursery.tainted(self._tick, n)
            self._nursery.take(self._tick, self.peers, healthy, values)
        self._training.step(self._tick, self._nursery, self.peers.kinds)
        return Scores(
            anomaly,
            alarm,
            {int(row): self._explain(values[:, row], int(kind[row])) for row in rows},
            learning=not self.forests,
            drift={kind_name(k): share for k, share in self._novel.items()},
        )

    def feedback(self, findings: Sequence[Finding]) -> None:
        """What was diagnosed at this tick is not taken as healthy."""
        rows = np.array(sorted({row for finding in findings for row in finding.rows}), np.intp)
        if len(rows):
            self._nursery.taint(self._tick, rows)

    def save(self) -> Saved:
        """Training rows per kind, and what each port has shown so far; never a model."""
        saved = Saved({"above": self._above, "kept_out": self._nursery.kept_out})
        saved.add("features", self.features.save())
        rows = {kind_name(kind): rows for kind, rows in self._nursery.samples().items()}
        saved.add("rows", Saved(other=dict(rows)))
        saved.write("about", {"features": NAMES, "tick": self._tick})
        return saved

    def restore(self, saved: Saved) -> None:
        """Go on from there; without a forest one is fitted from the rows at the first tick.

        Raises `KeyError` or `ValueError` where it does not fit; then nothing has changed.
        """
        kinds = {kind_name(kind): kind for kind in range(2 * len(PortRole))}
        about = saved.read("about")
        if about["features"] != list(NAMES):
            raise ValueError(f"the training rows are of other features: {about['features']}")
        features, above = Features.restored(saved.part("features")), saved.ports["above"]
        nursery = Nursery(self.config.seed)
        rows = {kinds[name]: rows for name, rows in saved.part("rows").other.items()}
        nursery.restore(rows, saved.ports["kept_out"])
        self.features, self._nursery, self._above = features, nursery, above
        self._tick, self.peers = int(about["tick"]), Peers()
        self._training.due_at_once = not self.forests

    def _judge(
        self,
        values: NDArray[np.float32],
        kind: NDArray[np.int16],
        known: NDArray[np.bool_],
        evident: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """float32[N] anomaly, NaN without a forest; bool[N] above the threshold."""
        limits = self._limits_of(kind)
        out = np.zeros(len(kind), np.bool_)
        for value, limit in zip(values, limits, strict=True):
            out |= value > limit
        out &= known
        anomaly = np.where(known & ~np.isnan(limits[0]), np.float32(0), np.float32(np.nan))
        crossed = np.zeros(len(kind), np.bool_)
        for one, forest in self.forests.items():
            ports = int(np.count_nonzero(known & (kind == one)))
            rows = np.flatnonzero(out & (kind == one))
            self._drift(one, int(np.count_nonzero(~evident[rows])) / max(ports, 1))
            if not len(rows):
                continue
            rows = _furthest(values, forest, rows)
            raw = forest.score(values[:, rows])
            anomaly[rows] = forest.anomaly(raw)
            above = rows[raw > forest.threshold]
            if ports < _CROWD or 2 * len(above) < ports:
                crossed[above] = True
        return anomaly, crossed

    def _limits_of(self, kind: NDArray[np.int16]) -> NDArray[np.float32]:
        """float32[F,N]: what each port has to exceed to be judged; NaN without a forest."""
        made_for = (id(kind), *(id(forest) for forest in self.forests.values()))
        if made_for != self._limits_for or self._limits.shape[1] != len(kind):
            by_kind = np.full((len(NAMES), 2 * len(PortRole)), np.nan, np.float32)
            for one, forest in self.forests.items():
                by_kind[:, one] = forest.limit
            self._limits_for, self._limits = made_for, by_kind[:, kind]
        return self._limits

    def _drift(self, kind: int, novel: float) -> None:
        self._novel[kind] = 0.95 * self._novel.get(kind, 0.0) + 0.05 * novel

    def _k_of_n(self, crossed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[N]: above the threshold in k of the last n ticks. One bit a tick."""
        grown = np.zeros(len(crossed) - len(self._above), np.uint8)
        self._above = np.concatenate([self._above, grown])
        mask = np.uint8((1 << self.config.alarm_within) - 1)
        self._above = (((self._above << 1) | crossed) & mask).astype(np.uint8)
        alarm: NDArray[np.bool_] = np.bitwise_count(self._above) >= self.config.alarm_polls
        return alarm

    def _explain(self, values: NDArray[np.float32], kind: int) -> tuple[str, ...]:
        """The features that lie furthest above what healthy ports show, strongest first."""
        forest = self.forests.get(kind)
        excess = forest.excess(values) if forest else values
        order = np.argsort(-excess, kind="stable")[:_EXPLAINED]
        return tuple(NAMES[i] for i in order if excess[i] > (1 if forest else 0))


def _furthest(
    values: NDArray[np.float32], forest: Forest, rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The rows a forest looks at: all, or those that stand out furthest."""
    if len(rows) <= _MOST_SCORED:
        return rows
    excess = forest.excess(values[:, rows]).max(axis=0)
    return rows[np.sort(np.argsort(-excess, kind="stable")[:_MOST_SCORED])]
