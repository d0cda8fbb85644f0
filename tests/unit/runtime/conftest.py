"""A run that several files of this folder break off."""

from __future__ import annotations

import pytest
from support.restarts import Story, tell


@pytest.fixture(scope="session")
def storm() -> Story:
    """A pause storm that opens before the middle and lasts."""
    return tell("pfc-storm")
