"""Numbered series: samples, times, cutting into polls, and what holds from poll to poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.formats.base import Layout
from fabricmon.formats.lines.continuity import Continuity
from fabricmon.formats.lines.series import Samples, as_count, nanoseconds, polls
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fabricmon.formats.base import Chunk
    from fabricmon.model.readings import ReadingBatch

S = 1_000_000_000
T0 = 1_764_460_800 * S


@dataclass(frozen=True, slots=True)
class Spot:
    """A place, as a mapping would give it."""

    port: str
    column: Column
    rank: int = 0
    gauge: Callable[[object], float | None] | None = None


RX = Column(BY_ID["rx_bytes"], source="good")
RX_WORSE = Column(BY_ID["rx_bytes"], source="worse")
TX = Column(BY_ID["tx_bytes"])
UP = Column(BY_ID["oper_up"])
POWER = Column(BY_ID["rx_power_dbm"])


class Mapping2:
    """`/PORT/NAME` is a place."""

    def place(self, path: str, keys: Mapping[str, str]) -> Spot | None:
        """By the last word."""
        assert keys == {}
        _, port, name = path.split("/")
        column, rank, gauge = {
            "rx": (RX, 0, None),
            "worse": (RX_WORSE, 1, None),
            "tx": (TX, 0, None),
            "up": (UP, 0, float),
            "power": (POWER, 0, float),
            "none": (None, 0, None),
        }[name]
        return None if column is None else Spot(port, column, rank, gauge)  # type: ignore[arg-type]


class Widening:
    """A mapping that gives every queue a column."""

    def place(self, path: str, keys: Mapping[str, str]) -> Spot | None:
        """Each path is a port."""
        return Spot(path, Column(BY_ID["rx_pfc_frames"], int(keys["queue"])))  # type: ignore[return-value]


class Bench:
    """A table, samples, and what they become."""

    def __init__(self) -> None:
        """Empty."""
        self.layout = Layout("t")
        self.table = SeriesTable(self.layout, Mapping2())
        self.samples = Samples(self.table)

    def put(self, seconds: float, **values: object) -> None:
        """`p1_rx=5` at a time."""
        for name, value in values.items():
            port, _, leaf = name.partition("_")
            series = self.table.find("d", f"/{port}/{leaf}", {})
            if series >= 0:
                self.samples.put(series, value)
        self.samples.stamp(T0 + round(seconds * S))

    def chunk(self) -> Chunk:
        """Everything put so far."""
        self.samples.pack(0)
        return self.samples.take()

    def rows(self, chunk: Chunk | None = None) -> list[dict[str, float]]:
        """Each batch as `port_counter: value`."""
        batches = polls(self.layout, self.chunk() if chunk is None else chunk)
        return [row(batch) for batch in batches]


def row(batch: ReadingBatch) -> dict[str, float]:
    """What a batch says."""
    found: dict[str, float] = {}
    for n, port in enumerate(batch.ports.port):
        for k, column in enumerate(batch.columns):
            if batch.state[k, n] == State.OK:
                found[f"{port}_{column.counter.id}"] = int(batch.values[k, n])
        for g, column in enumerate(batch.gauge_columns):
            if not np.isnan(batch.gauges[g, n]):
                found[f"{port}_{column.counter.id}"] = float(batch.gauges[g, n])
    return found


def test_a_batch_ends_before_a_value_repeats() -> None:
    """Two rounds over two ports are two batches, though written out of order."""
    bench = Bench()
    bench.put(10, p1_rx=3)
    bench.put(0, p1_rx=1, p1_tx=5)
    bench.put(10.1, p2_rx=4)
    bench.put(0.1, p2_rx=2)
    assert bench.rows() == [
        {"p1_rx_bytes": 1, "p1_tx_bytes": 5, "p2_rx_bytes": 2},
        {"p1_rx_bytes": 3, "p2_rx_bytes": 4},
    ]


def test_one_port_has_one_time_in_a_batch() -> None:
    """Values of one port that were sampled seconds apart go to batches of their own."""
    bench = Bench()
    bench.put(0, p1_rx=1)
    bench.put(5, p1_tx=2)
    assert bench.rows() == [{"p1_rx_bytes": 1}, {"p1_tx_bytes": 2}]


def test_the_same_sample_twice_is_one() -> None:
    """A value that came twice for one time counts once, the later writing of it."""
    bench = Bench()
    for value in (1, 1, 2):
        bench.put(0, p1_rx=value)
    assert bench.rows() == [{"p1_rx_bytes": 2}]


def test_the_better_of_two_sources_is_taken() -> None:
    """Where one counter comes under two paths, the lower rank wins, whichever came first."""
    bench = Bench()
    bench.put(0, p1_worse=7)
    bench.put(0.1, p1_rx=1)
    bench.put(10, p1_rx=2, p1_worse=9)
    assert bench.rows()[-1] == {"p1_rx_bytes": 2}
    assert bench.table.find("d", "/p1/worse", {}) == -1


def test_a_table_has_a_limit() -> None:
    """Series beyond the limit are refused and counted, and their ports take no room either."""
    layout = Layout("t")
    table = SeriesTable(layout, Mapping2(), limit=1)
    assert table.find("d", "/p1/rx", {}) == 0
    assert table.find("d", "/p2/rx", {}) == -1
    assert table.find("d", "/p1/rx", {}) == 0
    assert table.take_refused() == 1
    assert table.take_refused() == 0
    assert layout.ports == 1


def test_a_table_has_a_limit_on_what_batches_would_hold() -> None:
    """A column for every port would make batches that are nothing but holes: refused as well."""
    table = SeriesTable(Layout("t"), Widening(), limit=50)
    for number in range(40):
        table.find("d", f"/p{number}", {"queue": str(number)})
    assert table.take_refused() > 0
    assert table.layout.cells <= 8 * 50 + 50


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", None),
        (5, 5),
        (5.0, 5),
        (5.5, None),
        (-1, None),
        (True, None),
        ("max", None),
        ("", None),
        (float("nan"), None),
        (1e30, None),
        (None, None),
        ([1], None),
    ],
)
def test_counts(value: object, count: int | None) -> None:
    """Whole numbers of 64 bits, as numbers or as digits; nothing else is a count."""
    try:
        assert as_count(value) == count
    except ValueError:
        pytest.fail(f"{value!r} raised")


def test_times_in_four_units() -> None:
    """Seconds to nanoseconds are told by size; what is no time gets the time of reading."""
    stamps = np.array([T0, T0 // 10**3, T0 // 10**6, T0 // 10**9, 0, 1], np.int64)
    times, foreign, untimed = nanoseconds(stamps, 99)
    assert times.tolist() == [T0] * 4 + [99, 99]
    assert foreign.tolist() == [False, True, True, True, False, False]
    assert untimed.tolist() == [False] * 4 + [True] * 2


def test_of_lanes_the_weakest_counts() -> None:
    """Several powers of one port at one time are lanes; the lowest is the port's."""
    bench = Bench()
    series = bench.table.find("d", "/p1/power", {})
    for level in (-1.0, -7.5, -3.0):
        bench.samples.put(series, level)
    bench.samples.stamp(T0)
    assert bench.rows() == [{"p1_rx_power_dbm": -7.5}]


