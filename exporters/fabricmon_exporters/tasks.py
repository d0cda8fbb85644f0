"""A task of the event loop that does not die unheard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fabricmon.api import Context

_STOP_S = 0.9


def begin(work: Coroutine[Any, Any, None], name: str, context: Context) -> asyncio.Task[None]:
    """Run `work`; should it fail, that is reported as the component `name`."""
    task = asyncio.create_task(work, name=name)

    def report(ended: asyncio.Task[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            context.report.emit(Event.COMPONENT_FAILED, name, error=repr(error))

    task.add_done_callback(report)
    return task


async def end(task: asyncio.Task[None] | None) -> None:
    """Cancel it and wait a moment; None is fine."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task}, timeout=_STOP_S)
