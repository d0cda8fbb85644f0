"""What a judge lets in: nothing from a lost lease, nothing twice, nothing in the wrong order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.errors import Reason
from fabricmon.model.readings import PortSet, ReadingBatch
from fabricmon.model.stream import PollFailure, Tick
from fabricmon.runtime.cluster.gate import Books, Gate, Outcome
from fabricmon.runtime.cluster.message import Stamp

SECOND = 10**9


def stamp(token: int, number: int, target: str = "leaf1", **more: int) -> Stamp:
    """A message of a worker."""
    return Stamp("a-1", more.get("store", 1), token, number, more.get("sent_ns", 0), target, "snmp")


def batch(target: str = "leaf1", time_ns: int = 0) -> ReadingBatch:
    """A reading of one port without counters."""
    none = np.zeros((0, 1), np.uint64)
    at = np.array([time_ns])
    return ReadingBatch(target, PortSet(("d",), ("p",)), (), none, none.astype(np.uint8), at)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6), st.sampled_from("xy"))))
def test_what_is_used_only_ever_grows(messages: list[tuple[int, int, str]]) -> None:
    """In whatever order and how often messages come: tokens never fall, numbers rise."""
    gate, used = Gate(), []
    for token, number, target in messages:
        if gate.admit("f.0", stamp(token, number, target)) is Outcome.USED:
            used.append((token, number, target))
    assert [token for token, _, _ in used] == sorted(token for token, _, _ in used)
    for name in "xy":
        own = [(token, number) for token, number, target in used if target == name]
        assert own == sorted(set(own))


@given(st.lists(st.integers(1, 9), min_size=1))
def test_a_second_time_changes_nothing(numbers: list[int]) -> None:
    """Each message at once again, and all of them again at the end."""
    once, twice = Gate(), Gate()
    used = [n for n in numbers if once.admit("f.0", stamp(1, n)) is Outcome.USED]
    again = [n for n in numbers for _ in (1, 2) if twice.admit("f.0", stamp(1, n)) is Outcome.USED]
    assert used == again
    assert all(once.admit("f.0", stamp(1, n)) is Outcome.DUPLICATE for n in numbers)


def test_a_zombie_is_fenced() -> None:
    """Once the next holder was heard, the one before is not, whatever it numbers its messages."""
    gate = Gate()
    assert gate.admit("f.0", stamp(4, 100)) is Outcome.USED
    assert gate.admit("f.0", stamp(9, 1)) is Outcome.USED
    assert gate.admit("f.0", stamp(4, 101)) is Outcome.FENCED
    assert gate.admit("f.1", stamp(4, 101)) is Outcome.USED


def test_a_new_store_counts_anew() -> None:
    """A server that lost its store gives small tokens again; they are the newer ones."""
    gate = Gate()
    assert gate.admit("f.0", stamp(900, 5)) is Outcome.USED
    assert gate.admit("f.0", stamp(2, 6, store=2)) is Outcome.USED
    assert gate.admit("f.0", stamp(901, 7)) is Outcome.FENCED


def test_a_clock_that_is_off_is_translated_and_held() -> None:
    """Ten minutes ahead or behind: times become the server's; a delay below a second moves none."""
    for skew in (600 * SECOND, -600 * SECOND):
        gate, now = Gate(), 1_000 * SECOND
        first = gate.aligned(batch(time_ns=now + skew), stamp(1, 1, sent_ns=now + skew), now)
        assert isinstance(first, ReadingBatch)
        assert first.time_ns[0] == now
        later = now + 10 * SECOND
        slow = stamp(1, 2, sent_ns=later + skew)
        second = gate.aligned(batch(time_ns=later + skew), slow, later + SECOND // 2)
        assert isinstance(second, ReadingBatch)
        assert second.time_ns[0] == later
        tick = gate.aligned(Tick(later + skew, 10.0), slow, later)
        assert tick == Tick(later, 10.0)


def test_clocks_that_agree_are_left_alone() -> None:
    """The same object, so that what one machine measured is what counts."""
    gate, item = Gate(), batch(time_ns=5 * SECOND)
    assert gate.aligned(item, stamp(1, 1, sent_ns=5 * SECOND), 5 * SECOND + SECOND // 2) is item


def test_a_clock_that_steps_is_followed() -> None:
    """An hour back and forth again."""
    gate, hour = Gate(), 3600 * SECOND
    for step in (0, -hour, 0, hour):
        now = 10_000 * SECOND
        item = gate.aligned(batch(time_ns=now + step), stamp(1, 1, sent_ns=now + step), now)
        assert isinstance(item, ReadingBatch)
        assert item.time_ns[0] == now


def test_a_round_is_complete_when_all_that_gave_something_are_heard() -> None:
    """Of the last round: one that failed is not waited for, one that fails now was heard."""
    books = Books("f")
    failure = PollFailure("leaf2", "snmp", Reason.TIMEOUT, 1, "no answer")
    books.take(batch("leaf1"), stamp(1, 1, "leaf1"))
    books.take(failure, stamp(1, 2, "leaf2"))
    books.take(batch("leaf3"), stamp(1, 3, "leaf3"))
    books.take(Tick(0, 1.0), stamp(1, 1, ""))
    assert not books.complete()
    books.take(batch("leaf3"), stamp(1, 4, "leaf3"))
    assert not books.complete()
    books.forget("leaf1")
    assert books.complete()
    status = {line.target: line for line in books.status()}
    assert set(status) == {"leaf2", "leaf3"}
    assert status["leaf3"].up
    assert status["leaf3"].collector == "snmp"
    assert not status["leaf2"].up
    assert status["leaf2"].failures == {"timeout": 1}
