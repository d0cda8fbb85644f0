"""Lines read by what repeats in them: the fast path of the gNMI reader, for every shape.

A device says the same again and again: of a line, all but its numbers is the text of the sample
before. So a line with its numbers blanked out is looked up as bytes. Such a line was read in full
when it was first seen, and what each of its numbers was taken for is its *form* (`line_trace`
makes it); a hit is as sure as reading the line again. No line becomes a dictionary and no number an
object: those of thousands of lines become one array.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from fabricmon.formats import numerals
from fabricmon.formats.numerals import MAX_DIGITS, PAD, spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.series import Samples

IGNORED, TIME, LABEL, LEVEL = -1, -2, -3, -4
"""What a number of a line may be, besides the code of a count (as in `Samples.codes`): nothing to
us; the time of others; part of a name, so that another number there is another form; or, as LEVEL
minus its series, a gauge."""

NO_TIME = -1

_MAX_TEXT = 256 << 20
"""Bytes of texts that are remembered. Beyond that all are forgotten and learnt anew, so that a
source whose every line is new does not lock out the others."""
_LITTLE_TEXT = 1 << 20
_MAX_VARIANTS = 64
"""Forms of one text that differ in their labels only; with more it is not worth the search."""
_HOPELESS = -2


class Part(NamedTuple):
    """What one number of a line is, or one constant level of its text."""

    role: int
    value: int
    """What a label must be; the bits of a constant."""
    times: tuple[int, int]
    """Which numbers of the line are its time (the later counts), NO_TIME for none."""


class Form(NamedTuple):
    """All that a line's text says, numbers aside."""

    numbers: Sequence[Part]
    """In order."""
    constants: Sequence[Part]
    """Values that are no numbers in the text; their role is their code."""
    absent: int
    """How many of its values are no number where one is due."""


class _Table:
    """Parts of all forms one after the other, as arrays."""

    def __init__(self) -> None:
        self.role = np.empty(0, np.int32)
        self.value = np.empty(0, np.uint64)
        self.times = np.empty((2, 0), np.int32)
        self.first = np.empty(0, np.int64)
        self.size = np.empty(0, np.int64)
        self._pending: list[Sequence[Part]] = []

    def add(self, parts: Sequence[Part]) -> None:
        self._pending.append(parts)

    def settle(self) -> None:
        """Make arrays of what was added."""
        if not self._pending:
            return
        parts = [part for form in self._pending for part in form]
        sizes = np.array([len(form) for form in self._pending], np.int64)
        firsts = len(self.role) + np.cumsum(sizes) - sizes
        times = np.array([part.times for part in parts], np.int32).reshape(-1, 2).T
        self.role = np.r_[self.role, np.array([part.role for part in parts], np.int32)]
        self.value = np.r_[self.value, np.array([part.value for part in parts], np.uint64)]
        self.times = np.concatenate([self.times, times], axis=1)
        self.first, self.size = np.r_[self.first, firsts], np.r_[self.size, sizes]
        self._pending = []


class _Found(NamedTuple):
    """Numbers of lines: int64[M] each."""

    line: NDArray[np.int64]
    number: NDArray[np.int64]
    """Its index among all numbers of `Lines`."""
    part: NDArray[np.int64]
    """What it is."""

    def some(self, which: NDArray[np.bool_]) -> _Found:
        return _Found(self.line[which], self.number[which], self.part[which])


