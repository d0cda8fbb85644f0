"""The detector finds what is wrong and leaves alone what is only different."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.windows import Stage, star

from fabricmon.detect import ForestConfig, ForestDetector
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict
from fabricmon.model.topology import Job, Technology

if TYPE_CHECKING:
    from fabricmon.api import Context

_CONFIG = ForestConfig(trees=50)
_LEARNED = 45


def _make(context: Context) -> ForestDetector:
    return ForestDetector(_CONFIG, context)


def _stage(technology: Technology = Technology.ROCE) -> Stage:
    return Stage(_make, star(32, technology))


@pytest.fixture(scope="module")
def learned() -> Stage:
    """A stage that has learned; tests that use it put the fabric back to health."""
    stage = _stage()
    stage.healthy(_LEARNED)
    return stage


@pytest.mark.parametrize("technology", list(Technology))
def test_a_held_back_port_scores_and_alarms(technology: Technology) -> None:
    """A port that is held back a third of the time alarms within three polls, and says why."""
    stage = _stage(technology)
    assert not any(scores.alarm.any() for scores in stage.healthy(_LEARNED))
    row = stage.row("leaf", "e3")
    for _ in range(4):
        stall = stage.noise(0.01)
        stall[row] = 0.35
        scores = stage.tick(stall=stall, press=stage.noise(0.005), ecn=stage.noise(200))
    assert np.flatnonzero(scores.alarm).tolist() == [row]
    assert scores.anomaly[row] > 0.5
    assert "stall over own past" in scores.why[row]
    assert np.nanmax(np.delete(scores.anomaly, row)) <= 0.5


def test_cold_start_says_learning_and_still_sees_physics() -> None:
    """From the first polls a port that begins to lose packets alarms, without any forest."""
    stage = _stage()
    row = stage.row("h4", "eth0")
    stage.healthy(2)
    for _ in range(3):
        errors = np.zeros(len(stage.table), np.float32)
        errors[row] = 1000
        scores = stage.tick(errors=errors)
    assert scores.learning
    assert np.flatnonzero(scores.alarm).tolist() == [row]
    assert np.isnan(scores.anomaly[stage.row("h5", "eth0")])


def test_a_counter_that_never_moved_is_not_invisible(learned: Stage) -> None:
    """Drops were zero all the time the forest learned; when they begin, the score rises."""
    row = learned.row("leaf", "e9")
    for _ in range(3):
        drops = np.zeros(len(learned.table), np.float32)
        drops[row] = 500
        scores = learned.tick(drops=drops, stall=learned.noise(0.01))
    assert scores.alarm[row]
    assert scores.why[row][0].startswith("drops")
    learned.healthy(40)


def test_a_stray_error_does_not_alarm(learned: Stage) -> None:
    """One error in one poll is an event of every day."""
    errors = np.zeros(len(learned.table), np.float32)
    errors[3] = 1.0
    assert not learned.tick(errors=errors, stall=learned.noise(0.01)).alarm.any()
    assert not any(scores.alarm.any() for scores in learned.healthy(10))


def test_ports_that_fall_quiet_do_not_alarm(learned: Stage) -> None:
    """A job that stops leaves ports quiet, which is no anomaly."""
    for _ in range(12):
        scores = learned.tick()
        assert not scores.alarm.any()
    learned.healthy(20)


def test_more_load_alone_does_not_alarm(learned: Stage) -> None:
    """More marks, deeper queues and more bytes are load, not a fault."""
    for _ in range(12):
        scores = learned.tick(
            stall=learned.noise(0.01),
            ecn=learned.noise(20_000),
            depth=learned.noise(1e6),
            tx_use=0.9,
        )
        assert not scores.alarm.any()
    learned.healthy(20)


def test_a_job_that_starts_on_half_the_fabric_does_not_alarm() -> None:
    """Ports of one job that rise together are compared with each other."""
    topology = star(32)
    hosts = tuple(f"h{i}" for i in range(16))
    job = Job("new", hosts)
    stage = Stage(_make, type(topology)(topology.nodes, topology.links, jobs=(job,)))
    stage.healthy(_LEARNED)
    mine = np.array([i for i, p in enumerate(stage.table.ids) if p.device in hosts])
    for tick in range(20):
        stall = stage.noise(0.01)
        stall[mine] += 0.15 * (tick % 4 < 2)
        assert not stage.tick(stall=stall, ecn=stage.noise(200)).alarm.any()


def test_what_happens_in_each_iteration_is_the_baseline() -> None:
    """A port that is held back in every second poll from the start is learned as such."""
    stage = _stage()
    for tick in range(120):
        stall = stage.noise(0.01)
        stall[5] = 0.2 * (tick % 4 < 2)
        scores = stage.tick(stall=stall, press=stage.noise(0.005), ecn=stage.noise(200))
        if tick > _LEARNED:
            assert not scores.alarm.any()


def test_a_queue_that_stands_while_less_is_sent_stands_out() -> None:
    """Congestion control that works hides a slow receiver from stalls, but not its queue."""
    stage = _stage()
    for _ in range(_LEARNED):
        stage.tick(tx_use=0.5, ecn=stage.noise(200), depth=20_000 + stage.noise(2_000))
    row = stage.row("leaf", "e7")
    for _ in range(10):
        use = np.full(len(stage.table), 0.5, np.float32)
        ecn, depth = stage.noise(200), 20_000 + stage.noise(2_000)
        use[row], ecn[row], depth[row] = 0.1, 200_000, 400_000
        scores = stage.tick(tx_use=use, ecn=ecn, depth=depth)
    assert np.flatnonzero(scores.alarm).tolist() == [row]
    assert "depth at less use" in scores.why[row]


def test_an_uplink_full_beside_idle_siblings_stands_out() -> None:
    """Without any stall, one full uplink of a switch whose others idle is an anomaly."""
    topology = star(8)
    nodes = [*topology.nodes]
    links = [*topology.links]
    node, link = type(nodes[0]), type(links[0])
    for i in range(8):
        nodes.append(node(f"spine{i}", "switch", nodes[0].role.__class__("spine")))
        port = type(links[0].a)
        links.append(link(port("leaf", f"up{i}"), port(f"spine{i}", "e0"), 1e11))
    stage = Stage(_make, type(topology)(tuple(nodes), tuple(links)))
    for _ in range(_LEARNED):
        stage.tick(tx_use=0.3 + stage.noise(0.02), stall=stage.noise(0.01))
    row = stage.row("leaf", "up3")
    for _ in range(12):
        use = 0.2 + stage.noise(0.02)
        use[row] = 1.0
        scores = stage.tick(tx_use=use, stall=stage.noise(0.01))
    assert scores.alarm[row]
    assert scores.why[row][0] == "use over siblings"


def test_a_port_nobody_reads_has_no_score(learned: Stage) -> None:
    """A port whose reading is old is not judged."""
    age = np.zeros(len(learned.table), np.float32)
    age[7] = 60
    scores = learned.tick(stall=learned.noise(0.01), age_s=age)
    assert np.isnan(scores.anomaly[7])
    assert not scores.alarm[7]
    assert not np.isnan(np.delete(scores.anomaly, 7)).any()


def test_the_same_frames_give_the_same_scores() -> None:
    """Two detectors fed alike agree to the bit, and so does one that fits in a thread."""
    with ThreadPoolExecutor(1) as pool:
        runs = []
        for threaded in (False, False, True):
            stage = _stage()
            if threaded:
                stage.detector.fit_with(pool)
            runs.append(np.stack([s.anomaly for s in stage.healthy(30)]))
    assert np.array_equal(runs[0], runs[1], equal_nan=True)
    assert np.array_equal(runs[0], runs[2], equal_nan=True)


def test_a_restart_goes_on_from_the_training_rows() -> None:
    """With the rows of an earlier run the detector has a forest after the swap time."""
    first, second = _stage(), _stage()
    first.healthy(_LEARNED)
    saved = first.detector.save()
    assert set(saved.part("rows").other) == {"host/roce", "down/roce"}
    second.detector.restore(saved)
    scores = second.healthy(_CONFIG.swap_polls + 2)
    assert not scores[-1].learning


def test_diagnosed_ports_are_not_learned_as_healthy() -> None:
    """Rows of a port that a rule named, and its last ones before that, stay out of training."""
    kept = []
    for diagnosed in (False, True):
        stage = _stage()
        for _ in range(40):
            stall = stage.noise(0.01)
            stall[2] += 0.04
            stage.tick(stall=stall, ecn=stage.noise(200))
            if diagnosed:
                finding = Finding(
                    IncidentKind.INCAST, Verdict.FABRIC, Severity.MILD, 1.0, (), (), (), "",
                    rows=(2,),
                )  # fmt: skip
                stage.detector.feedback([finding])
        rows = np.concatenate(list(stage.detector.save().part("rows").other.values()))
        kept.append(int((rows[:, 0] > 0.035).sum()))
    assert kept[0] > 0
    assert kept[1] == 0
