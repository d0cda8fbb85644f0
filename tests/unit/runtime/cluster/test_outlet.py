"""What waits to be sent: in order, bounded, and only under a lease that may be acted on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.selfmon import metric

from fabricmon.errors import Reason
from fabricmon.model.stream import PollFailure, Tick
from fabricmon.model.topology import Job, Node, Topology
from fabricmon.runtime.cluster.follower import BrokerError
from fabricmon.runtime.cluster.lease import Leases
from fabricmon.runtime.cluster.message import HEADER, Stamp
from fabricmon.runtime.cluster.outlet import Outlet, Spool
from fabricmon.runtime.cluster.sender import Sender
from fabricmon.runtime.inventory import shard_of

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.topology import Topology as Shape
    from fabricmon.testing import ManualClock

TTL = 10.0


class Log:
    """Takes messages, or is away."""

    cluster, store, most_bytes = "test", 1, 1 << 20

    def __init__(self) -> None:
        """Up."""
        self.away = False
        self.taken: list[tuple[str, Stamp]] = []

    async def append(self, subject: str, _body: bytes, headers: dict[str, str]) -> bool:
        """As the broker does."""
        if self.away:
            raise BrokerError("away")
        self.taken.append((subject, Stamp.read({HEADER: headers[HEADER]})))
        return True


def failure(target: str) -> PollFailure:
    """A small item."""
    return PollFailure(target, "snmp", Reason.TIMEOUT, 1)


def outlet(spool: Spool, *, leading: bool = False, rounds: list[Tick] | None = None) -> Outlet:
    """An outlet of a fabric whose targets are t0 to t9."""
    told = rounds if rounds is not None else []
    judge: Any = SimpleNamespace(
        fabric="f", most_bytes=1 << 20, leading=leading, round_over=told.append
    )
    kinds = {f"t{n}": "snmp" for n in range(10)}
    return Outlet(judge, "fabricmon.c", 4, kinds, spool, "member.a-1")


async def turns() -> None:
    """Let the event loop run what is due."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def leases() -> Leases:
    """Shard 0 to 3 are held since second 0, by revisions 10 to 13."""
    made = Leases("a-1", TTL)
    for shard in range(4):
        made.took(f"shard.{shard}", 10 + shard, 0.0)
    return made


async def test_letters_go_in_order_under_their_shard_s_lease(
    context: Context, leases: Leases
) -> None:
    """Subject and token follow from the target; a tick ends the round and is no letter."""
    spool, log, rounds = Spool(1 << 20, lambda _: None), Log(), list[Tick]()
    spool.bind()
    source = outlet(spool, rounds=rounds)
    for n in range(10):
        source.feed(failure(f"t{n}"))
    source.feed(Tick(5, 1.0))
    broker: Any = log
    task = asyncio.create_task(Sender(spool, broker, leases, context, lambda _: False).run())
    await turns()
    task.cancel()
    assert [stamp.target for _, stamp in log.taken] == [f"t{n}" for n in range(10)]
    assert [stamp.number for _, stamp in log.taken] == list(range(1, 11))
    for subject, stamp in log.taken:
        shard = shard_of(stamp.target, 4)
        assert subject == f"fabricmon.c.f.{shard}"
        assert (stamp.token, stamp.collector) == (10 + shard, "snmp")
    assert rounds == [Tick(5, 1.0)]
    assert spool.empty.is_set()


async def test_letters_wait_while_the_log_is_away_and_the_lease_unsure(
    context: Context, clock: ManualClock, leases: Leases
) -> None:
    """Away, then fenced, then renewed: nothing is lost, and nothing goes out while fenced."""
    spool, log = Spool(1 << 20, lambda _: None), Log()
    spool.bind()
    source, log.away = outlet(spool), True
    source.feed(failure("t1"))
    broker: Any = log
    task = asyncio.create_task(Sender(spool, broker, leases, context, lambda _: False).run())
    await turns()
    await clock.advance(7.0)
    log.away = False
    await clock.advance(1.0)
    assert log.taken == []
    leases.renewed(source.lease("t1"), 99, clock.monotonic())
    await clock.advance(1.0)
    task.cancel()
    assert [stamp.target for _, stamp in log.taken] == ["t1"]


async def test_letters_of_a_lost_lease_are_fenced(context: Context, leases: Leases) -> None:
    """Somebody else polls these targets now: what was polled here does not go out."""
    spool, log = Spool(1 << 20, lambda _: None), Log()
    spool.bind()
    source = outlet(spool)
    lost = source.lease("t1")
    leases.dropped(lost)
    for n in range(10):
        source.feed(failure(f"t{n}"))
    broker: Any = log
    task = asyncio.create_task(Sender(spool, broker, leases, context, lost.__eq__).run())
    await turns()
    task.cancel()
    gone = source.names([lost])
    assert "t1" in gone
    assert {stamp.target for _, stamp in log.taken} == {f"t{n}" for n in range(10)} - gone
    assert metric(context, "fabricmon_cluster_messages_total", outcome="fenced") == len(gone)


def test_the_spool_is_bounded_and_drops_the_oldest() -> None:
    """What does not fit is counted; one letter is always kept."""
    dropped: list[int] = []
    spool = Spool(100, dropped.append)
    for n in range(5):
        spool.put("s", "l", f"t{n}", "snmp", b"x" * 40)
    assert len(spool) == 2
    assert sum(dropped) == 3
    spool.put("s", "l", "large", "snmp", b"x" * 1000)
    assert len(spool) == 1


@pytest.mark.parametrize(
    ("shape", "leading", "sent"),
    [
        (Topology((Node("leaf1", "switch"),)), False, 1),
        (Topology(jobs=(Job("train", ("h1",)),)), False, 0),
        (Topology(jobs=(Job("train", ("h1",)),)), True, 1),
        (Topology(idle=True), False, 0),
    ],
)
def test_the_map_of_jobs_is_the_leader_s(shape: Shape, leading: bool, sent: int) -> None:
    """Everybody tells the shape that its targets know; jobs are told once."""
    spool = Spool(1 << 20, lambda _: None)
    outlet(spool, leading=leading).feed(shape)
    assert len(spool) == sent
