"""When forests are fitted, where, and whether a new one may replace the old."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.detect.forest import Forest, fit
from fabricmon.detect.peers import kind_name
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from numpy.typing import NDArray

    from fabricmon.api import Context
    from fabricmon.detect.detector import ForestConfig
    from fabricmon.detect.nursery import Nursery

_ENOUGH = 100
"""Rows without which no forest is fitted."""
_HELD_BACK = 4
"""One row in so many calibrates instead of training."""
_REMEMBERED, _A_TICK = 256, 16
"""Alarmed rows kept per kind, and the most that one tick adds to them."""
_AGREE = 0.8
"""Share of the old forest's alarms that a new one must repeat ..."""
_CALM = 0.05
"""... and the share of healthy rows that may cross its threshold; evidence is asked for besides."""


class Training:
    """The forests in use, per kind, and the fit that is under way."""

    def __init__(self, config: ForestConfig, context: Context) -> None:
        """No forests; fits run in line until `executor` is set."""
        self._config = config
        self._context = context
        self.forests: dict[int, Forest] = {}
        self.executor: Executor | None = None
        self.due_at_once = False
        self._fit: Callable[[], dict[int, Forest]] | None = None
        self._swap_at = 0
        self._alarmed: dict[int, NDArray[np.float32]] = {}

    def remember(self, kinds: NDArray[np.int16], rows: NDArray[np.float32]) -> None:
        """Keep rows float32[M,F] that were alarmed on: the canary for the next forests."""
        for kind in np.unique(kinds):
            mine = rows[kinds == kind][:_A_TICK]
            kept = self._alarmed.get(int(kind), mine[:0])
            self._alarmed[int(kind)] = np.concatenate([kept, mine])[-_REMEMBERED:]

    def step(self, tick: int, nursery: Nursery, kinds: list[int]) -> None:
        """Swap in what is ready and start what is due at this tick."""
        if self._fit is not None and tick >= self._swap_at:
            samples = nursery.samples()
            for kind, forest in self._fit().items():
                self._swap(kind, forest, samples[kind])
            self._fit = None
        if self._fit is not None:
            return
        again = self._is_due(tick)
        learning = tick % self._config.learn_polls == 0 or self.due_at_once
        due = [
            kind
            for kind in kinds
            if nursery.count(kind) >= _ENOUGH and (again or (learning and kind not in self.forests))
        ]
        self.due_at_once = False
        if due:
            self._begin(
                tick, {kind: rows for kind, rows in nursery.samples().items() if kind in due}
            )

    def _is_due(self, tick: int) -> bool:
        """At 1, 2, 4, 8 ... times the learning time, and then every `refit_polls`."""
        learn = self._config.learn_polls
        young = tick < self._config.refit_polls
        turns, rest = divmod(tick, learn if young else self._config.refit_polls)
        return rest == 0 and turns > 0 and (not young or turns.bit_count() == 1)

    def _begin(self, tick: int, samples: dict[int, NDArray[np.float32]]) -> None:
        trees, seed = self._config.trees, self._config.seed
        self._swap_at = tick + self._config.swap_polls
        if self.executor is None:
            forests = _fit_all(samples, trees, seed)
            self._fit = lambda: forests
            return
        future: Future[dict[int, Forest]] = self.executor.submit(_fit_all, samples, trees, seed)

        def fitted() -> dict[int, Forest]:
            try:
                return future.result()
            except CancelledError:  # the executor was shut down: the daemon stopped and started
                return _fit_all(samples, trees, seed)

        self._fit = fitted

    def _swap(self, kind: int, new: Forest, healthy: NDArray[np.float32]) -> None:
        old, report, name = self.forests.get(kind), self._context.report, kind_name(kind)
        if old is not None:
            alarmed = self._alarmed.get(kind)
            repeated = 1.0
            if alarmed is not None and len(alarmed):
                before = float((old.score(alarmed.T) > old.threshold).mean())
                after = float((new.score(alarmed.T) > new.threshold).mean())
                repeated = after / before if before > 0 else 1.0
            restless = float((new.score(healthy.T) > new.threshold).mean())
            if repeated < _AGREE or restless > _CALM:
                report.emit(Event.MODEL_REJECTED, name, repeated=repeated, restless=restless)
                return
        self.forests[kind] = new
        report.emit(Event.MODEL_FITTED, name, rows=len(healthy), threshold=new.threshold)


def _fit_all(samples: dict[int, NDArray[np.float32]], trees: int, seed: int) -> dict[int, Forest]:
    forests = {}
    for kind, rows in samples.items():
        order = np.random.default_rng(seed).permutation(len(rows))
        held, train = rows[order[::_HELD_BACK]], np.delete(rows, order[::_HELD_BACK], axis=0)
        forests[kind] = fit(train, held, trees=trees, seed=seed)
    return forests