def test_late_and_repeated_samples_are_dropped_across_polls() -> None:
    """What is not newer than what was handed over before is dropped; a clock set back is not."""
    bench = Bench()
    holds = Continuity(bench.table)
    bench.put(100, p1_rx=5)
    assert bench.rows(holds.apply(bench.chunk())) == [{"p1_rx_bytes": 5}]
    bench.put(100, p1_rx=5)
    bench.put(90, p1_rx=4)
    assert len(holds.apply(bench.chunk())) == 0
    assert holds.late == 2
    bench.put(-1000, p1_rx=6)
    assert bench.rows(holds.apply(bench.chunk())) == [{"p1_rx_bytes": 6}]


def test_states_hold_until_something_else_is_said() -> None:
    """A state sent once stays while its port is heard; a delete and a lost session end it."""
    bench = Bench()
    holds = Continuity(bench.table)
    bench.put(0, p1_up=1, p1_rx=1, p2_up=1)
    holds.apply(bench.chunk())
    bench.put(10, p1_rx=2)
    assert bench.rows(holds.apply(bench.chunk())) == [{"p1_rx_bytes": 2, "p1_oper_up": 1.0}]
    holds.end({bench.table.find("d", "/p1/up", {})})
    bench.put(20, p1_rx=3, p2_rx=1)
    assert bench.rows(holds.apply(bench.chunk())) == [
        {"p1_rx_bytes": 3, "p2_rx_bytes": 1, "p2_oper_up": 1.0}
    ]
    holds.forget()
    bench.put(30, p2_rx=2)
    assert bench.rows(holds.apply(bench.chunk())) == [{"p2_rx_bytes": 2}]
