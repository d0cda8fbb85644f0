"""formats/base: port readings into batches."""

from __future__ import annotations

import math

import numpy as np

from fabricmon.formats.base import BatchBuilder, PortReading
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, State

RX, TX = Column(BY_ID["rx_bytes"]), Column(BY_ID["tx_bytes"])
SPEED = Column(BY_ID["speed_bps"])


def test_port_set_and_columns_stay_the_same_objects_between_polls() -> None:
    """The pipeline caches by identity, so two polls of the same ports share their `PortSet`."""
    builder = BatchBuilder("sw")
    builder.add(PortReading("sw", "1", [(RX, 5), (SPEED, 1e9)]), 10)
    (first,) = builder.take()
    builder.add(PortReading("sw", "1", [(RX, 7), (SPEED, 2e9)]), 20)
    (second,) = builder.take()
    assert second.ports is first.ports
    assert second.columns is first.columns
    assert second.gauge_columns is first.gauge_columns
    assert (first.values[0, 0], second.values[0, 0]) == (5, 7)
    assert second.gauges[0, 0] == 2e9
    assert second.time_ns.tolist() == [20]


def test_what_is_not_in_a_poll_is_missing_and_never_zero() -> None:
    """A port or a counter that was seen before and is absent now has no number."""
    builder = BatchBuilder("sw")
    builder.add(PortReading("sw", "1", [(RX, 5), (TX, None)], 10))
    builder.add(PortReading("sw", "2", [(RX, 6), (SPEED, 1e9)], 10))
    (first,) = builder.take()
    assert first.state.tolist() == [[0, 0], [State.UNSUPPORTED, State.MISSING]]
    builder.add(PortReading("sw", "2", [(TX, 8)], 20))
    (second,) = builder.take()
    assert second.state.tolist() == [[State.MISSING, State.MISSING], [State.MISSING, 0]]
    assert second.time_ns.tolist() == [10, 20]
    assert np.isnan(second.gauges).all()


def test_one_counter_counted_in_two_ways_goes_to_two_batches() -> None:
    """A 32-bit and a 64-bit source of one counter are not mixed within a batch."""
    narrow = Column(BY_ID["rx_bytes"], bits=32)
    builder = BatchBuilder("sw")
    builder.add(PortReading("a", "1", [(narrow, 1)], 1))
    builder.add(PortReading("b", "1", [(RX, 2)], 1))
    one, two = builder.take()
    assert (one.columns, one.ports.device) == ((narrow,), ("a",))
    assert (two.columns, two.ports.device) == ((RX,), ("b",))


def test_values_that_no_counter_can_hold_are_refused_and_counted() -> None:
    """Negative, too wide and not-a-number counts cost only themselves; the extremes are kept."""
    builder = BatchBuilder("sw")
    builder.add(PortReading("sw", "1", [(RX, -1), (TX, 1 << 64)], 1))
    builder.add(PortReading("sw", "2", [(RX, math.nan), (TX, (1 << 64) - 1)], 1))
    (batch,) = builder.take()
    assert builder.refused == 3
    assert batch.ports.port == ("2",)
    assert batch.values[batch.columns.index(TX), 0] == (1 << 64) - 1


def test_the_latest_of_two_values_in_one_poll_wins() -> None:
    """Two samples of one value within a poll leave the later one, whatever their order."""
    builder = BatchBuilder("sw")
    builder.add(PortReading("sw", "1", [(RX, 9)], 30))
    builder.add(PortReading("sw", "1", [(RX, 7)], 20))
    (batch,) = builder.take()
    assert (batch.values[0, 0], batch.time_ns[0]) == (9, 30)


def test_a_poll_of_nothing_gives_no_batch() -> None:
    """An empty poll is no batch of zeros."""
    assert BatchBuilder("sw").take() == ()
