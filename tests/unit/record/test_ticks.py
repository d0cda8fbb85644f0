"""record/ticks: samples with times of their own to ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.formats.base import Chunk, ChunkBuilder, Layout, PortReading
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Intent, Node, Topology
from fabricmon.record.ticks import DEFAULT_INTERVAL_S, Feed, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

RX = Column(BY_ID["rx_bytes"])
PFC = Column(BY_ID["rx_pfc_frames"], 3)
SECOND = 1_000_000_000


def chunk(layout: Layout, rows: list[tuple[float, str, int]], column: Column = RX) -> Chunk:
    """One sample per (seconds, port, value)."""
    builder = ChunkBuilder(layout)
    for seconds, port, value in rows:
        builder.add(PortReading("sw", port, [(column, value)], round(seconds * SECOND) + SECOND))
    return builder.take()


def polls(layout: Layout, ports: str, times: list[float]) -> Chunk:
    """Every port read at every time; the value is the number of the poll."""
    return chunk(layout, [(t, port, i) for i, t in enumerate(times) for port in ports])


def run(layout: Layout, *sources: list[Chunk], interval_s: float = 0.0) -> list[dict[str, int]]:
    """{port: value} that each tick brought."""
    ticks: list[dict[str, int]] = []
    now: dict[str, int] = {}
    for item in stream([Feed(iter(source)) for source in sources], layout, interval_s):
        match item:
            case ReadingBatch():
                good = item.state[0] == State.OK
                ports = np.array(item.ports.port)[good].tolist()
                now.update(zip(ports, item.values[0][good].tolist(), strict=True))
            case Tick():
                ticks.append(now)
                now = {}
    return ticks


def test_regular_polls_are_one_tick_each_and_the_interval_is_learned() -> None:
    """Ten polls of two ports every 2.5 s give ten ticks of 2.5 s at the times of the rows."""
    layout = Layout("x")
    source = [polls(layout, "ab", [i * 2.5 for i in range(10)])]
    ticks = [i for i in stream([Feed(iter(source))], layout) if isinstance(i, Tick)]
    assert [tick.interval_s for tick in ticks] == [2.5] * 10
    assert [tick.time_ns for tick in ticks] == [round(i * 2.5e9) + SECOND for i in range(10)]


def test_rows_within_half_an_interval_are_one_tick() -> None:
    """Port b is read 4 s after port a at an interval of 10 s."""
    layout = Layout("x")
    late = [(t + dt, p, i) for i, t in enumerate((0, 10, 20)) for dt, p in ((0, "a"), (4, "b"))]
    assert run(layout, [chunk(layout, late)]) == [{"a": i, "b": i} for i in range(3)]


@pytest.mark.parametrize("phase", [0.1, 0.5, 0.77, 0.99])
def test_files_in_any_phase_fall_into_one_tick(phase: float) -> None:
    """Two devices polled out of step are both in every tick."""
    layout = Layout("x")
    first = polls(layout, "a", [float(i) for i in range(20)])
    second = polls(layout, "b", [i + phase for i in range(20)])
    ticks = run(layout, [first], [second])
    assert ticks == [{"a": i, "b": i} for i in range(20)]


def test_jitter_tears_no_tick() -> None:
    """Polls of 40 ports that come up to 20 % early or late stay whole."""
    layout = Layout("x")
    random = np.random.default_rng(7)
    times = (np.arange(200) + random.uniform(-0.2, 0.2, 200)).tolist()
    names = [chr(65 + i) for i in range(40)]
    ticks = run(layout, [polls(layout, "".join(names), times)])
    assert ticks == [dict.fromkeys(names, i) for i in range(200)]


def test_a_hole_gives_no_ticks_and_a_lost_poll_is_missing() -> None:
    """Nobody was there for 250 s: no tick. Port b alone lost one poll: a tick without it."""
    layout = Layout("x")
    rows = [
        (float(t), p, t) for t in (0, 1, 2, 252, 253, 254) for p in "ab" if (t, p) != (253, "b")
    ]
    assert run(layout, [chunk(layout, rows)]) == [
        {"a": 0, "b": 0},
        {"a": 1, "b": 1},
        {"a": 2, "b": 2},
        {"a": 252, "b": 252},
        {"a": 253},
        {"a": 254, "b": 254},
    ]


def test_a_port_read_ten_times_as_often_does_not_set_the_pace() -> None:
    """Twenty ports every 10 s and one every second: a tick is 10 s."""
    layout = Layout("x")
    names = [chr(65 + i) for i in range(20)]
    slow = polls(layout, "".join(names), [i * 10.0 for i in range(6)])
    fast = polls(layout, "z", [float(i) for i in range(60)])
    ticks = run(layout, [slow], [fast], interval_s=10.0)
    assert [len(tick) for tick in ticks] == [21] * 6


def test_many_chunks_give_what_one_gives() -> None:
    """Reading on by small pieces changes nothing, even where they overlap in time."""
    layout = Layout("x")
    whole = polls(layout, "abc", [float(i) for i in range(50)])
    pieces = [whole.part(slice(i, i + 7)) for i in range(0, len(whole), 7)]
    assert run(layout, pieces, interval_s=1.0) == run(layout, [whole], interval_s=1.0)


def test_files_are_read_only_as_far_as_a_tick_needs() -> None:
    """Memory stays bounded: the tenth chunk is not read for the first tick."""
    layout = Layout("x")
    read: list[int] = []

    def source() -> Iterator[Chunk]:
        for i in range(100):
            read.append(i)
            yield polls(layout, "ab", [float(i)])

    items = stream([Feed(source())], layout, 1.0)
    while not isinstance(next(items), Tick):
        pass
    assert len(read) < 10


def test_one_poll_alone_is_one_tick() -> None:
    """With nothing to learn from, the default interval is said."""
    layout = Layout("x")
    *_, tick = stream([Feed(iter([polls(layout, "ab", [0.0])]))], layout)
    assert tick == Tick(SECOND, DEFAULT_INTERVAL_S)


def test_queues_that_show_pause_frames_are_lossless_from_then_on() -> None:
    """The intent comes right before the first reading that counts a frame, and once."""
    layout = Layout("x")
    source = [chunk(layout, [(0, "a", 0), (1, "a", 0), (2, "a", 5), (3, "a", 6)], PFC)]
    items = list(stream([Feed(iter(source))], layout))
    shapes = [(i, item) for i, item in enumerate(items) if isinstance(item, Topology)]
    assert shapes == [(4, Topology(intent=Intent((3,))))]


def test_topologies_found_on_the_way_come_in_their_place() -> None:
    """A shape that a file tells in its middle is in the stream."""
    layout = Layout("x")
    shape = Topology((Node("sw", "switch"),))
    pieces = [polls(layout, "a", [0.0, 1.0]), shape, polls(layout, "a", [2.0, 3.0])]
    items = list(stream([Feed(iter(pieces))], layout, 1.0))
    assert items.count(shape) == 1
    assert sum(isinstance(item, Tick) for item in items) == 4


def test_ticks_never_go_back_in_time() -> None:
    """A sample far ahead does not end the reading, and late ones fall into the next tick."""
    layout = Layout("x")
    pieces = [
        chunk(layout, [(float(t), "a", t) for t in range(10)] + [(9e6, "z", 1)]),
        chunk(layout, [(float(t), "a", t) for t in range(10, 20)] + [(3.0, "b", 7)]),
        polls(layout, "a", [float(t) for t in range(20, 30)]),
    ]
    items = list(stream([Feed(iter(pieces))], layout, 1.0))
    times = [item.time_ns for item in items if isinstance(item, Tick)]
    assert times == sorted(set(times))
    assert len(times) == 31
    seen = [item for item in items if isinstance(item, ReadingBatch) and "b" in item.ports.port]
    assert int(seen[0].values[0, item_of(seen[0], "b")]) == 7


def item_of(batch: ReadingBatch, port: str) -> int:
    """The row of a port."""
    return batch.ports.port.index(port)
