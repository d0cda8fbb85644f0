"""Who feeds a series, and when it was sampled: rows, columns and clocks that change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.readings import START, Feed, column

from fabricmon.model.readings import PortSet, ReadingBatch, State


def test_a_series_stays_with_its_source() -> None:
    """A narrower column that appears in between is ignored, and takes over only after silence."""
    feed = Feed([column("tx_bytes", source="HC")])
    other = (column("tx_bytes", bits=32, source="32-bit"),)
    for second in range(2):
        feed.read(second, second * 100)
        feed.tick(second + 1)
    for second in range(2, 10):
        feed.normalizer.absorb(feed.batch(second, [second * 7], columns=other))
        frame = feed.tick(second + 1)
        if second == 2:
            assert frame.state[0, 0] == State.MISSING
    assert feed.counted("other_source") >= 3
    assert frame.rate[0, 0] == 7
    assert frame.total[0, 0] < 200


def test_columns_that_come_apart_keep_exact_times() -> None:
    """A reading that brings only some columns does not spoil the rates of the others."""
    feed = Feed(["tx_bytes", "rx_bytes"])
    only = feed.columns[:1]
    for second in range(6):
        if second % 2:
            feed.normalizer.absorb(feed.batch(second, [second * 100], columns=only))
        else:
            feed.read(second, second * 100, second * 10)
        frame = feed.tick(second + 1)
        if second > 1:
            assert frame.rate_of("tx_bytes")[0] == 100
            if second % 2 == 0:
                assert frame.rate_of("rx_bytes")[0] == 10


def test_rows_may_vanish_appear_and_move() -> None:
    """Identity is the name: another order of rows, or fewer rows, changes nothing else."""
    feed = Feed(ports=3)
    feed.read(0, [0, 0, 0])
    feed.tick(1)
    turned = PortSet(("sw", "sw"), ("3", "1"))
    feed.normalizer.absorb(feed.batch(1, [[300, 100]], ports=turned))
    frame = feed.tick(2)
    assert frame.rate[0, [0, 2]].tolist() == [100, 300]
    assert frame.state[0, 1] == State.MISSING
    more = PortSet(("sw",) * 4, ("1", "2", "3", "4"))
    feed.normalizer.absorb(feed.batch(2, [[200, 400, 600, 5]], ports=more))
    frame = feed.tick(3)
    assert frame.rate[0, :3].tolist() == [100, 200, 300]
    assert frame.state[0, 3] == State.BASELINE


def test_a_counter_that_appears_later_gets_its_place() -> None:
    """New counters and queues re-lay the arrays without losing what is there."""
    feed = Feed()
    feed.read(0, 0)
    feed.tick(1)
    queues = tuple(column("rx_pfc_frames", queue=q) for q in (3, 1))
    for second in (1, 2):
        feed.read(second, second * 100)
        feed.normalizer.absorb(feed.batch(second, [second * 3, second], columns=queues))
        frame = feed.tick(second + 1)
    assert frame.queues == (1, 3)
    assert frame.queue_rate_of("rx_pfc_frames")[0].tolist() == [1, 3]
    assert frame.rate_of("tx_bytes")[0] == 100


def test_ports_the_table_refused_cost_only_themselves() -> None:
    """A full table drops the ports beyond it and keeps the rest right."""
    feed = Feed(ports=1)
    feed.table._limit = 1
    more = PortSet(("sw", "sw"), ("1", "2"))
    for second in range(2):
        feed.normalizer.absorb(feed.batch(second, [[second * 10, 99]], ports=more))
        frame = feed.tick(second + 1)
    assert frame.rate.tolist() == [[10]]
    assert feed.table.refused == 1


def test_a_clock_that_steps_is_bridged_by_receive_times() -> None:
    """A device whose clock leaps an hour ahead keeps a plausible rate, and is counted."""
    feed = Feed()
    for second in range(8):
        feed.read(second + (3600 if second >= 4 else 0), second * 100)
        frame = feed.tick(second + 1)
        if second:
            assert frame.rate[0, 0] == pytest.approx(100)
    assert feed.counted("wrong_clock") == 1


def test_a_clock_that_steps_back_is_believed_after_a_while() -> None:
    """Old stamps are late at first; when nothing newer comes, the clock is what is wrong."""
    feed = Feed()
    rates = []
    for second in range(20):
        feed.read(second - (3600 if second >= 4 else 0), second * 100)
        rates.append(feed.tick(second + 1).rate[0, 0])
    assert np.isnan(rates[4:6]).all()
    assert rates[8:] == pytest.approx([100] * 12)
    assert feed.counted("wrong_clock") > 0


def test_a_frozen_clock_falls_back_to_receive_times() -> None:
    """Values that move under one and the same stamp get rates from the time they came."""
    feed = Feed()
    for second in range(12):
        feed.read(0, second * 100)
        frame = feed.tick(second + 1)
    assert frame.rate[0, 0] == pytest.approx(100)


def test_a_series_names_the_source_that_feeds_it() -> None:
    """The vendor's own word for the counter is known for each port; empty where there is none."""
    feed = Feed()
    ports = PortSet(("a",), ("p",))
    one = replace(column("tx_bytes"), source="1.3.6.1.2.1.31.1.1.1.10")
    feed.normalizer.absorb(
        ReadingBatch(
            "t",
            ports,
            (one,),
            np.array([[7]], np.uint64),
            np.zeros((1, 1), np.uint8),
            np.array([START]),
        )
    )
    frame = feed.tick(1)
    row = int(feed.normalizer.table.rows(ports)[0])
    assert frame.source_of("tx_bytes", row) == "1.3.6.1.2.1.31.1.1.1.10"
    assert frame.source_of("rx_bytes", row) == ""
