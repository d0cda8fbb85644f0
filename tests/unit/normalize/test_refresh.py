"""Devices that renew their counters slower than we poll."""

from __future__ import annotations

import numpy as np
import pytest
from support.readings import Feed, column

from fabricmon.model.readings import State


def _cached(feed: Feed, refresh: float, polls: list[float], rate: float = 1e9) -> list[float]:
    """Poll a device that renews each `refresh` seconds; the rates of the first port."""
    out = []
    for now in polls:
        renewed = now // refresh * refresh
        feed.read(now, [round(rate * renewed * (k + 1)) for k in range(len(feed.ports))])
        out.append(float(feed.tick(now, 1.0).rate[0, 0]))
    return out


def test_rates_are_right_after_two_refreshes() -> None:
    """Polled each second, renewed each three: within 2 % after two refreshes, and held."""
    feed = Feed(ports=2)
    rates = _cached(feed, 3.0, [float(t) for t in range(30)])
    assert rates[9:] == pytest.approx([1e9] * 21, rel=0.02)
    assert feed.counted("held") > 10
    assert feed.counted("over_rate") == 0


@pytest.mark.parametrize(("refresh", "poll"), [(3.0, 2.0), (5.0, 2.0), (5.0, 3.0), (7.0, 3.0)])
def test_a_refresh_that_is_no_multiple_of_the_poll_is_learned_too(
    refresh: float, poll: float
) -> None:
    """Gaps between moves differ by a poll; once three are known, every rate is within 2 %."""
    rates = np.array(_cached(Feed(), refresh, [poll * t for t in range(60)]))
    first = int(4 * refresh / poll) + 1
    assert rates[first:] == pytest.approx(np.full(60 - first, 1e9), rel=0.02)


def test_a_refresh_that_is_no_whole_number_of_seconds_is_found() -> None:
    """Every 5.4 s, polled each 2 s: what the first gaps suggest gives way to what all say."""
    rates = np.array(_cached(Feed(), 5.4, [2.0 * t for t in range(90)]))
    assert rates[60:] == pytest.approx(np.full(30, 1e9), rel=0.02)


def test_a_jittering_poll_of_a_fast_cache() -> None:
    """Polled each 0.58 s with jitter, renewed each second: the sum stays, the saw goes."""
    feed = Feed()
    generator = np.random.default_rng(1)
    polls = np.cumsum(generator.uniform(0.5, 0.66, 400)).tolist()
    rates = np.array(_cached(feed, 1.0, polls))
    late = rates[50:]
    assert np.mean(late) == pytest.approx(1e9, rel=0.02)
    assert np.mean(np.abs(late / 1e9 - 1) < 0.05) > 0.9


def test_a_device_that_stops_renewing_goes_stale() -> None:
    """Nothing moves on the whole device for longer than its beat: stale, not zero."""
    feed = Feed(ports=2)
    _cached(feed, 3.0, [float(t) for t in range(30)])
    states = []
    for now in range(30, 45):
        feed.read(now, [27 * 10**9, 54 * 10**9])
        frame = feed.tick(now)
        states.append(frame.state[0, 0])
    assert states[-1] == State.STALE
    assert np.isnan(frame.rate[0, 0])
    assert feed.counted("stale") > 0


def test_a_port_that_falls_quiet_on_a_slow_device_is_zero() -> None:
    """While other ports of the device move, a port that does not is quiet, not stale."""
    feed = Feed(ports=2)
    _cached(feed, 3.0, [float(t) for t in range(30)])
    for now in range(30, 60):
        feed.read(now, [27 * 10**9, now // 3 * 3 * 10**9 * 2])
        frame = feed.tick(now)
    assert frame.rate[0, 0] == 0
    assert frame.rate[0, 1] == pytest.approx(2e9, rel=0.02)


def test_traffic_that_goes_on_and_off_is_no_cache() -> None:
    """Three polls on, three off: the off polls are zero, not held."""
    feed = Feed()
    total = 0
    off = []
    for now in range(60):
        on = now % 6 < 3
        total += 10**9 if on else 0
        feed.read(now, total)
        frame = feed.tick(now)
        if not on and now > 12:
            off.append(frame.rate[0, 0])
    assert off == [0] * len(off)
    assert feed.counted("held") == 0


def test_pauses_that_come_with_each_iteration_are_no_cache() -> None:
    """Queue counters that move every fourth poll, while bytes always move, are not held."""
    feed = Feed(["tx_bytes", column("rx_pfc_frames", queue=3)])
    pauses = 0
    for now in range(40):
        pauses += 100 if now % 4 == 0 else 0
        feed.read(now, now * 10**9, pauses)
        frame = feed.tick(now)
        if now:
            assert frame.queue_rate[0, 0, 0] == (100 if now % 4 == 0 else 0)
    assert feed.counted("held") == 0


def test_queue_counters_of_a_slow_device_follow_its_beat() -> None:
    """On a device that renews each three seconds a burst of pauses is spread over one renewal."""
    feed = Feed(["tx_bytes", column("rx_pfc_frames", queue=3)])
    rates = []
    for now in range(40):
        renewed = now // 3 * 3
        feed.read(now, renewed * 10**9, 300 if renewed >= 30 else 0)
        rates.append(float(feed.tick(now).queue_rate[0, 0, 0]))
    assert rates[12:30] == [0] * 18
    assert rates[30:33] == pytest.approx([100, 100, 100], rel=0.02)
    assert rates[33:] == [0] * 7


def test_a_port_that_wakes_up_on_a_slow_device_is_not_diluted() -> None:
    """After a long silence the first renewal stands for one beat, not for all of the silence."""
    feed = Feed(ports=2)
    _cached(feed, 3.0, [float(t) for t in range(30)])
    rates = []
    for now in range(30, 90):
        renewed = now // 3 * 3
        mine = 27 + (max(renewed - 60, 0))
        feed.read(now, [mine * 10**9, renewed * 2 * 10**9])
        rates.append(float(feed.tick(now).rate[0, 0]))
    assert rates[20:30] == [0] * 10
    assert rates[33:] == pytest.approx([1e9] * 27, rel=0.02)


def test_the_rates_of_a_bursty_port_sum_up_to_what_it_sent() -> None:
    """A renewal of the whole device that passes a port over ends its rate at once, not late."""
    feed, generator = Feed(ports=10), np.random.default_rng(2)
    busy = np.cumsum(generator.random(200) < 0.4) * 3 * 10**9  # what the port sent by renewal
    rates = []
    for now in range(600):
        steady = [now // 3 * 3 * 10**9] * 9
        feed.read(now, [int(busy[now // 3]), *steady])
        rates.append(float(feed.tick(now).rate[0, 0]))
    late = np.array(rates[60:])
    assert np.isfinite(late).all()
    assert late.sum() == pytest.approx(float(busy[199] - busy[19]), rel=0.02)


def test_ports_that_renew_at_times_of_their_own_never_dip() -> None:
    """Where a device renews port by port, its other ports tell nothing about this one."""
    feed, rates = Feed(ports=10), []
    for now in range(200):
        feed.read(now, [(now + k // 2) // 5 * 5 * 10**9 for k in range(10)])
        rates.append(feed.tick(now).rate[0])
    assert np.array(rates[60:]) == pytest.approx(np.full((140, 10), 1e9), rel=0.02)
