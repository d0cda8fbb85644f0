"""Fixtures of several files that talk to real programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from support import require
from support.gnmi_client import batch
from support.ibsim_agent import topology

from fabricmon.simulate.agents.gnmi import GnmiAgent
from fabricmon.simulate.agents.ibsim import IbsimAgent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest_asyncio.fixture(loop_scope="module")
async def agent() -> AsyncIterator[GnmiAgent]:
    """A device that serves one reading."""
    device = GnmiAgent("leaf1")
    device.update([batch(0, 5000)])
    yield device
    await device.stop()


@pytest.fixture
def served() -> Iterator[IbsimAgent]:
    """The subnet of `support.ibsim_agent`, served."""
    require("ibsim-run")
    with IbsimAgent(topology()) as agent:
        yield agent
