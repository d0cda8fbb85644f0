"""What several tests share. `from support import require, samples`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("FABRICMON_SAMPLES", ROOT.parent / "shared" / "samples"))
"""Where the corpus of real device data is, if it is here."""


def absent(what: str) -> None:
    """Skip on a laptop, fail under CI: a skipped test must not hide."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is required under CI")
    pytest.skip(f"{what} is not here", allow_module_level=True)


def require(command: str) -> str:
    """The path of a real program that a test talks to."""
    found = shutil.which(command, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        absent(f"the program {command}")
    assert found is not None
    return found


def require_library(name: str, package: str) -> str:
    """The path of a library that is put before a program's own."""
    found = next(Path("/usr/lib").glob(f"*/{name}"), None)
    if found is None:
        absent(f"the library {name} of the package {package}")
    return str(found)


def samples(*parts: str) -> Path:
    """A path inside the corpus of real device data, which is never part of this repository."""
    path = SAMPLES.joinpath(*parts)
    if not path.exists():
        absent(f"the corpus path {path}")
    return path
