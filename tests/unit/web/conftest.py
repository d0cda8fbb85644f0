"""A server on a free port, and a client for it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.webstate import HandState, Served

from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from fabricmon.api import Context

    Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(context: Context) -> Serve:
    """Starts a server with the given web config, for the time of a `with` block."""

    @asynccontextmanager
    async def run(**config: Any) -> AsyncIterator[Served]:
        state = HandState()
        exporter = PrometheusExporter(PrometheusConfig(), context)
        server = WebServer(
            WebConfig(listen_address="127.0.0.1:0", **config), context, state, exporter
        )
        await server.start()
        try:
            yield Served(server, state, exporter)
        finally:
            await server.stop()

    return run
