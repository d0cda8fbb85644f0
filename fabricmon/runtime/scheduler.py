"""When things happen: a handful of coarse APScheduler jobs, immune to clock steps.

APScheduler plans in wall time: after a step back it sleeps the step away, after a step forward it
walks through every run it missed. Both are mended here: `_Paced` never plans into the past, and a
watchdog that compares wall with monotonic time re-arms every job within a second of a step.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fabricmon.api import Context
    from fabricmon.clock import Clock

_WATCH_S = 1.0
_STEP_S = 0.5


class _Paced(BaseTrigger):  # type: ignore[misc] # apscheduler ships no types
    """Fires on a grid of `interval_s` of the monotonic clock, never in the past."""

    def __init__(self, clock: Clock, interval_s: float, first_s: float) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._origin = clock.monotonic() + first_s
        self._begun = False

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """First the origin; then the next grid point after `now`, whatever was missed."""
        elapsed = self._clock.monotonic() - self._origin
        if not self._begun or elapsed < 0:
            self._begun = True
            return now + timedelta(seconds=max(0.0, -elapsed))
        rest = self._interval_s - elapsed % self._interval_s
        if previous is not None and rest < 0.1 * self._interval_s:
            rest += self._interval_s  # the timer fired a hair before its grid point
        return now + timedelta(seconds=rest)

    def late_s(self) -> float:
        """How long ago the latest grid point was; a timer that fires a hair early is not late."""
        elapsed = self._clock.monotonic() - self._origin
        rest = elapsed % self._interval_s
        return rest if elapsed > 0 and rest < 0.9 * self._interval_s else 0.0


class Scheduler:
    """Coarse periodic jobs. A job that still runs when it is due again is skipped, and counted."""

    def __init__(self, context: Context) -> None:
        """Inert until `start`."""
        self._context = context
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._watchdog: asyncio.Task[None] | None = None
        self._running: set[str] = set()

    def every(
        self,
        name: str,
        interval_s: float,
        job: Callable[[], Awaitable[None]],
        *,
        first_s: float = 0.0,
    ) -> None:
        """Run `job` every `interval_s`, first after `first_s`."""
        paced = _Paced(self._context.clock, interval_s, first_s)
        self._scheduler.add_job(
            self._run,
            trigger=paced,
            args=(name, job, paced),
            id=name,
            name=name,
            misfire_grace_time=None,
            coalesce=True,
            max_instances=2,
            replace_existing=True,
        )

    def remove(self, name: str) -> None:
        """Forget a job; unknown names are fine."""
        if self._scheduler.get_job(name) is not None:
            self._scheduler.remove_job(name)

    async def start(self) -> None:
        """Begin to run jobs."""
        # Failed jobs are reported by `_run`; apscheduler would only add those that a stop cancels.
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
        self._scheduler.start()
        self._watchdog = asyncio.create_task(self._watch(), name="clock-watchdog")

    async def stop(self) -> None:
        """Stop planning; running jobs are the caller's to end."""
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)

    async def _run(self, name: str, job: Callable[[], Awaitable[None]], paced: _Paced) -> None:
        self._context.report.metrics.tick_lateness.observe(paced.late_s())
        if name in self._running:
            self._context.report.emit(Event.TICK_LATE, name, reason="still running")
            return
        self._running.add(name)
        try:
            await job()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - one failed run must not end the schedule
            self._context.report.emit(Event.COMPONENT_FAILED, name, error=repr(error))
        finally:
            self._running.discard(name)

    async def _watch(self) -> None:
        """Compare how far wall and monotonic time went; re-arm every job after a step."""
        clock = self._context.clock
        wall, mono = clock.now_ns(), clock.monotonic()
        while True:
            await asyncio.sleep(_WATCH_S)
            wall_now, mono_now = clock.now_ns(), clock.monotonic()
            step_s = (wall_now - wall) / 1e9 - (mono_now - mono)
            wall, mono = wall_now, mono_now
            if abs(step_s) >= _STEP_S:
                self._context.report.emit(Event.CLOCK_STEPPED, seconds=round(step_s, 3))
                self._rearm()

    def _rearm(self) -> None:
        now = datetime.fromtimestamp(self._context.clock.now_ns() / 1e9, UTC)
        for job in self._scheduler.get_jobs():
            next_run: Any = job.trigger.get_next_fire_time(None, now)
            job.modify(next_run_time=next_run)
