"""Forms: JSON text whose numbers change and whose rest does not, as one pattern.

A form is made of a text that was parsed in full. Where it matches again, everything but the numbers
is byte for byte the same, so the numbers belong to the same series as before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import orjson

from fabricmon.formats.series import UNMAPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.formats.series import Samples

LEVEL = -2
"""The code of a gauge is this minus its series. That of a count is twice its series, plus one where
the number stands bare in the text."""

_MAX_FORMS = 2_000
_DIGITS = re.compile(rb"[0-9]{1,19}")
_SCALAR = rb'"[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false|null'


class Form(NamedTuple):
    """A text around numbers, in one order."""

    pattern: re.Pattern[bytes]
    codes: list[int]
    """Of the counts, in order."""
    counts: list[int] | None
    """Which groups of the pattern are counts; None: all."""
    levels: list[tuple[int, int]]
    """Group and series of each gauge."""

    def take(self, found: re.Match[bytes], samples: Samples) -> None:
        """Take the numbers of a match."""
        groups = found.groups()
        samples.codes.extend(self.codes)
        counts = self.counts
        samples.digits.extend(groups if counts is None else [groups[i] for i in counts])
        for group, series in self.levels:
            samples.put(series, orjson.loads(groups[group]))


class Piece(NamedTuple):
    """A value with the fixed text before it."""

    before: bytes
    value: bytes
    code: int


def code_of(series: int, text: bytes, samples: Samples) -> int:
    """The code of a series whose value is written as `text`."""
    if series == UNMAPPED:
        return UNMAPPED
    if samples.table.gauges[series] is not None:
        return LEVEL - series
    return 2 * series + (not quoted(text))


def quoted(text: bytes) -> bool:
    """Whether a value is a JSON string that is not empty."""
    return len(text) > 2 and text[:1] == b'"' == text[-1:]


class FormMaker:
    """Makes forms; one pattern serves all texts that differ in their series only."""

    def __init__(self) -> None:
        """Nothing made yet."""
        self._patterns: dict[tuple[bytes, ...], re.Pattern[bytes]] = {}

    def make(self, pieces: Sequence[Piece], after: bytes) -> Form | None:
        """The form of a text; None where it is not like itself this time, or there are too many."""
        layout: list[bytes] = []
        groups: list[int] = []
        for before, text, code in pieces:
            layout.append(re.escape(before))
            if code == UNMAPPED:
                layout.append(b"(?:%b)" % _SCALAR)
                continue
            groups.append(code)
            if code < 0:
                layout.append(b"(%b)" % _SCALAR)
            elif _DIGITS.fullmatch(text if code & 1 else text[1:-1]):
                layout.append(rb"([0-9]{1,19})" if code & 1 else rb'"([0-9]{1,19})"')
            else:
                return None
        pattern = self._pattern((*layout, re.escape(after)))
        if pattern is None:
            return None
        counts = [i for i, code in enumerate(groups) if code >= 0]
        return Form(
            pattern,
            [code for code in groups if code >= 0],
            counts if len(counts) < len(groups) else None,
            [(i, LEVEL - code) for i, code in enumerate(groups) if code < 0],
        )

    def _pattern(self, layout: tuple[bytes, ...]) -> re.Pattern[bytes] | None:
        known = self._patterns.get(layout)
        if known is None and len(self._patterns) < _MAX_FORMS:
            known = self._patterns[layout] = re.compile(b"".join(layout))
        return known
