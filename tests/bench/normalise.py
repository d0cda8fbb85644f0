"""What it costs to turn readings of 100,000 ports x 40 counters into frames and features.

Peers, in the same run and in turn: a dict per series in plain Python (a tenth of the ports, times
ten), and the shortest whole-array numpy that ignores everything that goes wrong.
"""

from __future__ import annotations

import os
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from _figures import row
from support.readings import SECOND, START, column

from fabricmon.api import Context
from fabricmon.clock import cpu_seconds
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import PortSet, ReadingBatch
from fabricmon.model.window import Window
from fabricmon.normalize import Normalizer
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.model.frame import Frame

_QUICK = bool(os.environ.get("QUICK"))
_PORTS = 10_000 if _QUICK else 100_000
_RADIX = 64
_TICKS = 5 if _QUICK else 9
_PORT_COUNTERS = (
    "rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_discards", "tx_discards",
    "rx_errors", "tx_errors", "symbol_errors", "fec_corrected", "fec_uncorrected",
    "link_downed", "link_recoveries", "rx_pause_frames", "tx_pause_frames", "buffer_overruns",
)  # fmt: skip
_QUEUE_COUNTERS = ("rx_pfc_frames", "tx_pfc_frames", "ecn_marked_packets")
COLUMNS = tuple(column(c) for c in _PORT_COUNTERS) + tuple(
    column(c, queue=q) for c in _QUEUE_COUNTERS for q in range(8)
)


class Fleet:
    """Switches of 64 ports whose counters move by themselves."""

    def __init__(self, ports: int = _PORTS, radix: int = _RADIX) -> None:
        """Counters start anywhere below 2^40."""
        generator = np.random.default_rng(7)
        self.ports = ports
        self.values = generator.integers(0, 1 << 40, (len(COLUMNS), ports), np.uint64)
        self._moves = generator.integers(0, 1 << 20, (len(COLUMNS), ports), np.uint64)
        self._sets = [
            PortSet(tuple(f"sw{at}" for _ in range(at, end)), tuple(map(str, range(at, end))))
            for at in range(0, ports, radix)
            for end in [min(at + radix, ports)]
        ]
        self._radix = radix

    def poll(self, second: int) -> list[ReadingBatch]:
        """One reading of every switch, taken at that second."""
        self.values = self.values + self._moves
        batches = []
        for i, ports in enumerate(self._sets):
            part = slice(i * self._radix, i * self._radix + len(ports))
            values = np.ascontiguousarray(self.values[:, part])
            state = np.zeros(values.shape, np.uint8)
            time_ns = np.full(len(ports), START + second * SECOND, np.int64)
            batches.append(ReadingBatch(f"t{i}", ports, COLUMNS, values, state, time_ns))
        return batches


def normalizer() -> Normalizer:
    """One that reports nowhere."""
    clock = ManualClock()
    return Normalizer(PortTable(), "bench", Context(clock, Reporter(clock)))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and the result."""
    before = cpu_seconds()
    result = work()
    return cpu_seconds() - before, result


def dict_loop(
    memory: dict[tuple[int, int], tuple[int, int]], values: list[list[int]], now: int
) -> dict[tuple[int, int], float]:
    """What one writes first: a dict entry per series."""
    rates = {}
    for k, row in enumerate(values):
        for port, value in enumerate(row):
            old = memory.get((k, port))
            if old is not None:
                move = value - old[0]
                if move < 0:
                    move += 1 << 64
                rates[k, port] = move / ((now - old[1]) / 1e9)
            memory[k, port] = (value, now)
    return rates


def _naive(old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return ((new - old).astype(np.float64) / 10.0).astype(np.float32)


def absorb_and_tick(one: Normalizer, batches: list[ReadingBatch], second: int) -> Frame:
    """What the pipeline does with the readings of one tick."""
    for batch in batches:
        one.absorb(batch)
    return one.tick(START + second * SECOND, 10.0)


def _measure(radix: int) -> dict[str, float]:
    """CPU milliseconds a tick, medians, the first tick left out."""
    fleet, one, window = Fleet(radix=radix), normalizer(), Window()
    memory: dict[tuple[int, int], tuple[int, int]] = {}
    spent: dict[str, list[float]] = {"normalise": [], "signals": [], "dict": [], "numpy": []}
    for tick in range(_TICKS):
        old = fleet.values
        batches = fleet.poll(tick * 10)
        cost, frame = timed(partial(absorb_and_tick, one, batches, tick * 10))
        spent["normalise"].append(cost)
        spent["signals"].append(timed(partial(window.push, frame))[0])
        spent["numpy"].append(timed(partial(_naive, old, fleet.values))[0])
        if tick < 3:
            some = fleet.values[:, : _PORTS // 10].tolist()
            cost, _ = timed(partial(dict_loop, memory, some, tick * 10 * SECOND))
            spent["dict"].append(cost * 10)
    return {name: median(costs[1:]) * 1000 for name, costs in spent.items()}


def run() -> Iterator[dict[str, Any]]:
    """For many small targets, and for one that holds the whole fabric."""
    for layout, radix in (("targets of 64 ports", _RADIX), ("one target", _PORTS)):
        ms = _measure(radix)
        yield row(f"frame, {layout}", ms["normalise"], "cpu-ms", "dict loop", ms["dict"])
        yield row(f"frame, {layout}", ms["normalise"], "cpu-ms", "bare numpy", ms["numpy"])
        yield row(f"window push, {layout}", ms["signals"], "cpu-ms", "bare numpy", ms["numpy"])


if __name__ == "__main__":
    for row in run():
        print(row)
