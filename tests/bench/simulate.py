"""What one epoch of the simulated fabric costs, beside the same in plain Python.

Traffic as published for flow-level engines: a ring over all hosts, half as many random flows,
incasts of eight at 0.2 % of hosts, and slow receivers at 0.1 %, on a fat tree of three tiers. Warm
means that the same flows were solved before under other demands; cold starts from nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from _figures import row

from fabricmon.clock import cpu_seconds
from fabricmon.model.topology import Technology
from fabricmon.simulate.engine.conditions import healthy
from fabricmon.simulate.engine.counters import signals
from fabricmon.simulate.engine.epoch import EpochSolver
from fabricmon.simulate.engine.flows import Flows, Network
from fabricmon.simulate.engine.pressure import BackPressure
from fabricmon.simulate.fabric.routing import Router
from fabricmon.simulate.fabric.shapes import fat_tree
from fabricmon.simulate.fabric.wiring import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fabricmon.simulate.fabric.wiring import Wiring

SIZES = {1024: 16, 4096: 26, 16000: 40}
COLD, WARM, REPEAT = 40, 4, 3


def traffic(wiring: Wiring, seed: int = 1) -> Flows:
    """The published mix."""
    rng = np.random.default_rng(seed)
    cards = wiring.cards
    n = len(cards)
    ring = (np.arange(n), (np.arange(n) + 1) % n)
    some = (rng.integers(0, n, n // 2), rng.integers(0, n, n // 2))
    roots = rng.choice(n, max(1, n // 500), replace=False)
    incast = (rng.integers(0, n, 8 * len(roots)), np.repeat(roots, 8))
    start, end = (np.concatenate([pair[i] for pair in (ring, some, incast)]) for i in (0, 1))
    keep = start != end
    path, flow = Router(wiring).paths(cards[start[keep]], cards[end[keep]], mode="ecmp")
    count = len(flow)
    yes, no = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    rate = wiring.capacity[path[:, 0]] * rng.uniform(0.2, 1.0, count)
    group, endless = np.zeros(count, np.int32), np.full(count, np.inf)
    return Flows(path, rate, group, endless, np.ones(count), yes, no, no)


def plain_round(
    paths: list[list[int]], order: list[int], rate: list[float], capacity: list[float]
) -> list[float]:
    """The same round flow by flow with dictionaries: how it is usually written."""
    want: dict[int, dict[int, float]] = {}
    for f, path in enumerate(paths):
        before = -1 - f
        for link in path:
            feeders = want.setdefault(link, {})
            feeders[before] = feeders.get(before, 0.0) + rate[f]
            before = link
    slow: dict[int, float] = {}
    for link in order:
        feeders = want.get(link, {})
        load = sum(feeders.values())
        room = min(capacity[link], slow.get(link, 1.0) * load)
        if load <= room:
            continue
        left = len(feeders)
        for ingress, amount in sorted(feeders.items(), key=lambda item: item[1]):
            share = min(amount, room / left)
            room -= share
            left -= 1
            slow[ingress] = min(slow.get(ingress, 1.0), share / amount)
    return [rate[f] * slow.get(-1 - f, 1.0) for f in range(len(paths))]


def _timed(run: Any) -> float:
    best = float("inf")
    for _ in range(REPEAT):
        begin = cpu_seconds()
        run()
        best = min(best, cpu_seconds() - begin)
    return best


def _measure(hosts: int, k: int) -> tuple[float, float, float]:
    """Warm, cold and plain-Python seconds (the plain one does as many rounds as the warm one)."""
    wiring = wire(fat_tree(Technology.ROCE, k=k, hosts=hosts, speed_bps=1e11, uplink_bps=1e11))
    flows = traffic(wiring)
    network = Network(flows, len(wiring))
    conditions = healthy(wiring)
    slow = np.random.default_rng(2).choice(wiring.cards, max(1, hosts // 1000)) ^ 1
    conditions.takes[slow] = 0.1
    capacity = wiring.capacity * conditions.takes
    solver = BackPressure(network, capacity, np.zeros(len(network.pair_link), np.bool_))
    rates: list[NDArray[np.float64]] = [solver.solve(flows.demand, rounds=COLD).rate]
    cold = _timed(lambda: solver.solve(flows.demand, rounds=COLD))
    changed = flows.demand * np.random.default_rng(3).uniform(0.9, 1.1, len(flows))
    warm = _timed(lambda: solver.solve(changed, rates[0], rounds=WARM))
    paths = [[int(e) for e in row if e >= 0] for row in flows.path]
    plain = 0.0
    if hosts <= 1024:
        order = [int(e) for level in network.levels for e in level]
        rate, room = changed.tolist(), capacity.tolist()
        plain = _timed(lambda: [plain_round(paths, order, rate, room) for _ in range(WARM)])
    return warm, cold, plain


def _whole(hosts: int, k: int) -> float:
    """A whole epoch: both states of congestion control, and the signals of every port."""
    wiring = wire(fat_tree(Technology.ROCE, k=k, hosts=hosts, speed_bps=1e11, uplink_bps=1e11))
    flows = traffic(wiring)
    partly = replace(flows, uncontrolled=np.full(len(flows), 0.3))
    network, conditions = Network(partly, len(wiring)), healthy(wiring)
    solver = EpochSolver(wiring, conditions, network)
    on = np.ones(1, np.bool_)
    return _timed(lambda: signals(wiring, conditions, network, solver.solve(on)))


def run() -> Iterator[dict[str, Any]]:
    """Warm and cold epochs by size, and how cost grows with the fabric."""
    warm_by_size = {}
    for hosts, k in SIZES.items():
        warm, cold, plain = _measure(hosts, k)
        warm_by_size[hosts] = warm
        peer = ("the same with dictionaries", plain) if plain else ()
        yield row(f"warm-epoch-{hosts}", warm, "s", *peer)
        yield row(f"cold-epoch-{hosts}", cold, "s")
    yield row("whole-epoch-1024", _whole(1024, SIZES[1024]), "s")
    small, large = min(warm_by_size), max(warm_by_size)
    growth = np.log(warm_by_size[large] / warm_by_size[small]) / np.log(large / small)
    yield row("growth-exponent", float(growth), "power of hosts")


if __name__ == "__main__":
    for row in run():
        print(row)
