"""A cluster whose workers, leader and server die, freeze, vanish and come back, in any order.

An incident is open all the time. Whatever happens, it stays one incident with one id, every target
is polled again within the lease's TTL and an interval, and nothing that comes twice or late counts.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import nats
import pytest
from support.cluster import INTERVAL_S, TTL_S, Cluster, NatsServer, cluster, gaps, served

from fabricmon.runtime.cluster.message import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(7200)]

ROUNDS = max(1, int(os.environ.get("CHAOS_KILLS", "4")) // 20)
AWAY_S = 60.0 if "CHAOS_KILLS" in os.environ else 6.0
BOUND_S = TTL_S + INTERVAL_S
"""What a takeover may take ..."""
LOAD_S = 6.0
"""... and what the machine may add that runs all of this at once."""
NAMES = ("a", "b", "c")
KIND = "slow-receiver"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three workers, and an incident that stays open."""
    with cluster(tmp_path_factory.mktemp("chaos")) as made:
        for name in NAMES:
            made.start(name)
        made.wait(made.settled)
        made.wait(lambda: KIND in {kind for kind, _, _ in made.incidents().values()}, 150)
        yield made


@pytest.fixture(autouse=True)
def _one_incident(request: pytest.FixtureRequest) -> Iterator[None]:
    """Before and after each test there is the same one incident, and there never was another."""
    yield
    if "made" not in request.fixturenames:
        return
    made: Cluster = request.getfixturevalue("made")
    for name in set(NAMES) - made.workers.keys():
        made.start(name)
    made.wait(made.settled)
    made.wait(lambda: KIND in {kind for kind, _, _ in made.incidents().values()})
    told = made.told(KIND)
    assert len({ident for _, ident in told}) == 1, told
    assert "closed" not in {event for event, _ in told}


def _tick_gap(made: Cluster, since_s: float) -> float:
    at = [entry.stored_s for entry in made.log(since_s) if entry.subject.endswith(".tick")]
    return max(b - a for a, b in pairwise(at))


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_worker_is_killed(made: Cluster, turn: int) -> None:
    """Its targets are polled by the others within TTL + 1 interval; none is lost."""
    others = [name for name in NAMES if name != made.leader()]
    victim = random.Random(turn).choice(others)
    since = time.time() - 2 * INTERVAL_S
    before = {e.stamp.target for e in made.log(since - 10) if e.stamp.target}
    made.kill(victim)
    made.wait(made.settled)
    time.sleep(2 * INTERVAL_S)
    log = made.log(since)
    longest = max(gaps(log).values())
    print({"worker_killed": victim, "longest_gap_s": round(longest, 2), "bound_s": BOUND_S})
    assert {e.stamp.target for e in log if e.stored_s > time.time() - 2 * INTERVAL_S} >= before
    assert longest <= BOUND_S + LOAD_S


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_the_leader_is_killed(made: Cluster, turn: int) -> None:
    """Another leads within TTL + 1 interval, and goes on with the incident."""
    del turn
    leader, since = made.leader(), time.time() - 2 * INTERVAL_S
    made.wait(made.settled)
    made.kill(leader)
    made.wait(lambda: made.leader() not in {"", leader})
    time.sleep(2 * INTERVAL_S)
    gap = _tick_gap(made, since)
    print({"leader_killed": leader, "longest_gap_s": round(gap, 2), "bound_s": BOUND_S})
    assert gap <= BOUND_S + LOAD_S


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_the_leader_freezes_and_thaws(made: Cluster, turn: int) -> None:
    """SIGSTOP for two TTLs: others take over, and what it does after SIGCONT does not count."""
    del turn
    leader, since = made.leader(), time.time()
    frozen = made.workers.pop(leader)
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        made.wait(lambda: made.leader() not in {"", leader})
        time.sleep(TTL_S)
    finally:
        frozen.process.send_signal(signal.SIGCONT)
    made.workers[leader] = frozen
    made.wait(lambda: frozen.samples("fabricmon_self_events_total", event="cluster_fenced"))
    made.wait(lambda: leader == made.leader() or not frozen.samples("fabricmon_incident_active"))

    def leaders() -> set[int]:
        log = made.log(since - 4 * INTERVAL_S)
        return {entry.stamp.token for entry in log if entry.subject.endswith(".tick")}

    made.wait(lambda: len(leaders()) > 1)


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_the_server_is_killed_and_stays_away(made: Cluster, turn: int) -> None:
    """Polling goes on; what was polled meanwhile is in the log when the server is back."""
    del turn
    since = time.time()
    made.server.kill()
    polls = {n: w.samples("fabricmon_polls_total") for n, w in made.workers.items()}
    try:
        made.wait(lambda: not made.incidents())
        time.sleep(AWAY_S)
        for name, worker in made.workers.items():
            now = worker.samples("fabricmon_polls_total")
            assert sum(now.values()) > sum(polls[name].values())
            assert made.number(name, "connected") == 0
            assert made.number(name, "spool_messages") > 0
    finally:
        made.server.start()
    made.wait(lambda: all(made.number(name, "connected") == 1 for name in made.workers))
    made.wait(made.settled)
    time.sleep(2 * INTERVAL_S)
    numbers: dict[str, list[int]] = {}
    for entry in made.log(since):
        if not entry.subject.endswith(".tick"):
            numbers.setdefault(entry.stamp.worker, []).append(entry.stamp.number)
    for sent in numbers.values():
        assert sorted(set(sent)) == list(range(min(sent), max(sent) + 1))


