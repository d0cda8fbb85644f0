"""The only file that reads real time. Everything else is given a `Clock`."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps, monotonic time for pacing. `testing.ManualClock` is the other one."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since the epoch, UTC. May step."""

    def monotonic(self) -> float:
        """Seconds that never step; the zero is arbitrary."""

    async def sleep(self, seconds: float) -> None:
        """Wait that many monotonic seconds."""


class SystemClock:
    """The machine's clocks."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic(self) -> float:
        """The machine's monotonic clock, seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Yield to the event loop for that long."""
        await asyncio.sleep(seconds)


def cpu_seconds() -> float:
    """CPU time of this process, user and system, seconds."""
    return time.process_time()
