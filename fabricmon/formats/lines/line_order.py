"""Lines in the order they always come in: found without looking them up, or for numbers in them.

A source that is sampled tells of the same values in the same order each time, and most of its
numbers have as many digits as before. So the form of a line is foretold by that of the line before
it, and the places of its numbers by where they stood last time. Comparing the text tells whether it
is so; where it is not, lines are read as if nothing had been foretold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.lines.lines import Lines
from fabricmon.formats.lines.numerals import PAD, Numerals, spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_MISLED = 20
"""Guesses in a row that were wrong, after which none is made: lines come in no order."""
_FEW = 0.5
"""Share of lines as long as last time below which it is not worth looking at them apart."""


class LineOrder:
    """By form: which stood after it, and how its line looked, when last seen."""

    def __init__(self, keys: list[bytes]) -> None:
        """Nothing seen yet; `keys` are the texts of the forms, which may become more."""
        self._keys = keys
        self._after: list[int] = []
        self._last = -1  # the form of the line before
        self._misled = 0
        self._length = np.zeros(0, np.int64)  # 0 where it cannot be foretold
        self._texts: list[bytes] = []  # with zeros for digits
        # By part, of all forms one after the other: where in its line, and how many digits.
        self._offset = np.zeros(0, np.int64)
        self._digits = np.zeros(0, np.int64)
        self._first = self._size = np.zeros(0, np.int64)

    def grow(self, first: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        """int64[forms] each: a form's first part, and how many it has."""
        self._first, self._size = first, size
        fresh = len(size) - len(self._after)
        if fresh:
            parts = int(first[-1] + size[-1])
            self._after += [-1] * fresh
            self._texts += [b""] * fresh
            self._length = np.append(self._length, np.zeros(fresh, np.int64))
            more = np.zeros(parts - len(self._offset), np.int64)
            self._offset, self._digits = (
                np.append(self._offset, more),
                np.append(self._digits, more),
            )

    def guess(self, count: int) -> NDArray[np.int32]:
        """int32[count]: the next forms if the source repeats itself; int32[0] where it does not."""
        guess, form, after = [], self._last, self._after
        if self._misled < _MOST_MISLED:
            for _ in range(count):
                form = after[form] if form >= 0 else -1
                if form < 0:
                    return np.empty(0, np.int32)
                guess.append(form)
        return np.array(guess, np.int32)

    def follow(self, lines: Lines, forms: NDArray[np.int32], guess: NDArray[np.int32]) -> None:
        """These are the forms of the next lines, which were not recalled as they were guessed."""
        if np.array_equal(forms, guess):
            self._misled = 0
            self.note(lines, forms)
            if np.count_nonzero(self._length[forms]) < _FEW * len(forms):
                self._misled = _MOST_MISLED  # dates or decimals in most lines
        else:
            self._misled += len(guess) > 0
        before = self._last
        for form in forms.tolist():
            if before >= 0:
                self._after[before] = form
            before = form
        self._last = before

    def note(self, lines: Lines, forms: NDArray[np.int32]) -> None:
        """Remember how lines of these forms, int32[lines], look."""
        whole = np.ones(len(lines), np.bool_)
        start, end = lines.numerals.start, lines.numerals.end
        line = np.repeat(np.arange(len(lines)), lines.count)
        whole[line[~lines.numerals.whole]] = False
        whole &= (forms >= 0) & (self._size[forms] == lines.count)
        self._length[forms] = np.where(whole, lines.length, 0)
        number = whole[line]
        part = spans(self._first[forms[whole]], self._size[forms[whole]])
        self._offset[part] = (start - lines.begin[line])[number]
        self._digits[part] = (end - start)[number]
        text, begin = lines.without(start[number], end[number])[0], lines.begin
        stop = (begin + lines.length).tolist()
        for form, a, b in zip(forms.tolist(), begin.tolist(), stop, strict=True):
            self._texts[form] = text[a:b]

    def recall(self, lines: Lines, forms: NDArray[np.int32]) -> bool:
        """Whether lines are of these forms, int32[lines]; if so, their numbers are found."""
        same = self._length[forms] == lines.length
        if np.count_nonzero(same) < _FEW * len(lines):
            return False
        size = self._size[forms[same]]
        part = spans(self._first[forms[same]], size)
        start = np.repeat(lines.begin[same], size) + self._offset[part]
        end = start + self._digits[part]
        found = Numerals(start, end, np.ones(len(start), np.bool_))
        texts = [self._texts[form] for form in forms.tolist()]
        if not same.all():
            others = self._others(lines, forms, np.flatnonzero(~same), texts)
            if others is None:
                return False
            both = [np.concatenate(pair) for pair in zip(found, others, strict=True)]
            order = np.argsort(both[0])
            found = Numerals(*(array[order] for array in both))
        if lines.without(start, end) != (b"".join([PAD, *texts]), True):
            return False
        lines.numerals, self._last = found, int(forms[-1])
        return True

    def _others(
        self,
        lines: Lines,
        forms: NDArray[np.int32],
        which: NDArray[np.intp],
        texts: list[bytes],
    ) -> Numerals | None:
        """The numbers of the lines that are not as long as last time, if all else is as foretold.

        `texts` gets the lines as they are.
        """
        for at in which.tolist():
            begin = int(lines.begin[at])
            texts[at] = lines.data[begin : begin + int(lines.length[at])]
        apart = Lines(b"".join([texts[at] for at in which.tolist()]))
        if apart.keys != [self._keys[form] for form in forms[which].tolist()]:
            return None
        self.note(apart, forms[which])
        shift = np.repeat(lines.begin[which] - apart.begin, apart.count)
        start, end, whole = apart.numerals
        return Numerals(start + shift, end + shift, whole)
