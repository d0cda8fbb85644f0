"""The steady states: who gets what, who is held back, and what may never happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.model.topology import Technology
from fabricmon.simulate.engine.conditions import healthy
from fabricmon.simulate.engine.epoch import Epoch, EpochSolver
from fabricmon.simulate.engine.fair import fair_shares
from fabricmon.simulate.engine.flows import Flows, Network
from fabricmon.simulate.engine.pressure import water_fill
from fabricmon.simulate.fabric.routing import Router
from fabricmon.simulate.fabric.shapes import leaf_spine
from fabricmon.simulate.fabric.wiring import Wiring, wire

if TYPE_CHECKING:
    from fabricmon.simulate.engine.conditions import Conditions

GBPS = 1e9


@pytest.fixture
def fabric() -> Wiring:
    """The fabric of the published comparison: 4 leaves, 4 spines, 32 hosts at 25G, 60G uplinks."""
    return wire(
        leaf_spine(
            Technology.ROCE,
            leaves=4,
            spines=4,
            hosts_per_leaf=8,
            speed_bps=25 * GBPS,
            uplink_bps=60 * GBPS,
        )
    )


def flows_between(fabric: Wiring, pairs: list[tuple[int, int]], control: float) -> Flows:
    """Long-lived flows between hosts by number; `control` is the unconverged share of time."""
    start = fabric.cards[[a for a, _ in pairs]]
    end = fabric.cards[[b for _, b in pairs]]
    path, flow = Router(fabric).paths(start, end)
    n = len(flow)
    return Flows(
        path,
        np.full(n, 25 * GBPS),
        np.zeros(n, np.int32),
        np.full(n, np.inf),
        np.full(n, control),
        np.ones(n, np.bool_),
        np.zeros(n, np.bool_),
        np.zeros(n, np.bool_),
    )


def solved(fabric: Wiring, flows: Flows, conditions: Conditions | None = None) -> Epoch:
    """The epoch in which all of them send."""
    network = Network(flows, len(fabric))
    return EpochSolver(fabric, conditions or healthy(fabric), network).solve(np.ones(1, np.bool_))


INCAST = [(i, 3) for i in (8, 9, 10, 16, 17, 18, 24, 25)]
BYSTANDERS = [(11, 19), (12, 20), (19, 27), (20, 28), (26, 12), (27, 11), (8, 4)]


def into(fabric: Wiring, host: int) -> int:
    """The directed link into a host."""
    return int(fabric.cards[host]) ^ 1


def test_incast_without_congestion_control_blocks_upstream_and_not_its_root(
    fabric: Wiring,
) -> None:
    """The root runs at line rate and is not held back; what feeds it is, far up the tree."""
    epoch = solved(fabric, flows_between(fabric, INCAST + BYSTANDERS, control=1.0))
    root = into(fabric, 3)
    assert epoch.sent[root] > 0.95 * 25 * GBPS
    assert epoch.stall[root] == 0
    assert epoch.full[root] == 1
    paused = np.flatnonzero(epoch.stall > 0.01)
    assert 10 <= len(paused) <= 18, "14 links in the packet-level run"
    assert fabric.tier[fabric.source[paused]].max() == 2, "up to the spine"


def test_incast_shares_are_fair(fabric: Wiring) -> None:
    """Senders that share every hop get the same; ingresses of one root share it max-min."""
    epoch = solved(fabric, flows_between(fabric, INCAST, control=1.0))
    rate = epoch.rate / (25 * GBPS)
    assert rate.sum() == pytest.approx(1, abs=0.03)
    for leaf in (slice(0, 3), slice(3, 6), slice(6, 8)):
        assert np.ptp(rate[leaf]) < 0.01
    by_leaf = [rate[0:3].sum(), rate[3:6].sum(), rate[6:8].sum()]
    assert np.ptp(by_leaf) < 0.03, "the spine serves its three ingresses alike"


def test_a_bystander_behind_the_same_card_is_slowed_by_head_of_line(fabric: Wiring) -> None:
    """A flow to an idle host slows down because its card is paused for another flow."""
    pairs = [*INCAST, (8, 4)]
    held = solved(fabric, flows_between(fabric, pairs, control=1.0)).rate[-1]
    freed = solved(fabric, flows_between(fabric, pairs, control=0.0)).rate[-1]
    assert held < 0.35 * 25 * GBPS
    assert freed > 0.8 * 25 * GBPS, "congestion control slows only the flows that meet the root"


def test_congestion_control_pauses_nobody(fabric: Wiring) -> None:
    """Converged congestion control: no paused link, and more traffic in all three cases."""
    oversubscribed = [(i % 8, 8 + i) for i in range(18)]
    for pairs in (INCAST + BYSTANDERS, oversubscribed):
        without = solved(fabric, flows_between(fabric, pairs, control=1.0))
        with_it = solved(fabric, flows_between(fabric, pairs, control=0.0))
        assert (with_it.stall > 0).sum() == 0
        assert with_it.rate.sum() > without.rate.sum() * 0.99


def test_slow_receiver_holds_its_switch_port_and_what_feeds_it(fabric: Wiring) -> None:
    """A receiver at a tenth: about five paused links without congestion control, one with it."""
    pairs = [(8, 3), *((i, i + 8) for i in (9, 10, 11, 12, 16, 17, 18, 19))]
    conditions = healthy(fabric)
    conditions.takes[into(fabric, 3)] = 0.1
    epoch = solved(fabric, flows_between(fabric, pairs, control=1.0), conditions)
    port = into(fabric, 3)
    assert epoch.sent[port] == pytest.approx(2.5 * GBPS, rel=0.05)
    assert epoch.stall[port] == pytest.approx(0.9, abs=0.02)
    assert 3 <= (epoch.stall > 0.01).sum() <= 6, "5 links in the packet-level run"
    controlled = solved(fabric, flows_between(fabric, pairs, control=0.0), conditions)
    assert np.flatnonzero(controlled.stall > 0.01).tolist() == [port]


def test_oversubscribed_uplink_is_full_and_its_feeders_wait(fabric: Wiring) -> None:
    """Eighteen flows through one uplink: it is full and not held back, every feeder is."""
    conditions = healthy(fabric)
    leaf = fabric.device("leaf0")
    up = np.flatnonzero((fabric.source == leaf) & (fabric.tier[fabric.target] == 2))
    router = Router(fabric, np.isin(np.arange(len(fabric)), [*up[1:], *(up[1:] ^ 1)], invert=True))
    pairs = [(i % 8, 8 + i) for i in range(18)]
    flows = flows_between(fabric, pairs, control=1.0)
    path, _ = router.paths(fabric.cards[[a for a, _ in pairs]], fabric.cards[[b for _, b in pairs]])
    one_way = Flows(path, *(getattr(flows, n) for n in flows.__dataclass_fields__ if n != "path"))
    epoch = solved(fabric, one_way, conditions)
    assert epoch.sent[up[0]] > 0.95 * 60 * GBPS
    assert epoch.stall[up[0]] == 0
    hosts = fabric.cards[:8]
    assert (epoch.stall[hosts] > 0.5).all()


def test_pauses_that_are_ignored_turn_into_drops(fabric: Wiring) -> None:
    """A port that does not listen is not held back, and its peer drops what it cannot hold."""
    flows = flows_between(fabric, INCAST, control=1.0)
    port = int(flows.path[0][2])
    conditions = healthy(fabric)
    conditions.deaf[port] = True
    epoch = solved(fabric, flows, conditions)
    assert epoch.stall[port] == 0
    assert epoch.dropped.sum() > 0
    assert solved(fabric, flows).dropped.sum() == 0


def test_a_cycle_of_possible_dependencies_is_no_deadlock(fabric: Wiring) -> None:
    """Routes in a circle without load move freely; with load they stop for good."""
    from fabricmon.simulate.events import Loop

    loop = Loop(do="loop", at=1.0, through=["leaf0", "spine0", "leaf1", "spine1"])
    wish = loop.wishes(fabric)[0]
    assert wish.path is not None
    n = len(wish.path)

    def at(share: float) -> Epoch:
        yes, no = np.ones(n, np.bool_), np.zeros(n, np.bool_)
        demand = np.full(n, share * 25 * GBPS)
        group = np.zeros(n, np.int32)
        flows = Flows(wish.path, demand, group, np.full(n, np.inf), np.ones(n), yes, no, no)
        return solved(fabric, flows)

    assert not at(0.1).stuck.any()
    assert at(0.9).stuck.sum() == 4


@given(
    st.lists(st.lists(st.floats(0.01, 100), min_size=1, max_size=8), min_size=1, max_size=6),
    st.floats(0.05, 0.95),
)
def test_water_fill_is_max_min(groups: list[list[float]], tightness: float) -> None:
    """Capacity is used up, nobody gets more than asked, and who gets less gets the most."""
    want = np.concatenate([np.array(g) for g in groups])
    owner = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    capacity = np.array([sum(g) * tightness for g in groups])
    got = want * water_fill(want, owner, capacity)
    for i, room in enumerate(capacity):
        mine = got[owner == i]
        assert mine.sum() == pytest.approx(room, rel=1e-6)
        short = mine < want[owner == i] * (1 - 1e-6)
        assert short.any()
        assert mine[short].min() >= mine.max() * (1 - 1e-6)


@given(st.integers(0, 2**31), st.floats(0.1, 1.0))
def test_fair_shares_fit_and_leave_no_flow_behind(seed: int, load: float) -> None:
    """No link is over its capacity, and every flow below its demand meets a full link."""
    rng = np.random.default_rng(seed)
    fabric = wire(
        leaf_spine(
            Technology.ROCE, leaves=3, spines=2, hosts_per_leaf=4, speed_bps=10, uplink_bps=15
        )
    )
    n = int(rng.integers(1, 30))
    start, end = rng.choice(12, n), rng.choice(12, n)
    keep = start != end
    path, flow = Router(fabric).paths(
        fabric.cards[start[keep]], fabric.cards[end[keep]], mode="ecmp", salt=seed % 99
    )
    if not len(flow):
        return
    n = len(flow)
    yes, no = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    demand = rng.uniform(0.1, 10, n) * load
    flows = Flows(path, demand, np.zeros(n, np.int32), demand, demand, yes, no, no)
    network = Network(flows, len(fabric))
    rate = fair_shares(network, demand, fabric.capacity)
    used = network.load(rate)
    assert (used <= fabric.capacity * (1 + 1e-9)).all()
    full = used >= fabric.capacity * (1 - 1e-6)
    through_full = np.maximum.reduceat(full[network.hop_link], network.first)
    assert (through_full | (rate >= demand * (1 - 1e-9))).all()
