"""The schedule: coarse jobs that clock steps neither stop nor flood."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from support.selfmon import events

from fabricmon.api import Context
from fabricmon.clock import SystemClock
from fabricmon.runtime.scheduler import Scheduler, _Paced
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock


class _Stepping(SystemClock):
    """Real time with a wall clock that can be stepped."""

    step_ns = 0

    def now_ns(self) -> int:
        """Stepped wall time."""
        return super().now_ns() + self.step_ns


class TestPaced:
    async def test_begins_at_once(self, clock: ManualClock) -> None:
        """The first run is at the origin, not an interval later."""
        trigger = _Paced(clock, 600.0, 0.0)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert now == trigger.get_next_fire_time(None, now)
        assert now + timedelta(seconds=600) == trigger.get_next_fire_time(now, now)

    async def test_never_in_the_past(self, clock: ManualClock) -> None:
        """After thirty days of sleep there is one next run, not 259,200 missed ones."""
        trigger = _Paced(clock, 10.0, 0.0)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        trigger.get_next_fire_time(None, now)
        later = now + timedelta(days=30)
        await clock.advance(3.0)
        following = trigger.get_next_fire_time(now, later)
        assert timedelta(seconds=7) == following - later

    async def test_keeps_its_grid(self, clock: ManualClock) -> None:
        """A late run does not shift the ones after it."""
        trigger = _Paced(clock, 10.0, 0.0)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        trigger.get_next_fire_time(None, now)
        await clock.advance(10.4)
        at = trigger.get_next_fire_time(now, now)
        assert abs((at - now).total_seconds() - 9.6) < 1e-6

    async def test_a_timer_that_fires_early_does_not_fire_twice(self, clock: ManualClock) -> None:
        """A hair before the grid point counts as the grid point."""
        trigger = _Paced(clock, 10.0, 0.0)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        trigger.get_next_fire_time(None, now)
        await clock.advance(9.999)
        at = trigger.get_next_fire_time(now, now)
        assert abs((at - now).total_seconds() - 10.001) < 1e-6


async def test_jobs_run_and_a_failing_one_goes_on(context: Context) -> None:
    """A job that raises is reported and runs again."""
    scheduler = Scheduler(Context(SystemClock(), context.report))
    ran = asyncio.Event()
    runs = 0

    async def job() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            ran.set()
        raise ValueError("broken")

    scheduler.every("job", 0.02, job)
    await scheduler.start()
    await asyncio.wait_for(ran.wait(), 10)
    await scheduler.stop()
    assert events(context, "component_failed") >= 3


async def test_a_step_back_does_not_stop_the_jobs() -> None:
    """An hour back: the watchdog re-arms, and the job runs on within seconds."""
    clock = _Stepping()
    context = Context(clock, Reporter(clock))
    scheduler = Scheduler(context)
    stepped, after = asyncio.Event(), asyncio.Event()

    async def job() -> None:
        if stepped.is_set():
            after.set()

    scheduler.every("job", 0.05, job)
    await scheduler.start()
    await asyncio.sleep(0.1)
    clock.step_ns = -3600 * 10**9
    stepped.set()
    await asyncio.wait_for(after.wait(), 20)
    for _ in range(200):
        if events(context, "clock_stepped"):
            break
        await asyncio.sleep(0.05)
    await scheduler.stop()
    assert events(context, "clock_stepped") == 1
