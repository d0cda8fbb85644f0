"""What a tick of detection costs at 100,000 ports: features, gate, forest, and the refit.

Peer of the score: scikit-learn scoring every port, as one does without a gate. Peers of the
features: medians and quantiles looked back for through the window. Both in the same run, in turn.
"""

from __future__ import annotations

import os
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from _figures import row
from normalise import Fleet, absorb_and_tick, normalizer, timed

from fabricmon.api import Context
from fabricmon.detect import ForestConfig, ForestDetector
from fabricmon.model.topology import Link, Node, PortId, Role, Topology
from fabricmon.model.window import Window
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUICK = bool(os.environ.get("QUICK"))
_PORTS = 10_000 if _QUICK else 100_000
_LEARN = 24
_TICKS = 5 if _QUICK else 12
_RADIX = 64


def _topology() -> Topology:
    """Switches of 64 ports, half of them towards hosts, half towards spines."""
    nodes, links = [], []
    for switch in range(0, _PORTS, _RADIX):
        nodes.append(Node(f"sw{switch}", "switch", Role.LEAF))
        for port in range(switch, min(switch + _RADIX, _PORTS)):
            down = port % 2 == 0
            other = f"h{port}" if down else f"spine{port % 64}"
            if down:
                nodes.append(Node(other, "host", Role.HOST))
            end = PortId(other, f"p{port}")
            links.append(Link(PortId(f"sw{switch}", str(port)), end, 4e11))
    nodes += [Node(f"spine{i}", "switch", Role.SPINE) for i in range(64)]
    return Topology(tuple(nodes), tuple(links))


def _look_back(window: Window) -> None:
    """The obvious way to features: quantiles and means of the past, anew each tick."""
    for name in ("stall", "press", "ecn", "rx_pause"):
        past = window.past(name)
        np.partition(past, int(0.9 * len(past)), axis=0)
        past[-8:].mean(axis=0)


def run() -> Iterator[dict[str, Any]]:
    """CPU milliseconds a tick, medians."""
    fleet, one, window = Fleet(_PORTS), normalizer(), Window()
    topology = _topology()
    one.table.adopt(topology)
    clock = ManualClock()
    config = ForestConfig(learn_polls=20)
    detector = ForestDetector(config, Context(clock, Reporter(clock)))
    spent: dict[str, list[float]] = {"push": [], "features": [], "score": [], "all": [], "back": []}
    for tick in range(_LEARN + _TICKS):
        frame = absorb_and_tick(one, fleet.poll(tick * 10), tick * 10)
        push, _ = timed(partial(window.push, frame))
        score, _ = timed(partial(detector.score, window, one.table, topology))
        if tick < _LEARN:
            continue
        spent["push"].append(push)
        spent["score"].append(score)
        forest = next(iter(detector.forests.values()))
        spent["all"].append(timed(partial(forest.score, detector.features.values))[0])
        frozen = np.zeros(frame.n_ports, np.bool_)
        update = partial(detector.features.update, window, detector.peers, frozen)
        spent["features"].append(timed(update)[0])
        if len(spent["back"]) < 2:
            spent["back"].append(timed(partial(_look_back, window))[0])
    cost = {name: median(values) * 1000 for name, values in spent.items()}
    own, unit = cost["push"] + cost["features"], "cpu-ms"
    yield row("window push and features", own, unit, "look back", cost["back"])
    yield row("features, gate, forest, k of n", cost["score"], unit, "every port", cost["all"])


if __name__ == "__main__":
    for row in run():
        print(row)
