"""The guard: one target's trouble is counted and stays that target's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.selfmon import events, metric

from fabricmon.api import Context, Target
from fabricmon.collectors.guard import Guard
from fabricmon.errors import PollError, Reason
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, Poll, PortSet, ReadingBatch
from fabricmon.model.stream import PollFailure
from fabricmon.model.topology import Topology
from fabricmon.settings import Settings

_TARGET = Target("f", "leaf1", "leaf1:161")


def _poll(lost: dict[Reason, int] | None = None) -> Poll:
    ports = PortSet(("leaf1",), ("Ethernet1",))
    column = (Column(BY_ID["rx_bytes"]),)
    batch = ReadingBatch(
        "leaf1", ports, column, np.ones((1, 1), np.uint64), np.zeros((1, 1), np.uint8),
        np.zeros(1, np.int64),
    )  # fmt: skip
    return Poll((batch,), lost or {})


class _Scripted:
    """A collector that does what the test says, poll after poll."""

    Config = Settings

    def __init__(self, script: list[Callable[[], Any]]) -> None:
        self.script = script

    async def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        """Nothing to stop."""

    async def discover(self, _target: Target) -> Topology | None:
        """As scripted."""
        return await self.poll(_target)  # type: ignore[return-value]

    async def poll(self, _target: Target) -> Poll:
        """As scripted."""
        outcome = self.script.pop(0)()
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        if isinstance(outcome, Exception):
            raise outcome
        result: Poll = outcome
        return result


def _guard(context: Context, *script: Callable[[], Any], deadline_s: float = 5.0) -> Guard:
    return Guard("scripted", _Scripted(list(script)), Settings(), [_TARGET], context, deadline_s)


async def test_a_good_poll_is_booked(context: Context) -> None:
    """The target is up, and what was lost on the way is counted by reason."""
    guard = _guard(context, lambda: _poll({Reason.MALFORMED: 3}))
    assert isinstance(await guard.poll(_TARGET), Poll)
    (status,) = guard.status()
    assert (True, context.clock.now_ns()) == (status.up, status.last_success_ns)
    lost = {"collector": "scripted", "reason": "malformed"}
    assert 3 == metric(context, "fabricmon_poll_rows_lost_total", **lost)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (lambda: PollError(Reason.AUTHENTICATION, "leaf1: wrong key"), Reason.AUTHENTICATION),
        (lambda: ZeroDivisionError("bug"), Reason.INTERNAL),
        (lambda: asyncio.sleep(60), Reason.TIMEOUT),
    ],
)
async def test_a_failed_poll_is_a_counted_reason(
    context: Context, outcome: Callable[[], Any], reason: Reason
) -> None:
    """Whatever a collector does, the guard answers with a failure of a closed list."""
    guard = _guard(context, outcome, deadline_s=0.05)
    failure = await guard.poll(_TARGET)
    assert isinstance(failure, PollFailure)
    assert (reason, "leaf1") == (failure.reason, failure.target)
    (status,) = guard.status()
    assert (False, {reason.value: 1}) == (status.up, status.failures)
    labels = {"collector": "scripted", "reason": reason.value}
    assert 1 == metric(context, "fabricmon_poll_failures_total", **labels)


async def test_a_dead_target_is_left_alone_ever_longer_but_not_for_ever(context: Context) -> None:
    """After three failures polls are skipped, doubling up to a bound."""
    dead = [lambda: PollError(Reason.TIMEOUT, "no answer")] * 200
    guard = _guard(context, *dead)
    gaps, waited = [], 0
    for _ in range(200):
        if guard.due():
            await guard.poll(_TARGET)
            gaps.append(waited)
            waited = 0
        else:
            waited += 1
    assert [0, 0, 0] == gaps[:3]
    assert max(gaps) <= 16
    assert gaps[-1] >= 8


async def test_a_target_that_answers_again_is_polled_at_once(context: Context) -> None:
    """Recovery ends the back-off and is reported."""
    guard = _guard(context, lambda: PollError(Reason.TIMEOUT, "no answer"), _poll)
    await guard.poll(_TARGET)
    assert not guard.healthy(_TARGET)
    await guard.poll(_TARGET)
    assert guard.healthy(_TARGET)
    assert 1 == events(context, "target_recovered")


async def test_a_poll_in_flight_is_not_begun_twice(context: Context) -> None:
    """A target slower than the interval is passed over until it is done."""
    release = asyncio.Event()

    async def slow() -> Poll:
        await release.wait()
        return _poll()

    guard = _guard(context, slow)
    task = asyncio.create_task(guard.poll(_TARGET))
    await asyncio.sleep(0)
    assert [] == guard.due()
    release.set()
    await task
    assert [_TARGET] == guard.due()


async def test_discovery_that_fails_costs_nothing_else(context: Context) -> None:
    """A target that cannot be asked gives no topology and an event."""
    guard = _guard(context, lambda: PollError(Reason.NO_DATA, "no LLDP"))
    assert await guard.discover(_TARGET) is None
    assert 1 == events(context, "discovery_failed")
