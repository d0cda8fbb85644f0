"""What fuzzing found worth keeping: one input a line, as base64."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

_FOLDER = Path(__file__).parent / "corpus"


def path_of(name: str) -> Path:
    """Where a parser's corpus is."""
    return _FOLDER / f"{name}.txt"


def inputs(name: str) -> list[bytes]:
    """The corpus of a parser."""
    path = path_of(name)
    return [b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []
