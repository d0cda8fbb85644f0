"""Servers on loopback for the time of a `with` block."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path


def fetch(url: str, timeout_s: float = 30.0) -> bytes:
    """What an HTTP server says, asked until it is up."""
    for _ in range(round(timeout_s / 0.1)):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                body: bytes = answer.read()
                return body
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


@contextmanager
def running(command: Sequence[str], ready: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start `command`, wait until the URL `ready` answers, end it after."""
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            fetch(ready)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@asynccontextmanager
async def exporter(text: str) -> AsyncIterator[str]:
    """The URL of a server, in this event loop, with `text` at /metrics and nothing else."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
