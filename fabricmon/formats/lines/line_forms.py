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

from fabricmon.formats.lines.line_order import LineOrder
from fabricmon.formats.lines.lines import Found
from fabricmon.formats.lines.numerals import spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.lines.lines import Lines
    from fabricmon.formats.lines.series import Samples

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


class LineForms:
    """The forms of all lines seen so far."""

    def __init__(self) -> None:
        """None yet."""
        self.forget()

    def forget(self) -> None:
        """All of them."""
        self._ids: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._order = LineOrder(self._keys)
        self._next: list[int] = []  # the form of the same text with other labels
        self._variants: dict[bytes, int] = {}
        self._text = 0
        self._numbers, self._constants = _Table(), _Table()
        self._absent: list[int] = []
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
            self._text += 2 * len(key)  # as a key, and as it stood last
        number = self._ids[key] = len(self._absent)
        self._keys.append(key)
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
        seen = sum(len(self._keys[form]) for form in np.flatnonzero(self._used).tolist())
        self._used[:] = False
        if self._text > _LITTLE_TEXT and 4 * seen < self._text:
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
        self._order.grow(self._numbers.first, self._numbers.size)
        forms = self._look_up(lines)
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

    def _look_up(self, lines: Lines) -> NDArray[np.int32]:
        """The form of each line's text: as it was in this place last time, or by its text."""
        order = self._order
        guess = order.guess(len(lines))
        if len(guess) and order.recall(lines, guess):
            return guess
        forms = np.fromiter(map(self._ids.get, lines.keys, repeat(-1)), np.int32, len(lines))
        order.follow(lines, forms, guess)
        return forms

    def _parts(self, lines: Lines, which: NDArray[np.int64]) -> Found:
        """The numbers of some lines, whose forms are known."""
        size = lines.count[which]
        number = spans(lines.first[which], size)
        part = spans(self._numbers.first[lines.forms[which]], size)
        return Found(np.repeat(which, size), number, part)

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
