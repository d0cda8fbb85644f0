"""Unwrapping gives back what was counted, whatever the width, the rate and the order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.readings import SECOND, START, Feed, column

from fabricmon.model.readings import PortSet, ReadingBatch, State

_WRAPPING = st.sampled_from([16, 32, 48, 64])


@st.composite
def _histories(draw: st.DrawFn) -> tuple[int, int, int, list[int]]:
    """Width, scale, first value, and what the counter moved by each second, in source units."""
    bits = draw(_WRAPPING)
    scale = draw(st.sampled_from([1, 4]))
    most = min(int(12.5e9 / scale), (1 << bits) // 2 - 1)
    moves = draw(st.lists(st.integers(1, most), min_size=1, max_size=12))
    return bits, scale, draw(st.integers(0, (1 << bits) - 1)), moves


@given(_histories())
def test_unwrapping_undoes_wrapping(history: tuple[int, int, int, list[int]]) -> None:
    """For any width and any rate below line rate and half the range, totals and rates are exact."""
    bits, scale, start, moves = history
    feed = Feed([column("tx_bytes", bits=bits, scale=scale)])
    value, total = start, start * scale
    feed.read(0, value)
    feed.tick(1)
    for second, move in enumerate(moves, 1):
        value, total = value + move, total + move * scale
        feed.read(second, value % (1 << bits))
        frame = feed.tick(second + 1)
        assert frame.total[0, 0] == total
        assert frame.rate[0, 0] == np.float32(move * scale)
        assert frame.state[0, 0] in {State.OK, State.WRAPPED}


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_duplicates_and_stragglers_change_no_frame(moves: list[int], random: object) -> None:
    """The same readings, with copies of old ones strewn in, give the same frames."""
    plain, strewn = Feed(), Feed()
    values = np.cumsum(moves).tolist()
    for second, value in enumerate(values):
        plain.read(second, value)
        strewn.read(second, value)
        for _ in range(random.randint(0, 2)):  # type: ignore[attr-defined]
            old = random.randint(0, second)  # type: ignore[attr-defined]
            strewn.read(old, values[old])
        one, other = plain.tick(second + 1), strewn.tick(second + 1)
        assert np.array_equal(one.rate, other.rate, equal_nan=True)
        assert np.array_equal(one.total, other.total)


@given(
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=10),
)
def test_what_was_not_read_is_never_a_number(polls: list[list[bool]]) -> None:
    """A missing cell has no rate; a present one has the true rate since its last reading."""
    feed = Feed(["tx_bytes", "rx_bytes"], ports=2)
    last: dict[tuple[int, int], int] = {}
    for second, mask in enumerate(polls):
        state = np.where(np.array(mask).reshape(2, 2), State.OK, State.MISSING).astype(np.uint8)
        values = np.full((2, 2), second * 1000, np.uint64)
        times = np.full(2, START + second * SECOND, np.int64)
        feed.normalizer.absorb(ReadingBatch("sw", feed.ports, feed.columns, values, state, times))
        frame = feed.tick(second + 1)
        slot = {"tx_bytes": 0, "rx_bytes": 1}
        for name, i in slot.items():
            for port in range(2):
                rate = frame.rate_of(name)[port]
                if state[i, port] == State.MISSING:
                    assert np.isnan(rate)
                elif (i, port) in last:
                    assert np.isclose(rate, 1000)
                    last[i, port] = second
                else:
                    assert np.isnan(rate)
                    last[i, port] = second


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_the_order_of_rows_and_targets_does_not_matter(rows: list[int], turns: list[int]) -> None:
    """Ports named in any order, over any split into targets, get the same numbers."""
    feed = Feed()
    sets = [PortSet(("dev",), (str(i),)) for i in range(6)]
    whole = PortSet(("dev",) * 6, tuple(map(str, rows)))
    columns = feed.columns
    for second in range(3):
        times = np.full(6, START + second * SECOND, np.int64)
        if second == 1:
            for i in turns:
                batch = feed.batch(second, [100 * (i + 1)], ports=sets[i])
                feed.normalizer.absorb(batch)
        else:
            values = np.array([[100 * second * (i + 1) for i in rows]], np.uint64)
            states = np.zeros((1, 6), np.uint8)
            feed.normalizer.absorb(ReadingBatch("d", whole, columns, values, states, times))
        frame = feed.tick(second + 1)
    for i in range(6):
        row = feed.table.row(feed.table.ids[0]._replace(device="dev", port=str(i)))
        assert row is not None
        assert frame.rate[0, row] == 100 * (i + 1)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=4),
        min_size=2,
        max_size=8,
    )
)
def test_readings_between_ticks_add_up(ticks: list[list[tuple[int, bool]]]) -> None:
    """However many readings a tick has, and whatever is missing in some, totals are exact."""
    feed = Feed(["tx_bytes", "rx_bytes"], ports=2)
    value, seen = 1000, {}
    for second, moves in enumerate(ticks):
        for i, (move, both) in enumerate(moves):
            value += move
            state = [[State.OK, State.OK], [State.OK, State.OK if both else State.MISSING]]
            batch = feed.batch(second + (i + 1) / 10, [value, value], state=state)
            feed.normalizer.absorb(batch)
            for cell in [(0, 0), (0, 1), (1, 0)] + [(1, 1)] * both:
                seen[cell] = value
        frame = feed.tick(second + 1)
        for (i, port), last in seen.items():
            assert frame.total[frame.row(("tx_bytes", "rx_bytes")[i]), port] == last
