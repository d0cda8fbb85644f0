"""Leases under a clock that the test turns: who holds what, and who may still act."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.runtime.cluster.lease import NOBODY, Entry, Leases, ranked

TTL = 10.0


class Store:
    """The server's keys: compare and set, one revision for all."""

    def __init__(self) -> None:
        """Nothing is held."""
        self.revision = 0
        self.entries: dict[str, Entry] = {}

    def swap(self, leases: Leases, key: str, holder: str, now: float) -> bool:
        """What a worker asks of the server: only who knows the latest revision may write."""
        known = self.entries[key].revision if key in self.entries else 0
        if leases.revision(key) != known:
            return False
        self.revision += 1
        renewal = key in leases.held and holder == leases.me
        token = leases.entry(key).token if renewal else 0
        self.entries[key] = Entry(self.revision, holder, token)
        if renewal:
            leases.renewed(key, self.revision, now)
        elif holder == leases.me:
            leases.took(key, self.revision, now)
        else:
            leases.dropped(key)
        return True


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"holder": "a"}', b'{"token": "x"}'])
def test_a_key_that_cannot_be_read_is_free(value: bytes) -> None:
    """What a lease writes it reads again; anything else counts as released."""
    entry = Entry(7, "a-1", 5)
    assert Entry.read(7, entry.written()) == entry
    assert Entry.read(7, value) == Entry(7, NOBODY)


def test_a_free_lease_is_taken_once() -> None:
    """Of two who want the same key, the server lets one have it."""
    store, a, b = Store(), Leases("a-1", TTL), Leases("b-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    assert not store.swap(b, "shard.0", "b-1", 0.0)
    b.observe(store.entries, 0.1)
    assert b.holder("shard.0", 0.1) == "a-1"
    assert a.token("shard.0", 0.1) == 1
    assert b.token("shard.0", 0.1) is None


def test_a_holder_that_cannot_renew_stops_before_anybody_takes_over() -> None:
    """Fenced after 0.6 TTL, free for others after 0.8 TTL, by two clocks that share no zero."""
    store, a, b = Store(), Leases("a-1", TTL), Leases("b-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 1_000.0)
    for look in range(9):
        b.observe(store.entries, 5.0 + look)
    assert a.token("shard.0", 1_005.9) == 1
    assert a.token("shard.0", 1_006.0) is None
    assert b.holder("shard.0", 12.9) == "a-1"
    assert b.holder("shard.0", 13.0) == NOBODY
    assert "shard.0" in a.held


def test_a_renewal_keeps_the_token_and_moves_the_fence() -> None:
    """The token is the revision at which it was taken; a renewal is due after 0.2 TTL."""
    store, a, b = Store(), Leases("a-1", TTL), Leases("b-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    b.observe(store.entries, 0.0)
    assert a.due(1.9) == []
    assert a.due(2.0) == ["shard.0"]
    assert store.swap(a, "shard.0", "a-1", 5.0)
    assert store.entries["shard.0"] == Entry(2, "a-1", 1)
    assert a.token("shard.0", 10.9) == 1
    b.observe(store.entries, 7.0)
    assert b.holder("shard.0", 14.9) == "a-1"
    assert b.holder("shard.0", 15.0) == NOBODY


def test_who_could_not_look_takes_nobody_for_dead() -> None:
    """The server was away for all: the first one back gives the others time to renew."""
    store, a, b = Store(), Leases("a-1", TTL), Leases("b-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    for look in (0.0, 1.0, 60.0):
        b.observe(store.entries, look)
    assert b.holder("shard.0", 60.0) == "a-1"
    for look in range(9):
        b.observe(store.entries, 60.0 + look)
    assert b.holder("shard.0", 68.0) == NOBODY


def test_one_that_was_frozen_learns_that_it_lost() -> None:
    """The next holder's token is larger, and the old one cannot write over it."""
    store, a, b = Store(), Leases("a-1", TTL), Leases("b-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    for look in range(9):
        b.observe(store.entries, float(look))
    assert store.swap(b, "shard.0", "b-1", 8.0)
    assert b.token("shard.0", 8.0) == 2
    assert a.token("shard.0", 20.0) is None
    assert not store.swap(a, "shard.0", "a-1", 20.0)
    assert a.observe(store.entries, 20.0) == ["shard.0"]
    assert a.held == frozenset()


def test_a_renewal_whose_answer_was_lost_is_recognised() -> None:
    """The key holds a later revision, but mine: it stays held, and can be renewed again."""
    store, a = Store(), Leases("a-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    store.revision = 7
    store.entries["shard.0"] = Entry(7, "a-1", 1)
    assert not store.swap(a, "shard.0", "a-1", 3.0)
    assert a.observe(store.entries, 3.0) == []
    assert store.swap(a, "shard.0", "a-1", 3.1)
    assert a.token("shard.0", 3.1) == 1


def test_a_store_that_was_lost_ends_every_lease() -> None:
    """A key that is not there any more is nobody's, and new to whoever takes it."""
    store, a = Store(), Leases("a-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    store.entries.clear()
    assert a.observe(store.entries, 1.0) == ["shard.0"]
    assert a.revision("shard.0") == 0


def test_a_released_lease_is_free_at_once() -> None:
    """Nobody waits for the TTL of one that left in order."""
    store, a, b = Store(), Leases("a-1", TTL), Leases("b-1", TTL)
    assert store.swap(a, "shard.0", "a-1", 0.0)
    assert store.swap(a, "shard.0", NOBODY, 1.0)
    b.observe(store.entries, 1.0)
    assert b.holder("shard.0", 1.0) == NOBODY
    assert store.swap(b, "shard.0", "b-1", 1.0)


def test_members_are_those_whose_leases_live() -> None:
    """One that left or died is none; who died can be told."""
    store = Store()
    workers = [Leases(f"{name}-1", TTL) for name in "abc"]
    for leases in workers:
        assert store.swap(leases, f"member.{leases.me}", leases.me, 0.0)
    a, b, _ = workers
    a.observe(store.entries, 0.0)
    assert a.members("member.", 0.0) == ["a-1", "b-1", "c-1"]
    assert store.swap(b, "member.b-1", NOBODY, 0.0)
    for look in range(10):
        a.observe(store.entries, float(look))
        if look == 5:
            assert store.swap(a, "member.a-1", "a-1", 5.0)
    assert a.members("member.", 9.0) == ["a-1"]
    assert sorted(a.expired("member.", 9.0)) == ["member.b-1", "member.c-1"]


_NAMES = st.lists(
    st.from_regex(r"[a-z]{1,6}-[0-9a-f]{6}", fullmatch=True), min_size=2, max_size=9, unique=True
)


@given(_NAMES)
def test_only_the_work_of_one_that_goes_moves(members: list[str]) -> None:
    """Rendezvous hashing: what the others do stays with them."""
    keys = [f"shard.{n}" for n in range(32)]
    before = {key: ranked(key, members)[0] for key in keys}
    rest = members[1:]
    after = {key: ranked(key, rest)[0] for key in keys}
    assert all(after[key] == who for key, who in before.items() if who != members[0])


def test_a_restart_brings_a_worker_its_work_back() -> None:
    """The weight follows from the name, not from the process."""
    keys = [f"shard.{n}" for n in range(64)]
    first = [ranked(key, ["a-000001", "b-000001", "c-000001"])[0][0] for key in keys]
    again = [ranked(key, ["a-ffffff", "b-000001", "c-000001"])[0][0] for key in keys]
    assert first == again
    assert min(first.count(name) for name in "abc") > 64 / 6
