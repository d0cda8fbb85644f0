"""Every scenario obeys physics, as counters would show it."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import pytest

from fabricmon.model.readings import ReadingBatch
from fabricmon.simulate import Simulation, catalogue, load
from fabricmon.simulate.engine.counters import ROW

NAMES = [scenario.name for scenario in catalogue()]


@cache
def run(name: str) -> tuple[Simulation, np.ndarray]:
    """The simulation and what happened: float64[W,S,E], rates per second."""
    simulation = load(name)
    amounts = [interval.amount for interval in simulation.intervals()]
    return simulation, np.array(amounts) / simulation.poll_s


@pytest.mark.parametrize("name", NAMES)
def test_no_link_carries_more_than_its_capacity(name: str) -> None:
    """Bytes sent never exceed what the link carries, even while events come and go."""
    simulation, rates = run(name)
    assert (rates[:, ROW["bytes"]] * 8 <= simulation.wiring.capacity * (1 + 1e-6)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_blocked_port_does_not_send(name: str) -> None:
    """The share of time a port was held back and the share it sent in add up to one at most."""
    simulation, rates = run(name)
    sending = rates[:, ROW["bytes"]] * 8 / simulation.wiring.capacity
    assert (rates[:, ROW["stall"]] + sending <= 1 + 0.02).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_one_end_sends_the_other_receives(name: str) -> None:
    """Bytes in at one end are bytes out at the other, but for packets damaged on the way."""
    simulation, rates = run(name)
    sent, received = rates[:, ROW["bytes"]], rates[:, ROW["received"]]
    damaged = rates[:, ROW["damaged"]] * 4160
    assert (received <= sent + 1e-6).all()
    assert np.allclose(sent - received, damaged, atol=1.0, rtol=1e-6)
    del simulation


@pytest.mark.parametrize("name", NAMES)
def test_switches_keep_nothing(name: str) -> None:
    """What enters a switch leaves it, but for what is dropped or damaged; with PFC, nothing is."""
    simulation, rates = run(name)
    wiring = simulation.wiring
    sent = rates[:, ROW["bytes"]].sum(axis=0)
    lost = sum(rates[:, ROW[n]].sum(axis=0) for n in ("egress_drops", "damaged")) * 4160
    lost_in = rates[:, ROW["ingress_drops"]].sum(axis=0) * 4160
    for node in np.flatnonzero(wiring.tier > 0):
        out, into = wiring.source == node, wiring.target == node
        entered = sent[into].sum()
        kept = entered - sent[out].sum()
        allowed = lost[out].sum() + lost[into].sum() + lost_in[into].sum()
        assert abs(kept) <= allowed * 1.05 + 1e-6 * entered + 1.0, wiring.topology.nodes[node].name


@pytest.mark.parametrize("name", ["healthy", "incast", "slow-receiver-ib", "wrong-priority"])
def test_counters_of_both_ends_agree_to_the_byte(name: str) -> None:
    """`tx_bytes` of a port and `rx_bytes` of its peer grow alike, up to one count a poll."""
    simulation = load(name, duration=30.0)
    first: dict[tuple[str, str, str], int] = {}
    last: dict[tuple[str, str, str], int] = {}
    for item in simulation.items():
        if isinstance(item, ReadingBatch):
            for k, column in enumerate(item.columns):
                if column.counter.id in {"tx_bytes", "rx_bytes"}:
                    for i, value in enumerate(item.values[k].tolist()):
                        key = (item.ports.device[i], item.ports.port[i], column.counter.id)
                        first.setdefault(key, value)
                        last[key] = value
    for link in simulation.topology.links:
        for a, b in ((link.a, link.b), (link.b, link.a)):
            out = last[*a, "tx_bytes"] - first[*a, "tx_bytes"]
            back = last[*b, "rx_bytes"] - first[*b, "rx_bytes"]
            assert abs(out - back) <= 2


def _digest(name: str, seed: int) -> str:
    digest = hashlib.sha256()
    for item in load(name, seed=seed, duration=60.0).items():
        if isinstance(item, ReadingBatch):
            for array in (item.values, item.state, item.gauges, item.time_ns):
                digest.update(array.tobytes())
        else:
            digest.update(repr(item).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["healthy", "benign-missed-polls", "incast-ib"])
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    """A run is a function of the file and the seed."""
    assert _digest(name, 3) == _digest(name, 3)
    assert _digest(name, 3) != _digest(name, 4)


def during(name: str, signal: str, port: str) -> tuple[float, float]:
    """Mean of a signal at a port before and during the fault, per second."""
    simulation, rates = run(name)
    series = rates[:, ROW[signal], simulation.wiring.port(port)]
    return float(series[30:110].mean()), float(series[125:175].mean())


def test_incast_root_is_busy_and_its_tree_is_held_back() -> None:
    """Root at line rate, no wait, few marks; upstream waits and makes most of the marks."""
    assert during("incast", "bytes", "leaf0/Ethernet4")[1] * 8 > 95e9
    assert during("incast", "stall", "leaf0/Ethernet4")[1] == 0
    assert during("incast", "pauses", "leaf0/Ethernet4")[1] == 0
    assert during("incast", "stall", "spine3/Ethernet1")[1] > 0.1
    assert (
        during("incast", "marks", "spine3/Ethernet1")[1]
        > 3 * during("incast", "marks", "leaf0/Ethernet4")[1]
    )


def test_slow_receiver_pauses_long_with_few_frames() -> None:
    """Paused for most of the time by few frames; an incast takes many frames for less time."""
    _, stall = during("slow-receiver", "stall", "leaf1/Ethernet2")
    _, frames = during("slow-receiver", "pauses", "leaf1/Ethernet2")
    _, incast_stall = during("incast", "stall", "spine3/Ethernet1")
    _, incast_frames = during("incast", "pauses", "spine3/Ethernet1")
    assert stall > 0.5
    assert frames / stall < 0.1 * incast_frames / incast_stall


def test_a_hidden_slow_receiver_shows_as_plateau_and_standing_queue() -> None:
    """Working congestion control: hardly any pause, a queue that stands, throughput capped."""
    before, depth = during("slow-receiver-hidden", "depth", "leaf1/Ethernet2")
    assert during("slow-receiver-hidden", "stall", "leaf1/Ethernet2")[1] < 0.03
    assert depth > 10 * before
    assert during("slow-receiver-hidden", "bytes", "leaf1/Ethernet2")[1] * 8 < 26e9


def test_a_deadlock_moves_nothing_and_sends_no_frames() -> None:
    """Every port of the cycle waits all the time, sends nothing, and is sent no new pauses."""
    for port in ("leaf0/Ethernet9", "spine0/Ethernet2", "leaf1/Ethernet10", "spine1/Ethernet1"):
        assert during("pfc-deadlock", "stall", port)[1] == 1
        assert during("pfc-deadlock", "bytes", port)[1] < 1
        assert during("pfc-deadlock", "pauses", port)[1] == 0


def test_loss_slows_the_job_and_pauses_nobody() -> None:
    """A cable that damages packets: errors at both ends, no stall, less traffic."""
    simulation, rates = run("degraded-link")
    assert during("degraded-link", "damaged", "leaf0/Ethernet9")[1] > 100
    assert rates[:, ROW["stall"]].max() == 0
    before, after = during("degraded-link", "bytes", "leaf0/Ethernet9")
    assert after < 0.95 * before
    del simulation


def test_the_whole_job_slows_with_its_slowest_flow() -> None:
    """Loss on one cable lowers what every host of the job sends, and raises it nowhere."""
    simulation, _ = run("degraded-link")
    for job in simulation.topology.jobs:
        for host in job.hosts:
            before, after = during("degraded-link", "bytes", f"{host}/eth0")
            assert after < 1.1 * before


def test_a_straggler_only_makes_traffic_fall() -> None:
    """No stall, no drop, no more marks: every port of the job alike sends less."""
    simulation, rates = run("collective-stall")
    assert rates[:, ROW["stall"]].max() == 0
    assert rates[:, ROW["egress_drops"]].max() == 0
    hosts = simulation.topology.jobs[0].hosts
    falls = [during("collective-stall", "bytes", f"{host}/eth0") for host in hosts]
    ratios = [after / before for before, after in falls]
    assert max(ratios) < 0.75
    assert max(ratios) - min(ratios) < 0.1


def test_drops_in_a_lossless_queue_need_a_wrong_setting() -> None:
    """Only the scenarios with wrong settings drop anything."""
    for scenario in catalogue():
        _, rates = run(scenario.name)
        drops = rates[:, ROW["egress_drops"]].sum() + rates[:, ROW["ingress_drops"]].sum()
        if drops > 0:
            assert scenario.kind == "lossless-misconfig", scenario.name
