"""What every plug-in promises (see `api`), as checks a test can call.

Outside plug-ins use them too::

    async def test_my_collector_keeps_its_promises() -> None:
        await check_collector(lambda: MyCollector(MyConfig(), [target], context), target)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fabricmon.errors import PollError
from fabricmon.model.readings import Poll
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.api import Collector, Component, Exporter, Target

_STOP_S = 1.0


async def check_lifecycle(make: Callable[[], Component]) -> None:
    """Stop without start, start and stop, stop twice, start again."""
    await asyncio.wait_for(make().stop(), _STOP_S)
    component = make()
    for _ in range(2):
        await component.start()
        await asyncio.wait_for(component.stop(), _STOP_S)
    await asyncio.wait_for(component.stop(), _STOP_S)


def _check_config(component: Component) -> None:
    config = getattr(type(component), "Config", None)
    assert isinstance(config, type), f"{type(component).__name__} declares no Config"
    assert issubclass(config, Settings), f"{config.__name__} is not built on Settings"


async def check_collector(make: Callable[[], Collector], target: Target) -> None:
    """A poll gives a `Poll` or raises `PollError`, and can be cancelled at any time."""
    _check_config(make())
    await check_lifecycle(make)
    collector = make()
    await collector.start()
    try:
        try:
            poll = await collector.poll(target)
        except PollError as error:
            assert str(error), "a PollError explains itself"  # noqa: PT017
        else:
            assert isinstance(poll, Poll)
            for batch in poll.batches:
                assert batch.target == target.name
        task = asyncio.ensure_future(collector.poll(target))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=_STOP_S)
        assert task.done(), "a cancelled poll ends"
        if not task.cancelled():
            task.exception()
    finally:
        await collector.stop()


async def check_exporter(make: Callable[[], Exporter]) -> None:
    """The lifecycle holds and the config is declared."""
    _check_config(make())
    await check_lifecycle(make)
