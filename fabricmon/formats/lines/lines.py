"""Some lines of text and the numbers in them: what the fast path of the gNMI reader looks at."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from fabricmon.formats.lines import numerals
from fabricmon.formats.lines.numerals import MAX_DIGITS, PAD, Numerals

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Found(NamedTuple):
    """Numbers of lines: int64[M] each."""

    line: NDArray[np.int64]
    number: NDArray[np.int64]
    """Its index among all numbers of `Lines`."""
    part: NDArray[np.int64]
    """What it is."""

    def some(self, which: NDArray[np.bool_]) -> Found:
        """Those of bool[M] that are True."""
        return Found(self.line[which], self.number[which], self.part[which])


class Lines:
    """Some lines, their numbers, and the form of each."""

    def __init__(self, data: bytes | memoryview) -> None:
        """`data` ends with a line end."""
        self.data = data = b"".join((PAD, data))
        self.holed = b"\x00" in data
        text = self._text = np.frombuffer(data, np.uint8)
        self._ends = np.flatnonzero(text == 10)[len(PAD) :]
        self.begin = np.append(len(PAD), self._ends[:-1] + 1)
        """Where each begins in `data`: int64[lines]."""
        self.length = self._ends - self.begin + 1
        """Of each, its end included."""
        self.forms = np.full(len(self), -1, np.int32)
        """-1 for a line that is of no known form."""
        nothing = np.empty(0, np.int64)
        self.found = Found(nothing, nothing, nothing)
        """The numbers of lines whose forms were known at first."""

    def __len__(self) -> int:
        return len(self._ends)

    @cached_property
    def numerals(self) -> Numerals:
        """Their numbers; may be set by who knows where they are."""
        return numerals.find(self._text)

    @cached_property
    def keys(self) -> list[bytes]:
        """Each line with its numbers blanked out."""
        return numerals.blanked(self._text, self.numerals).split(b"\n")[len(PAD) : -1]

    @cached_property
    def count(self) -> NDArray[np.int64]:
        """int64[lines]: how many numbers each has."""
        line = np.searchsorted(self._ends, self.numerals.start)
        return np.bincount(line, minlength=len(self))

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """int64[lines]: which of all numbers is the first of each."""
        return np.cumsum(self.count) - self.count

    def without(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[bytes, bool]:
        """`data` with zeros in these places, and whether it were whole numbers that stood there."""
        return numerals.taken_out(self._text, start, end)

    def unknown(self) -> list[int]:
        """The lines of no known form."""
        found: list[int] = np.flatnonzero(self.forms < 0).tolist()
        return found

    def forget(self, line: int) -> None:
        """A line is not what it looks like."""
        self.forms[line] = -1

    def text(self, line: int) -> bytes:
        """One line, without its end."""
        return self.data[int(self.begin[line]) : int(self._ends[line])]

    def numbers(self, line: int) -> list[bytes]:
        """The numbers of a line, as they are written."""
        which = slice(int(self.first[line]), int(self.first[line] + self.count[line]))
        ends = self.numerals.end[which].tolist()
        starts = self.numerals.start[which].tolist()
        return [self.data[a:b] for a, b in zip(starts, ends, strict=True)]

    def beyond_int64(self, number: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[M]: which of these numbers, int64[M], may be above 2^63."""
        start, end = self.numerals.start[number], self.numerals.end[number]
        return (end - start == MAX_DIGITS) & (self._text[start] == ord("9"))

    def level(self, number: int) -> object:
        """A number as JSON or influx lines hold it: what stands in quotes is a text."""
        start, end = int(self.numerals.start[number]), int(self.numerals.end[number])
        text = self.data[start:end]
        quoted = self.data[start - 1] in b'"' or self.data[end] in b"iu"
        return text.decode() if quoted else orjson.loads(text)

    def read(self, number: NDArray[np.int64]) -> NDArray[np.uint64]:
        """uint64[M]: these numbers, int64[M], which are whole; what -1 gives is to be left out."""
        if not len(self.numerals.start):
            return np.zeros(len(number), np.uint64)
        start, end = self.numerals.start[number], self.numerals.end[number]
        return numerals.integers(self.data, start, end)
