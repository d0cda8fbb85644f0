"""The gNMI collector with one target, and readings a simulated device may serve."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.api import Context, Target
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.errors import PollError, Reason
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.model.readings import Poll
    from fabricmon.simulate.agents.gnmi import GnmiAgent
    from fabricmon.testing import ManualClock

T0 = 1_764_460_800_000_000_000
S = 1_000_000_000
COLUMNS = (
    Column(BY_ID["rx_bytes"]),
    Column(BY_ID["rx_pfc_frames"], 3),
    Column(BY_ID["rx_pfc_ns"], 3),
)


def batch(
    seconds: float, value: int, ports: tuple[str, ...] = ("swp1", "swp2"), device: str = "leaf1"
) -> ReadingBatch:
    """What a device counts at some time; the same for every counter and port."""
    n = len(ports)
    return ReadingBatch(
        "sim",
        PortSet((device,) * n, ports),
        COLUMNS,
        np.full((3, n), value, np.uint64),
        np.zeros((3, n), np.uint8),
        np.full(n, T0 + round(seconds * S), np.int64),
        (Column(BY_ID["oper_up"]),),
        np.ones((1, n)),
    )


class Client:
    """A collector with one target, and what a test asks of it."""

    def __init__(self, address: str, context: Context, **config: Any) -> None:
        """`credential` and `options` go to the target, the rest is the collector's config."""
        credential = config.pop("credential", None)
        options = config.pop("options", {"insecure": True})
        self.target = Target("f", "t", address, credential, "cumulus", options)
        self.collector = GnmiCollector(GnmiConfig(**config), [self.target], context)

    async def poll(self) -> Poll:
        """One poll, bounded."""
        async with asyncio.timeout(10):
            return await self.collector.poll(self.target)

    async def until(self, found: Callable[[Poll | PollError], bool]) -> Poll | PollError:
        """Poll until a result is as wanted."""
        async with asyncio.timeout(20):
            while True:
                try:
                    result: Poll | PollError = await self.collector.poll(self.target)
                except PollError as error:
                    result = error
                if found(result):
                    return result
                await asyncio.sleep(0.02)

    async def value(self, want: int, counter: str = "rx_bytes") -> Poll:
        """Poll until this value has come."""
        poll = await self.until(
            lambda r: not isinstance(r, PollError) and want in values(r, counter)
        )
        assert not isinstance(poll, PollError)
        return poll

    async def failure(self, reason: Reason) -> PollError:
        """Poll until this failure is told."""
        error = await self.until(lambda r: isinstance(r, PollError) and r.reason is reason)
        assert isinstance(error, PollError)
        return error


async def again(agent: GnmiAgent, clock: ManualClock, step_s: float = 5.0) -> None:
    """Let time pass until a client has connected a second time."""
    async with asyncio.timeout(20):
        while agent.connections < 2:
            await clock.advance(step_s)
            await asyncio.sleep(0.02)


def values(poll: Poll, counter: str = "rx_bytes", port: str = "swp1") -> list[int]:
    """One counter of one port through the batches of a poll, in catalogue units."""
    found = []
    for one in poll.batches:
        if port not in one.ports.port:
            continue
        n = one.ports.port.index(port)
        for k, column in enumerate(one.columns):
            if column.counter.id == counter and one.state[k, n] == State.OK:
                found.append(int(one.values[k, n]) * column.scale)
    return found
