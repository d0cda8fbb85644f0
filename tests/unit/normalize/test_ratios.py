"""Shares of time out of counters."""

from __future__ import annotations

import numpy as np
import pytest
from support.readings import SECOND, Feed, column

from fabricmon.model.frame import Ratios
from fabricmon.model.topology import PortFacts, PortId, Topology


def _ratios(columns: list[object], per_second: list[float], *, tick_bytes: float = 0) -> Ratios:
    feed = Feed(columns)  # type: ignore[arg-type]
    facts = PortFacts(PortId("sw", "1"), tick_bytes=tick_bytes)
    feed.table.adopt(Topology(ports=(facts,)))
    for second in range(2):
        feed.read(second, *(round(second * rate) for rate in per_second))
        frame = feed.tick(second + 1)
    return frame.ratios


def test_infiniband_ticks_become_a_share_of_time() -> None:
    """Half of a 100G port's byte time in ticks of 8 bytes is a stall of one half."""
    ratios = _ratios(["tx_wait_ticks"], [12.5e9 / 8 / 2], tick_bytes=8)
    assert ratios.stall[0] == pytest.approx(0.5)
    assert not ratios.estimated[0]


def test_ticks_of_unknown_length_stay_unknown() -> None:
    """Without the bytes per tick there is no ratio, rather than a wrong one."""
    assert np.isnan(_ratios(["tx_wait_ticks"], [1e6]).stall[0])


def test_more_than_all_of_the_time_proves_the_unit_wrong() -> None:
    """A share far above one is unknown, not one."""
    feed = Feed([column("rx_pfc_ns", queue=3)])
    for second in range(2):
        feed.read(second, second * round(1.15 * SECOND))
        frame = feed.tick(second + 1)
    assert frame.ratios.stall[0] == 1
    wrong = _ratios(["tx_wait_ticks"], [12.5e9 / 8 * 1.5], tick_bytes=8)
    assert np.isnan(wrong.stall[0])


def test_paused_time_is_the_stall_of_a_roce_port() -> None:
    """The longest-paused queue makes the port's stall and pressure."""
    columns = [column(c, queue=q) for c in ("rx_pfc_ns", "tx_pfc_ns") for q in (3, 4)]
    ratios = _ratios(columns, [0.2e9, 0.3e9, 0.1e9, 0.05e9])
    assert ratios.stall[0] == pytest.approx(0.3)
    assert ratios.press[0] == pytest.approx(0.1)
    assert ratios.queue_stall[0].tolist() == pytest.approx([0.2, 0.3])


def test_time_paused_by_pfc_leaves_out_global_pauses() -> None:
    """A port that counts PFC time and is stopped by 802.3x is held back, by an estimate."""
    columns = [column("rx_pfc_ns", queue=3), column("tx_pfc_ns", queue=3)]
    longest = 512 * 65535 / 100e9
    both = [*columns, "rx_pause_frames", "tx_pause_frames"]
    ratios = _ratios(both, [0.1e9, 0.1e9, 0.9 / longest, 0.9 / longest])
    assert ratios.estimated[0]
    assert 0.1 < ratios.stall[0] < ratios.stall_high[0]
    assert ratios.stall_low[0] == pytest.approx(0.1)
    assert ratios.press[0] > 0.1
    few = _ratios(both, [0.1e9, 0.1e9, 1.0, 1.0])
    assert not few.estimated[0]
    assert few.stall[0] == few.press[0] == pytest.approx(0.1)
    waits = _ratios(["tx_wait_ns", "rx_pause_frames"], [0.1e9, 0.9 / longest])
    assert waits.stall[0] == pytest.approx(0.1), "waiting time counts whatever the reason"


def test_waiting_time_goes_before_paused_time() -> None:
    """A pause that does not bite is no stall."""
    ratios = _ratios(["tx_wait_ns", column("rx_pfc_ns", queue=3)], [0.0, 0.9e9])
    assert ratios.stall[0] == 0


def test_frames_alone_give_an_estimate_with_bounds() -> None:
    """Without times the stall is marked as estimated and lies between its bounds."""
    ratios = _ratios(["tx_bytes", column("rx_pfc_frames", queue=3)], [6.25e9, 1000])
    assert ratios.estimated[0]
    assert ratios.stall_low[0] == 0
    assert ratios.stall_high[0] == pytest.approx(1000 * 65535 * 512 / 100e9)
    assert 0 < ratios.stall[0] < ratios.stall_high[0]


def test_an_estimate_leaves_room_for_what_was_sent() -> None:
    """A port that sent at 90 % of its rate cannot have been paused for more than 10 %."""
    ratios = _ratios(["tx_bytes", column("rx_pfc_frames", queue=3)], [11.25e9, 1e6])
    assert ratios.stall_high[0] == pytest.approx(0.1)
    assert ratios.stall[0] <= ratios.stall_high[0]


def test_steady_refreshes_and_silence_mean_paused_without_a_break() -> None:
    """A few frames a second at the refresh rate, and nothing sent, is a stall of one."""
    ratios = _ratios(["tx_bytes", column("rx_pfc_frames", queue=3)], [0, 3000])
    assert ratios.stall[0] == pytest.approx(1)


def test_use_is_bytes_over_what_the_link_carries() -> None:
    """Receive and transmit use are apart."""
    ratios = _ratios(["rx_bytes", "tx_bytes"], [12.5e9, 6.25e9])
    assert (ratios.rx_use[0], ratios.tx_use[0]) == (1, 0.5)
