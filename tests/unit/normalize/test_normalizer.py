"""Normalisation survives what devices and collectors do to counters."""

from __future__ import annotations

import numpy as np
import pytest
from support.readings import SECOND, START, Feed, column

from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.topology import Intent


def test_rate_total_and_states_of_a_plain_counter() -> None:
    """The first reading is a baseline with a total; from the second on there is a rate too."""
    feed = Feed()
    feed.read(0, 1000)
    first = feed.tick(1)
    assert first.state[0, 0] == State.BASELINE
    assert np.isnan(first.rate[0, 0])
    assert first.total[0, 0] == 1000
    feed.read(1, 3500)
    second = feed.tick(2)
    assert (second.state[0, 0], second.rate[0, 0], second.total[0, 0]) == (State.OK, 2500, 3500)
    assert second.elapsed_s[0] == 1


def test_missing_is_never_zero() -> None:
    """A port that was not read has no rate, keeps its total, and is counted as missing."""
    feed = Feed()
    for second in range(3):
        feed.read(second, second * 100)
        feed.tick(second + 1)
    frame = feed.tick(4)
    assert frame.state[0, 0] == State.MISSING
    assert np.isnan(frame.rate[0, 0])
    assert frame.total[0, 0] == 200
    assert frame.age_s[0] == pytest.approx(2, abs=1)
    assert feed.counted("missing") == 1


def test_missed_polls_give_the_rate_over_the_true_time() -> None:
    """After three missed polls the rate is taken over four seconds, not one."""
    feed = Feed()
    feed.read(0, 0)
    feed.tick(1)
    for late in (2, 3, 4):
        feed.tick(late)
    feed.read(4, 4000)
    assert feed.tick(5).rate[0, 0] == 1000


def test_a_cell_missing_alone_has_its_own_elapsed_time() -> None:
    """A counter that is missing once while its row is read gets a true rate afterwards."""
    feed = Feed(["tx_bytes", "rx_bytes"])
    for second in range(2):
        feed.read(second, second * 100, second * 10)
        feed.tick(second + 1)
    feed.normalizer.absorb(feed.batch(2, [200, 0], state=[[State.OK], [State.MISSING]]))
    frame = feed.tick(3)
    assert frame.state[:, 0].tolist() == [State.MISSING, State.OK]
    feed.read(3, 300, 30)
    frame = feed.tick(4)
    assert [frame.rate_of(c)[0] for c in ("tx_bytes", "rx_bytes")] == [100, 10]


