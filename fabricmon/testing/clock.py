"""A clock that moves only when told to."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

_EPOCH_NS = 1_700_000_000_000_000_000


class ManualClock:
    """Wall and monotonic time under the test's control; `advance` wakes the sleepers in order."""

    def __init__(self, now_ns: int = _EPOCH_NS) -> None:
        """Start at `now_ns` (nanoseconds since the epoch); monotonic time starts at 0."""
        self._now_ns = now_ns
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_ns(self) -> int:
        """Wall time as set."""
        return self._now_ns

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has passed that many seconds."""
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        """Let time pass; sleepers run at their own moment, not all at the end."""
        end = self._monotonic + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, wake = heapq.heappop(self._sleepers)
            self._pass(at - self._monotonic)
            if not wake.done():
                wake.set_result(None)
            for _ in range(10):
                await asyncio.sleep(0)
        self._pass(end - self._monotonic)

    def step_wall(self, seconds: float) -> None:
        """Step the wall clock alone, as an operator or NTP does."""
        self._now_ns += round(seconds * 1e9)

    def _pass(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now_ns += round(seconds * 1e9)
