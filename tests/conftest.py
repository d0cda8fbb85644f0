"""Fixtures for every test."""

from __future__ import annotations

import pytest
from hypothesis import settings

from fabricmon.api import Context
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

settings.register_profile("house", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("house")


@pytest.fixture
def clock() -> ManualClock:
    """A clock the test turns by hand."""
    return ManualClock()


@pytest.fixture
def context(clock: ManualClock) -> Context:
    """What every component is given; events are counted, not logged."""
    return Context(clock, Reporter(clock))