class Lines:
    """Some lines, their numbers, and the form of each."""

    def __init__(self, data: bytes | memoryview) -> None:
        """`data` ends with a line end."""
        self.data = data = b"".join((PAD, data))
        self.holed = b"\x00" in data
        text = self._text = np.frombuffer(data, np.uint8)
        self.numerals = numerals.find(text)
        self.keys = numerals.blanked(text, self.numerals).split(b"\n")[len(PAD) : -1]
        self._ends = np.flatnonzero(text == 10)[len(PAD) :]
        line = np.searchsorted(self._ends, self.numerals.start)
        self.count = np.bincount(line, minlength=len(self.keys))
        self.first = np.cumsum(self.count) - self.count
        self.forms = np.full(len(self.keys), -1, np.int32)
        """-1 for a line that is of no known form."""
        nothing = np.empty(0, np.int64)
        self.found = _Found(nothing, nothing, nothing)
        """The numbers of lines whose forms were known at first."""

    def __len__(self) -> int:
        return len(self.keys)

    def unknown(self) -> list[int]:
        """The lines of no known form."""
        found: list[int] = np.flatnonzero(self.forms < 0).tolist()
        return found

    def forget(self, line: int) -> None:
        """A line is not what it looks like."""
        self.forms[line] = -1

    def text(self, line: int) -> bytes:
        """One line, without its end."""
        begin = int(self._ends[line - 1]) + 1 if line else len(PAD)
        return self.data[begin : int(self._ends[line])]

    def numbers(self, line: int) -> list[bytes]:
        """The numbers of a line, as they are written."""
        which = slice(int(self.first[line]), int(self.first[line] + self.count[line]))
        ends = self.numerals.end[which].tolist()
        starts = self.numerals.start[which].tolist()
        return [self.data[a:b] for a, b in zip(starts, ends, strict=True)]

    def beyond_int64(self, number: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which numbers may be above 2^63."""
        start, end = self.numerals.start[number], self.numerals.end[number]
        return (end - start == MAX_DIGITS) & (self._text[start] == ord("9"))

    def level(self, number: int) -> object:
        """A number as JSON or influx lines hold it: what stands in quotes is a text."""
        start, end = int(self.numerals.start[number]), int(self.numerals.end[number])
        text = self.data[start:end]
        quoted = self.data[start - 1] in b'"' or self.data[end] in b"iu"
        return text.decode() if quoted else orjson.loads(text)

    def read(self, number: NDArray[np.int64]) -> NDArray[np.uint64]:
        """These numbers, which are whole (what -1 gives is for the caller to leave out)."""
        if not len(self.numerals.start):
            return np.zeros(len(number), np.uint64)
        start, end = self.numerals.start[number], self.numerals.end[number]
        return numerals.integers(self.data, start, end)


class LineForms:
    """The forms of all lines seen so far."""

    def __init__(self) -> None:
        """None yet."""
        self.forget()

    def forget(self) -> None:
        """All of them."""
        self._ids: dict[bytes, int] = {}
        self._next: list[int] = []  # the form of the same text with other labels
        self._variants: dict[bytes, int] = {}
        self._text = 0
        self._numbers, self._constants = _Table(), _Table()
        self._absent: list[int] = []
        self._sizes: list[int] = []  # of the texts
        self._used = np.empty(0, np.bool_)  # seen since `tidy`
        self._lacking = False
        self._labelled: set[int] = set()

    def __len__(self) -> int:
        return len(self._absent)

    def add(self, key: bytes, form: Form) -> None:
        """Remember what a line's text says."""
        other = self._ids.get(key, -1)
        if other == _HOPELESS:
            return
        if other >= 0:
            count = self._variants[key] = self._variants.get(key, 1) + 1
            if count > _MAX_VARIANTS:
                self._ids[key] = _HOPELESS
            if count > _MAX_VARIANTS or other not in self._labelled:
                return
        else:
            self._text += len(key)
        number = self._ids[key] = len(self._absent)
        self._sizes.append(len(key))
        self._next.append(other)
        self._absent.append(form.absent)
        self._lacking = self._lacking or form.absent > 0
        self._numbers.add(form.numbers)
        self._constants.add(form.constants)
        if any(part.role == LABEL for part in form.numbers):
            self._labelled.add(number)

    def tidy(self) -> None:
        """Forget all if little of it was seen since the last call; to be called now and then."""
        self._mark_new()
        seen = int(np.array(self._sizes, np.int64)[self._used].sum())
        self._used[:] = False
        if self._text > _LITTLE_TEXT and 2 * seen < self._text:
            self.forget()

    def _mark_new(self) -> None:
        fresh = len(self) - len(self._used)
        if fresh:
            self._used = np.append(self._used, np.ones(fresh, np.bool_))

    def recognise(self, lines: Lines) -> None:
        """Find the form of every line."""
        if self._text > _MAX_TEXT:
            self.forget()
        if not self._ids or lines.holed:
            return
        self._numbers.settle()
        self._constants.settle()
        self._mark_new()
        forms = np.fromiter(map(self._ids.get, lines.keys, repeat(-1)), np.int32, len(lines))
        known = forms >= 0
        known[known] = self._numbers.size[forms[known]] == lines.count[known]
        forms[~known] = -1
        lines.forms = forms
        if self._labelled:
            self._choose(lines)
        found = lines.found = self._parts(lines, np.flatnonzero(forms >= 0))
        role, whole = self._numbers.role[found.part], lines.numerals.whole[found.number]
        odd = (role > LEVEL) & (role != IGNORED) & ~whole
        time = np.flatnonzero(role == TIME)
        odd[time] |= lines.beyond_int64(found.number[time])
        self._used[forms[forms >= 0]] = True
        forms[found.line[odd]] = -1

    def _parts(self, lines: Lines, which: NDArray[np.int64]) -> _Found:
        """The numbers of some lines, whose forms are known."""
        size = lines.count[which]
        number = spans(lines.first[which], size)
        part = spans(self._numbers.first[lines.forms[which]], size)
        return _Found(np.repeat(which, size), number, part)

    def _choose(self, lines: Lines) -> None:
        """Of the forms of one text, the one whose labels a line has."""
        labelled = np.zeros(len(self), np.bool_)
        labelled[list(self._labelled)] = True
        following, forms = np.array(self._next, np.int32), lines.forms
        pending = np.flatnonzero((forms >= 0) & labelled[forms])
        while len(pending):
            found = self._parts(lines, pending)
            label = self._numbers.role[found.part] == LABEL
            label &= lines.numerals.whole[found.number]
            at, part = found.number[label], found.part[label]
            wrong = lines.read(at) != self._numbers.value[part]
            pending = np.unique(found.line[label][wrong])
            forms[pending] = following[forms[pending]]
            pending = pending[forms[pending] >= 0]

    def take(self, lines: Lines, samples: Samples, received_ns: int) -> None:
        """Hand over what the lines of known forms say."""
        known = lines.forms >= 0
        which = np.flatnonzero(known)
        if not len(which):
            return
        found = lines.found.some(known[lines.found.line])
        role = self._numbers.role[found.part]
        counts = found.some(role >= 0)
        times, runs = _times(lines, counts.line, self._numbers.times[:, counts.part])
        raw = lines.read(counts.number)
        samples.put_array(role[role >= 0], raw, times, runs, received_ns)
        levels = found.some(role <= LEVEL)
        if len(levels.line):
            times, runs = _times(lines, levels.line, self._numbers.times[:, levels.part])
            series = (LEVEL - role[role <= LEVEL]).tolist()
            time_ns = np.repeat(times, runs).tolist()
            for one, at, time in zip(series, levels.number.tolist(), time_ns, strict=True):
                samples.put(one, lines.level(at))
                samples.stamp(time)
        self._put_constants(lines, samples, which, received_ns)
        if self._lacking:
            samples.absent += sum(self._absent[form] for form in lines.forms[which].tolist())

    def _put_constants(
        self, lines: Lines, samples: Samples, which: NDArray[np.int64], received_ns: int
    ) -> None:
        table, forms = self._constants, lines.forms[which]
        if not len(table.role):
            return
        size = table.size[forms]
        part = spans(table.first[forms], size)
        if len(part):
            times, runs = _times(lines, np.repeat(which, size), table.times[:, part])
            samples.put_array(table.role[part], table.value[part], times, runs, received_ns)


def _times(
    lines: Lines, line: NDArray[np.int64], times: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The times of values, and how many values in a row have each.

    `times` says which two numbers of each value's line may be its time: the later one is; 0 if
    there is none.
    """
    begin, (one, other) = lines.first[line], times
    first = np.where(one == NO_TIME, -1, begin + one)
    second = np.where(other == NO_TIME, -1, begin + other) if (other != NO_TIME).any() else None
    changes = np.ones(len(line), np.bool_)
    changes[1:] = first[1:] != first[:-1]
    if second is not None:
        changes[1:] |= second[1:] != second[:-1]
    begins = np.flatnonzero(changes)
    time_ns = _time(lines, first[begins])
    if second is not None:
        time_ns = np.maximum(time_ns, _time(lines, second[begins]))
    return time_ns, np.diff(begins, append=len(line))


def _time(lines: Lines, number: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(number >= 0, lines.read(number).view(np.int64), 0)
