"""What fuzzing once found, and the good inputs it began from: no parser falls over them again."""

from __future__ import annotations

import pytest

from fuzz.kept import inputs
from fuzz.parsers import PARSERS


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_stands_what_was_found(name: str) -> None:
    """Every kept input, whole and cut in half, is read or refused in a clear error."""
    parser = PARSERS[name]
    kept = inputs(name)
    assert len(kept) >= len(parser.seeds), "`make fuzz` keeps a corpus for each parser"
    for data in (*parser.seeds, *kept):
        parser(data)
        parser(data[: len(data) // 2])


@pytest.mark.parametrize("name", PARSERS)
def test_the_seeds_are_good(name: str) -> None:
    """A seed is read without an error: fuzzing begins inside the parser, not at its door."""
    parser = PARSERS[name]
    for data in parser.seeds:
        parser.read(data)
