"""Where the ports of a reading stand in the table makes no difference to what is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.readings import Feed, column

from fabricmon.model.readings import PortSet, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.frame import Frame

_PORTS = 6
_COLUMNS = (column("rx_bytes"), column("tx_bytes"), column("rx_pfc_frames", queue=3))
_LATE = PortSet(("sw",) * _PORTS, tuple(str(i + 1) for i in range(_PORTS)))


def _feed(*, scattered: bool) -> Feed:
    """One whose ports got their rows in the order of the reading, or another."""
    feed = Feed(_COLUMNS, 0)
    order = (4, 1, 6, 2, 5, 3) if scattered else range(1, _PORTS + 1)
    feed.table.rows(PortSet(("sw",) * _PORTS, tuple(map(str, order))))
    feed.ports = _LATE
    feed.table.set_speed(np.arange(_PORTS, dtype=np.int32), np.full(_PORTS, 100e9))
    return feed


def _values(step: int) -> list[list[int]]:
    return [[step * 1000 * (k + 1) * (p + 1) for p in range(_PORTS)] for k in range(3)]


def _seen(feed: Feed, frame: Frame) -> list[NDArray[np.generic]]:
    rows = feed.table.rows(_LATE)
    queue = frame.queue_rate[:, rows], frame.queue_total[:, rows], frame.queue_state[:, rows]
    return [frame.rate[:, rows], frame.total[:, rows], frame.state[:, rows], *queue]


@pytest.mark.parametrize("readings", [1, 3])
@pytest.mark.parametrize("hole", [None, State.MISSING, State.UNSUPPORTED])
def test_scattered_ports_read_like_adjacent_ones(readings: int, hole: State | None) -> None:
    """Same rates, totals and states, with holes and with several readings a tick."""
    state = np.zeros((3, _PORTS), np.uint8)
    if hole is not None:
        state[1, 2] = hole
    shown = []
    for scattered in (False, True):
        feed, frames = _feed(scattered=scattered), []
        for step in range(4 * readings):
            at = step / readings
            feed.normalizer.absorb(feed.batch(at, _values(step), state=state.tolist()))
            if step % readings == readings - 1:
                frames += _seen(feed, feed.tick(at))
        shown.append(frames)
    for one, other in zip(*shown, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.nanmin(shown[1][-6][0]) > 0, "rates came of it"


def test_a_port_named_twice_counts_once() -> None:
    """Two columns of a reading with one row each would count movement twice."""
    feed = Feed(("rx_bytes",), 0)
    feed.ports = PortSet(("sw", "sw", "sw"), ("1", "2", "1"))
    feed.table.rows(feed.ports)
    for step in range(3):
        feed.read(step, [1000 * step, 1000 * step, 0])
        frame = feed.tick(step)
    assert [1000.0, 1000.0] == frame.rate_of("rx_bytes").tolist()


def test_the_first_reading_shows_its_totals() -> None:
    """One poll says something, and its states say that no rate can be known yet."""
    feed = _feed(scattered=True)
    feed.read(0, *_values(5))
    frame = feed.tick(0)
    rows = feed.table.rows(_LATE)
    assert _values(5)[0] == frame.total[0, rows].tolist()
    assert (frame.state[:, rows] == State.BASELINE).all()
    assert feed.counted("baseline") == 3 * _PORTS
