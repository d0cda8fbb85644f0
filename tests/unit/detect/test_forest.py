"""One forest: calibrated, repeatable, not blind."""

from __future__ import annotations

import numpy as np
from support.selfmon import events

from fabricmon.api import Context
from fabricmon.detect.detector import ForestConfig
from fabricmon.detect.features import NAMES
from fabricmon.detect.forest import fit
from fabricmon.detect.nursery import Nursery
from fabricmon.detect.peers import Peers
from fabricmon.detect.training import Training
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

_F = len(NAMES)


def _rows(count: int, seed: int = 0, scale: float = 0.01) -> np.ndarray:
    rows = np.zeros((count, _F), np.float32)
    rows[:, :4] = np.random.default_rng(seed).exponential(scale, (count, 4))
    return rows


def test_healthy_rows_stay_below_the_threshold() -> None:
    """Hardly any healthy row crosses the calibrated threshold, and a far one does."""
    forest = fit(_rows(2000), _rows(800, 1), trees=50, seed=1)
    assert (forest.score(_rows(3000, 2).T) > forest.threshold).mean() < 0.003
    far = _rows(1, 3)
    far[0, :4] = 0.5
    assert forest.score(far.T)[0] > forest.threshold
    assert forest.anomaly(forest.score(far.T))[0] > 0.5


def test_a_column_that_never_moved_counts_when_it_jumps() -> None:
    """The prior rows make an always-zero column matter: the score of a jump rises."""
    forest = fit(_rows(2000), _rows(800, 1), trees=50, seed=1)
    plain = np.zeros((1, _F), np.float32)
    jump = plain.copy()
    jump[0, 10] = 10.0
    assert forest.score(jump.T)[0] > forest.score(plain.T)[0] + 0.05


def test_the_same_rows_give_the_same_forest() -> None:
    """Scores repeat to the bit under one seed."""
    one, other = (fit(_rows(500), _rows(200, 1), trees=20, seed=3) for _ in range(2))
    assert one.threshold == other.threshold
    assert np.array_equal(one.score(_rows(50, 9).T), other.score(_rows(50, 9).T))


def test_anomaly_is_a_half_at_the_threshold_and_grows() -> None:
    """The published score is monotone in the raw one and 0.5 at the threshold."""
    forest = fit(_rows(500), _rows(200, 1), trees=20, seed=3)
    raw = np.linspace(0.2, 0.95, 50, dtype=np.float32)
    anomaly = forest.anomaly(raw)
    assert (np.diff(anomaly) >= 0).all()
    assert forest.anomaly(np.array([forest.threshold], np.float32))[0] == 0.5


def _training() -> tuple[Training, Context]:
    clock = ManualClock()
    context = Context(clock, Reporter(clock))
    config = ForestConfig(trees=20, learn_polls=10, refit_polls=50, swap_polls=2)
    return Training(config, context), context


def _peers(ports: int) -> Peers:
    peers = Peers()
    peers.kind, peers.kinds = np.zeros(ports, np.int16), [0]
    return peers


def _fill(nursery: Nursery, rows: np.ndarray, start: int) -> None:
    peers, healthy = _peers(64), np.ones(64, np.bool_)
    for i in range(len(rows) // 64):
        nursery.take(start + i, peers, healthy, rows[i * 64 : (i + 1) * 64].T)


def test_a_forest_is_swapped_in_at_a_fixed_later_tick() -> None:
    """Due at tick 10, in use from tick 12, whatever the fit took."""
    training, _ = _training()
    nursery = Nursery(1)
    _fill(nursery, _rows(640), 0)
    for tick in range(1, 13):
        training.step(tick, nursery, [0])
        assert bool(training.forests) is (tick >= 12)


def test_a_forest_that_forgets_alarms_is_rejected() -> None:
    """A refit on rows that look like the old alarms would fall silent: the old one stays."""
    training, context = _training()
    nursery = Nursery(1)
    _fill(nursery, _rows(640), 0)
    for tick in range(1, 13):
        training.step(tick, nursery, [0])
    old = training.forests[0]
    alarmed = _rows(200, 5, scale=0.5)
    alarmed = alarmed[old.score(alarmed.T) > old.threshold]
    assert len(alarmed) > 20
    training.remember(np.zeros(len(alarmed), np.int16), alarmed)
    _fill(nursery, _rows(64 * 200, 6, scale=0.5), 20)
    training.step(20, nursery, [0])
    training.step(22, nursery, [0])
    assert training.forests[0] is old
    assert events(context, "model_rejected") == 1


def test_rows_before_a_diagnosis_are_taken_back() -> None:
    """A port that is diagnosed loses the rows that still waited."""
    nursery = Nursery(1)
    peers, healthy = _peers(8), np.ones(8, np.bool_)
    values = np.tile(np.arange(8, dtype=np.float32), (_F, 1))
    for tick in range(4):
        nursery.tainted(tick, 8)
        nursery.take(tick, peers, healthy, values)
    nursery.taint(4, np.array([3]))
    for tick in range(5, 20):
        nursery.take(tick, peers, healthy & (np.arange(8) != 3), values)
    assert 3.0 not in nursery.samples()[0]
    assert set(nursery.samples()[0][:, 0]) == {0, 1, 2, 4, 5, 6, 7}


def test_the_reservoir_is_bounded() -> None:
    """However long it runs, memory does not grow."""
    nursery = Nursery(1)
    _fill(nursery, _rows(64 * 150), 0)
    assert nursery.count(0) == 4096
