"""exporters/tasks: what runs beside the ticks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.selfmon import events

from fabricmon_exporters import tasks

if TYPE_CHECKING:
    from fabricmon.api import Context


async def test_a_task_that_fails_is_reported(context: Context) -> None:
    """A bug in a sender is an event, not silence; a cancelled one is none."""

    async def fails() -> None:
        raise RuntimeError("a bug")

    async def waits() -> None:
        await asyncio.sleep(60)

    failed = tasks.begin(fails(), "x", context)
    await asyncio.wait({failed})
    await tasks.end(tasks.begin(waits(), "y", context))
    await tasks.end(None)
    assert events(context, "component_failed") == 1