def test_what_is_read_less_often_holds_until_it_is_due() -> None:
    """A queue read every six seconds keeps its rate in between, and is missing when overdue."""
    feed, other = Feed(), (column("queue_tx_bytes", queue=5, every=6),)
    seen: dict[int, tuple[int, float]] = {}
    for second in range(20):
        feed.read(second, second * 100)
        if second in (0, 6, 12):
            feed.normalizer.absorb(feed.batch(second, [second * 50], columns=other))
        frame = feed.tick(second + 1)
        k = frame.queue_row("queue_tx_bytes")
        assert k is not None
        seen[second] = int(frame.queue_state[k, 0, 0]), float(frame.queue_rate[k, 0, 0])
        assert frame.queue_total[k, 0, 0] == min(second // 6, 2) * 300
    assert [seen[s][0] for s in (0, 3, 6, 9, 12, 15, 19)] == [
        State.BASELINE, State.BASELINE, State.OK, State.HELD, State.OK, State.HELD, State.HELD,
    ]  # fmt: skip
    assert {rate for second, (_, rate) in seen.items() if second >= 6} == {50.0}
    assert feed.counted("missing") == 0
    late = [feed.tick(second).queue_state[0, 0, 0] for second in (21, 22, 23)]
    assert late == [State.HELD, State.HELD, State.MISSING]


def test_a_devices_beat_is_not_that_of_what_is_read_less_often() -> None:
    """A device renews every five seconds; what is read every twenty is a rate over twenty."""
    feed, other = Feed(), (column("queue_tx_bytes", queue=5, every=20),)
    for second in range(81):
        shown = second // 5 * 5
        feed.read(second, shown * 1000)
        if second % 20 == 0:
            feed.normalizer.absorb(feed.batch(second, [shown * 10], columns=other))
        frame = feed.tick(second + 1)
        if second > 40:
            assert frame.rate_of("tx_bytes")[0] == pytest.approx(1000)
            assert frame.queue_rate_of("queue_tx_bytes")[0, 0] == pytest.approx(10)


def test_unsupported_is_told_apart_from_missing() -> None:
    """What a device does not count stays unsupported and never gets a number."""
    feed = Feed(["tx_bytes", "rx_discards"])
    for second in range(3):
        batch = feed.batch(second, [second, 0], state=[[State.OK], [State.UNSUPPORTED]])
        feed.normalizer.absorb(batch)
        frame = feed.tick(second + 1)
    assert frame.state[frame.row("rx_discards"), 0] == State.UNSUPPORTED
    assert np.isnan(frame.rate_of("rx_discards")[0])
    assert frame.rate_of("tx_bytes")[0] == 1


def test_duplicates_and_late_readings_change_nothing() -> None:
    """Readings that are not newer than what is known are counted and ignored."""
    feed = Feed()
    feed.read(0, 0)
    feed.tick(1)
    feed.read(1, 500)
    feed.read(1, 500)
    feed.read(0.5, 250)
    frame = feed.tick(2)
    assert (frame.rate[0, 0], frame.total[0, 0]) == (500, 500)
    assert feed.counted("late") == 2


def test_several_readings_between_two_ticks_add_up() -> None:
    """Five readings in one tick give one rate over all of them."""
    feed = Feed()
    feed.read(0, 0)
    feed.tick(1)
    for k in range(1, 6):
        feed.read(k * 0.2, k * 100)
    frame = feed.tick(2)
    assert frame.rate[0, 0] == pytest.approx(500)
    assert frame.total[0, 0] == 500


def test_a_reset_among_several_readings_withholds_the_whole_tick() -> None:
    """A fall that is settled before the tick still marks the tick."""
    feed = Feed()
    feed.read(0, 900)
    feed.tick(1)
    for k, value in enumerate((1000, 5, 10), 1):
        feed.read(k * 0.3, value)
    frame = feed.tick(2)
    assert frame.state[0, 0] == State.RESET
    assert np.isnan(frame.rate[0, 0])
    feed.read(2, 110)
    assert feed.tick(3).rate[0, 0] == pytest.approx(100 / 1.1)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_fall_to_little_is_a_reset(bits: int) -> None:
    """A cleared counter gives no rate, and never a huge one."""
    feed = Feed([column("rx_errors", bits=bits)])
    for second, value in enumerate((5, 9)):
        feed.read(second, value)
        feed.tick(second + 1)
    feed.read(2, 0)
    frame = feed.tick(3)
    assert frame.state[0, 0] == State.RESET
    assert frame.total[0, 0] == 9
    feed.read(3, 2)
    frame = feed.tick(4)
    assert (frame.rate[0, 0], frame.total[0, 0]) == (2, 11)
    assert feed.counted("reset") == 1


def test_a_small_step_back_of_a_64_bit_counter_is_no_wrap() -> None:
    """A glitch downwards costs its own sample and does not become 2^64 bytes."""
    feed = Feed()
    for second, value in enumerate((10**15, 10**15 + 1000, 10**15 + 990, 10**15 + 2000)):
        feed.read(second, value)
        frame = feed.tick(second + 1)
    assert frame.rate[0, 0] == 1010


def test_a_64_bit_counter_wraps_only_at_its_top() -> None:
    """From just below 2^64 over the top is a wrap, and exact."""
    feed = Feed()
    feed.read(0, 2**64 - 100)
    feed.tick(1)
    feed.read(1, 200)
    frame = feed.tick(2)
    assert (frame.state[0, 0], frame.rate[0, 0]) == (State.WRAPPED, 300)


def test_an_announced_restart_is_a_reset_even_where_values_rose() -> None:
    """With the source's word that it restarted, nothing is compared with before."""
    feed = Feed()
    feed.read(0, 100)
    feed.tick(1)
    feed.read(1, 150, discontinuity=True)
    frame = feed.tick(2)
    assert frame.state[0, 0] == State.RESET
    feed.read(2, 250)
    assert feed.tick(3).rate[0, 0] == 100


def test_a_saturating_counter_at_its_top_is_unknown_not_zero() -> None:
    """A counter that sticks at its maximum has no rate."""
    feed = Feed([column("tx_wait_ticks", bits=16, saturates=True)])
    for second, value in enumerate((65000, 65535, 65535)):
        feed.read(second, value)
        frame = feed.tick(second + 1)
        if second:
            assert frame.state[0, 0] == State.SATURATED
            assert np.isnan(frame.rate[0, 0])
            assert np.isnan(frame.ratios.stall[0])
    feed.read(3, 10)
    assert feed.tick(4).state[0, 0] == State.RESET


def test_scale_is_applied_after_unwrapping() -> None:
    """InfiniBand words wrap as words and are published as bytes."""
    feed = Feed([column("tx_bytes", bits=32, scale=4)])
    feed.read(0, 2**32 - 10)
    feed.tick(1)
    feed.read(1, 15)
    frame = feed.tick(2)
    assert frame.rate[0, 0] == 100
    assert frame.total[0, 0] == 4 * (2**32 - 10) + 100


def test_more_than_the_line_carries_is_withheld() -> None:
    """An impossible jump is flagged, and neither the rate nor the total shows it."""
    feed = Feed()
    for second, value in enumerate((0, 1000, 10**15, 10**15 + 500)):
        feed.read(second, value)
        frame = feed.tick(second + 1)
        if second == 2:
            assert frame.state[0, 0] == State.OVER_RATE
            assert np.isnan(frame.rate[0, 0])
    assert (frame.rate[0, 0], frame.total[0, 0]) == (500, 1500)
    assert feed.counted("over_rate") == 1


def test_gauges_are_levels_and_set_the_link_speed() -> None:
    """Gauges are published as read, NaN where not read, and a speed reaches the port table."""
    feed = Feed(ports=2)
    gauges = (column("speed_bps"), column("queue_depth_bytes", queue=3))
    feed.normalizer.absorb(
        ReadingBatch(
            "sw",
            feed.ports,
            (),
            np.empty((0, 2), np.uint64),
            np.empty((0, 2), np.uint8),
            np.full(2, START, np.int64),
            gauges,
            np.array([[400e9, np.nan], [7, 8]]),
        )
    )
    frame = feed.tick(1)
    assert frame.queues == (3,)
    assert frame.queue_gauges["queue_depth_bytes"].tolist() == [[7], [8]]
    assert feed.table.speed_bps.tolist() == [400e9, 100e9]
    assert frame.age_s.tolist() == [0, 0]
    assert np.isnan(feed.tick(2).gauges["speed_bps"]).all()


def test_a_frame_does_not_change_after_it_was_made() -> None:
    """Exporters may keep a frame: later ticks do not write into it."""
    feed = Feed()
    feed.read(0, 0)
    feed.tick(1)
    feed.read(1, 100)
    frame = feed.tick(2)
    feed.read(2, 900)
    feed.tick(3)
    assert (frame.rate[0, 0], frame.total[0, 0], frame.state[0, 0]) == (100, 100, State.OK)


def test_intent_names_the_queues_that_make_a_stall() -> None:
    """Pauses of a queue that is not meant to be lossless do not stall the port."""
    columns = [column("rx_pfc_ns", queue=q) for q in (0, 3)]
    feed = Feed(columns)
    feed.normalizer.adopt(Intent(lossless_queues=(3,)))
    for second in range(2):
        feed.read(second, second * SECOND // 2, second * SECOND // 4)
        frame = feed.tick(second + 1)
    assert frame.ratios.stall[0] == pytest.approx(0.25)
    assert frame.ratios.queue_stall[0].tolist() == pytest.approx([0.5, 0.25])


def test_a_fabric_without_ports_has_a_frame_too() -> None:
    """The first tick may come before the first reading."""
    feed = Feed(ports=0)
    frame = feed.tick(1)
    assert frame.n_ports == 0
    assert frame.counters == ()
    assert frame.ratios.stall.shape == (0,)
