"""Fixtures of several files that talk to real programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from support.gnmi_client import batch

from fabricmon.simulate.agents.gnmi import GnmiAgent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(loop_scope="module")
async def agent() -> AsyncIterator[GnmiAgent]:
    """A device that serves one reading."""
    device = GnmiAgent("leaf1")
    device.update([batch(0, 5000)])
    yield device
    await device.stop()