async def _send_again(url: str, subject: str) -> int:
    """The latest messages of the log once more, newest first, as new ones to the server."""
    client = await nats.connect(url)
    stream = client.jetstream()
    last = (await stream.stream_info("fabricmon_fabricmon_log")).state.last_seq
    again = 0
    for sequence in range(last, max(last - 60, 0), -1):
        message = await stream.get_msg("fabricmon_fabricmon_log", sequence)
        assert message.subject is not None
        assert message.headers is not None
        if message.subject.startswith(subject):
            headers = {HEADER: message.headers[HEADER]}
            await stream.publish(message.subject, message.data or b"", headers=headers)
            again += 1
    await stream.publish(f"{subject}.0", b"not one of ours")
    await client.close()
    return again


def test_every_worker_names_the_leader(made: Cluster) -> None:
    """Incidents are on the leader's page; the others' say which one that is."""
    leader = made.leader()
    told = {name: worker.json("/api/v1/status") for name, worker in made.workers.items()}
    for name, status in told.items():
        assert status["leaders"] == {"sim": leader}
        assert bool(status["fabrics"]) == (name == leader)


def test_messages_come_twice_and_in_the_wrong_order(made: Cluster) -> None:
    """Every one is refused and counted, and nothing changes."""
    leader = made.leader()
    before = made.number(leader, "messages_total", outcome="duplicate")
    bad = made.number(leader, "messages_total", outcome="malformed")
    shown = made.incidents()
    again = asyncio.run(_send_again(made.server.url, "fabricmon.fabricmon.sim"))
    made.wait(lambda: made.number(leader, "messages_total", outcome="malformed") > bad)
    refused = made.number(leader, "messages_total", outcome="duplicate") - before
    fenced = made.number(leader, "messages_total", outcome="fenced")
    assert refused + fenced >= again > 0
    time.sleep(2 * INTERVAL_S)
    assert made.incidents() == shown


def test_a_rolling_restart_misses_no_poll(made: Cluster) -> None:
    """Each ends with 0 and comes back; no target and no round waits for a lease to run out."""
    since = time.time() - INTERVAL_S
    for name in NAMES:
        assert made.stop(name) == 0
        made.wait(made.settled)
        made.start(name)
        made.wait(made.settled)
    log = made.log(since)
    longest = max(gaps(log).values())
    ticks = _tick_gap(made, since)
    print({"rolling": True, "longest_gap_s": round(longest, 2), "tick_gap_s": round(ticks, 2)})
    assert max(longest, ticks) < BOUND_S


def test_the_server_is_absent_at_the_start(tmp_path: Path) -> None:
    """A worker polls everything and waits; when the server comes it joins, and judges."""
    store = tmp_path / "nats"
    store.mkdir()
    with served(tmp_path) as base:
        alone = Cluster(tmp_path, NatsServer(store), base)
        try:
            worker = alone.start("a")
            alone.wait(lambda: len(worker.samples("fabricmon_polls_total")) == 2)
            alone.wait(lambda: alone.number("a", "spool_messages") > 50)
            assert not worker.samples("fabricmon_target_up")
            alone.server.start()
            alone.wait(lambda: alone.leader() == "a" and alone.number("a", "shards_held") == 32)
            alone.wait(lambda: alone.number("a", "spool_messages") < 50)
            alone.wait(lambda: len(worker.samples("fabricmon_target_up")) == 40)
        finally:
            alone.close()
            alone.server.kill()
