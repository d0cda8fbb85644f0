"""exporters/tasks: what runs beside the ticks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

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
    count = context.report.metrics.registry.get_sample_value(
        "fabricmon_self_events_total", {"event": "component_failed"}
    )
    assert count == 1
