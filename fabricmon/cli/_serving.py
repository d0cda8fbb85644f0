"""Show a replay in the browser while it runs, and after."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item
    from fabricmon.runtime.offline import Outcome
    from fabricmon.runtime.pipeline import Pipeline


class _StoppedError(Exception):
    """Ctrl-C came in the middle of the replay."""


def address_option(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> str | None:
    """Refuse an address that is none, before anything is read."""
    from fabricmon.web.config import split_address

    try:
        if text is not None:
            split_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


async def drive_and_serve(
    items: Iterable[Item],
    pipeline: Pipeline,
    context: Context,
    address: str,
    finished: Callable[[Outcome], None],
) -> None:
    """Drive, with page and `/metrics` on `address`; `finished` prints; then stay until Ctrl-C."""
    from fabricmon import plugins
    from fabricmon.runtime.offline import drive
    from fabricmon.web import WebServer
    from fabricmon.web.config import WebConfig
    from fabricmon.web.shown import Shown

    state = Shown(pipeline.window)
    factory = plugins.find(plugins.EXPORTERS, "prometheus")
    exporter = factory(factory.Config(), context)
    server = WebServer(WebConfig(listen_address=address), context, state, exporter)
    await server.start()
    click.echo(f"fabricmon shows it on {server.url} until Ctrl-C", err=True)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def show(snapshot: Snapshot) -> None:
        if stop.is_set():
            raise _StoppedError
        state.see(snapshot)
        exporter.publish(snapshot)
        server.publish(snapshot)

    try:
        finished(await asyncio.to_thread(drive, items, pipeline, show))
        await stop.wait()
    except _StoppedError:
        pass
    finally:
        await server.stop()
