"""What collectors would read: widths, caches, resets, silence, clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import PollFailure, Tick
from fabricmon.simulate import ScenarioConfig, load
from fabricmon.simulate.scenario import read

if TYPE_CHECKING:
    from numpy.typing import NDArray


def series(
    changes: dict[str, Any], target: str, counter: str, name: str = "healthy"
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """uint64[W,N] values of one counter of a target, and int64[W] sample times."""
    scenario = read(name)
    data = scenario.config.model_dump()
    data.update(changes)
    changed = replace(scenario, config=ScenarioConfig.model_validate(data))
    values, times = [], []
    for item in load(changed, duration=60.0).items():
        if isinstance(item, ReadingBatch) and item.target == target:
            k = [c.counter.id for c in item.columns].index(counter)
            values.append(item.values[k])
            times.append(item.time_ns[0])
    return np.array(values), np.array(times)


def test_narrow_counters_wrap_at_32_bits() -> None:
    """Packet counters of 32 bits stay below 2^32 and fall when they pass it."""
    values, _ = series({"collector": {"width": 32}}, "leaf0", "tx_packets")
    assert values.max() < 1 << 32
    wide, _ = series({}, "leaf0", "tx_packets")
    assert wide.max() > 1 << 32


def test_a_slow_cache_repeats_and_then_jumps() -> None:
    """A device that renews every 2.3 s shows the same value twice and then the sum."""
    values, _ = series({"collector": {"refresh": "2.3s"}}, "leaf0", "tx_bytes")
    fresh, _ = series({}, "leaf0", "tx_bytes")
    same = (np.diff(values.astype(np.int64), axis=0) == 0).mean()
    assert 0.4 < same < 0.7
    assert (values <= fresh).all()


def test_a_reset_clears_once() -> None:
    """Values fall to near zero when somebody clears them, and count on from there."""
    event = {"do": "reset", "device": "leaf1", "at": 30.0, "lasts": 20.0}
    values, _ = series({"events": [event]}, "leaf1", "rx_bytes")
    falls = (np.diff(values[:, 0].astype(np.int64)) < 0).sum()
    assert falls == 1
    assert values[-1, 0] > values[31, 0]


def test_a_stale_device_repeats_itself() -> None:
    """The same numbers poll after poll, while others move."""
    event = {"do": "stale", "device": "leaf1", "at": 30.0, "lasts": 20.0}
    values, _ = series({"events": [event]}, "leaf1", "rx_bytes")
    steps = np.diff(values.astype(np.int64), axis=0).sum(axis=1)
    assert (steps[30:48] == 0).all()
    assert steps[:28].min() >= 0
    assert steps[50:].sum() > 0


def test_a_silent_device_fails_its_polls() -> None:
    """No reading, a failure with a reason instead, and the others go on."""
    scenario = read("telemetry-stale")
    failures = [i for i in load(scenario).items() if isinstance(i, PollFailure)]
    assert {f.target for f in failures} == {"leaf2"}
    assert len(failures) == 60


def test_a_skewed_clock_moves_only_stamps() -> None:
    """Sample times jump by the skew; the tick does not."""
    event = {"do": "skew", "device": "leaf1", "at": 30.0, "lasts": 20.0, "seconds": 30.0}
    _, times = series({"events": [event]}, "leaf1", "rx_bytes")
    steps = np.diff(times) / 1e9
    assert steps.max() > 30
    assert steps.min() < -28


def test_saturated_counters_stand_at_their_top() -> None:
    """InfiniBand counters that stick show 2^64-1, not zero."""
    event = {"do": "saturated", "device": "spine1", "at": 30.0, "lasts": 20.0}
    values, _ = series({"events": [event]}, "spine1", "tx_bytes", "healthy-ib")
    assert (values[40] == (1 << 64) - 1).all()


def test_frames_only_leaves_paused_time_out() -> None:
    """Without paused time there is no such column at all: missing is not zero."""
    scenario = read("healthy")
    data = scenario.config.model_dump()
    data["collector"]["paused_time"] = False
    changed = replace(scenario, config=ScenarioConfig.model_validate(data))
    batch = next(i for i in load(changed).items() if isinstance(i, ReadingBatch))
    ids = {c.counter.id for c in batch.columns}
    assert "rx_pfc_frames" in ids
    assert "rx_pfc_ns" not in ids


def test_port_sets_and_columns_stay_the_same_objects() -> None:
    """The pipeline translates names once: a target's ports are one object from poll to poll."""
    seen: dict[str, tuple[int, int]] = {}
    for item in load("healthy", duration=5.0).items():
        if isinstance(item, ReadingBatch):
            ids = (id(item.ports), id(item.columns))
            assert seen.setdefault(item.target, ids) == ids
    assert len(seen) == 40


def test_ticks_follow_the_readings_they_judge() -> None:
    """Items come in time order: a tick is after its readings."""
    latest = 0
    for item in load("healthy", duration=5.0).items():
        if isinstance(item, Tick):
            assert item.time_ns >= latest - 100_000_000
            latest = item.time_ns
