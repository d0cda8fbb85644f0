"""Numbers in text, found and read many at once.

Telemetry as text repeats itself: from one sample to the next only numbers change. `find` tells
where those stand that may change, without parsing what is around them; `integers` reads them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAD = b"\n" * 24
"""What must stand before a text that is looked at: numbers are read in words of eight bytes."""

MAX_DIGITS = 19
"""Of an integer that `integers` reads; all of these fit into 64 bits."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DOT, _MINUS, _PLUS, _E = map(ord, ".-+e")
_SPACE, _COLON, _QUOTE, _EQUALS, _NEWLINE = map(ord, ' :"=\n')
_DATE = (("-", 4), ("-", 2), ("t", 2), (":", 2), (":", 2))
"""What stands behind each number of a date, and how many digits it has."""


def _table(characters: bytes) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_AFTER_BARE, _AFTER_FIELD = _table(b",}"), _table(b"iu, \n")
_BEFORE, _AFTER = _table(b':"= -'), _table(b',}"iu \n')


class Numerals(NamedTuple):
    """Numbers of a text that stand as values: `:5,`, `:"5"`, `=5i`, a time at a line's end.

    A date under a name that ends in `time` is six of them.
    """

    start: NDArray[np.int64]
    """First byte of each, a sign included."""
    end: NDArray[np.int64]
    whole: NDArray[np.bool_]
    """An integer of at most MAX_DIGITS digits, without sign and leading zeros."""


def is_number(text: str) -> bool:
    """Whether a quoted text is one number as `find` sees it."""
    return text[-1:].isdigit() and _NUMBER.fullmatch(text) is not None


def find(text: NDArray[np.uint8]) -> Numerals:
    """The numbers of a text (uint8[bytes]) that begins with PAD and ends with a line end."""
    digit = (text - np.uint8(48)) < 10
    edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    start, end, single, simple = _joined(text, edges[0::2], edges[1::2])
    before, after = text[start - 1], text[end]
    likely = np.flatnonzero(_BEFORE[before] & _AFTER[after] & simple)
    value = np.zeros(len(start), np.bool_)
    value[likely] = _are_values(text, start[likely], end[likely])
    years = np.flatnonzero((before == _QUOTE) & (after == _MINUS) & (end - start == 4))
    if len(years):
        value[_dates(text, years, start, end)] = True
    start, end, single = start[value], end[value], single[value]
    negative = text[start - 1] == _MINUS
    whole = single & ~negative & (end - start <= MAX_DIGITS) & ~_padded(text, start)
    return Numerals(start - negative, end, whole)


def _are_values(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    begin, after = start - (text[start - 1] == _MINUS), text[end]
    before, earlier, third = text[begin - 1], text[begin - 2], text[begin - 3]
    spaced = (earlier == _COLON) & (before == _SPACE)
    value = ((before == _COLON) | spaced) & _AFTER_BARE[after]
    value |= (before == _EQUALS) & _AFTER_FIELD[after]
    value |= (before == _SPACE) & (after == _NEWLINE) & ~spaced
    value &= ~_padded(text, start)  # which is no JSON
    colon = (earlier == _COLON) | ((earlier == _SPACE) & (third == _COLON))
    value |= colon & (before == _QUOTE) & (after == _QUOTE)
    return value


def _padded(text: NDArray[np.uint8], start: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which numbers begin with a zero too many."""
    padded: NDArray[np.bool_] = (text[start] == 48) & (text[start + 1] - np.uint8(48) < 10)
    return padded


def _joined(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Runs of digits with a dot or an exponent between them are one number.

    Where each starts and ends; which are but one run; which are made as numbers are made.
    """
    dot, power = np.zeros((2, max(len(start) - 1, 0)), np.bool_)
    gap = start[1:] - end[:-1]
    near = np.flatnonzero(gap <= 2)
    between, sign, gap = text[end[near]], text[end[near] + 1], gap[near]
    dot[near] = (gap == 1) & (between == _DOT)
    signed = (gap == 2) & ((sign == _MINUS) | (sign == _PLUS))
    power[near] = (between | np.uint8(32) == _E) & ((gap == 1) | signed)
    link = dot | power
    every = np.ones(len(start), np.bool_)
    if not link.any():
        return start, end, every, every
    first, last = every.copy(), every.copy()
    first[1:], last[:-1] = ~link, ~link
    twice = np.flatnonzero((dot[1:] & link[:-1]) | (power[1:] & power[:-1])) + 1
    simple = every[: int(first.sum())]
    simple[np.cumsum(first)[twice] - 1] = False
    return start[first], end[last], last[first], simple


def _dates(
    text: NDArray[np.uint8],
    at: NDArray[np.intp],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> NDArray[np.intp]:
    """The six numbers of each `time":"2025-11-30T10:15:00.5` whose year may be at `at`."""
    at = at[at + len(_DATE) < len(start)]
    for back, letter in enumerate('":"emit', 1):
        at = at[text[start[at] - back] == ord(letter)]
    for i, (mark, digits) in enumerate(_DATE):
        apart = (start[at + i + 1] - end[at + i] == 1) & (end[at + i] - start[at + i] == digits)
        at = at[apart & (text[end[at + i]] | np.uint8(32) == ord(mark) | 32)]
    return (at[:, None] + np.arange(len(_DATE) + 1)).ravel()


def integers(text: bytes, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint64]:
    """uint64[M]: the integers that stand at these places, int64[M], all of which are `whole`.

    Eight digits are one word: neighbours are added up two, four and eight at a time.
    """
    words = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))
    length = end - start
    number = _eight(words[end - 8], length)
    for done, power in ((8, 10**8), (16, 10**16)):
        long = np.flatnonzero(length > done)
        if len(long):
            more = _eight(words[end[long] - (done + 8)], length[long] - done)
            number[long] += more * np.uint64(power)
    return number


def _eight(words: NDArray[np.uint64], digits: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The number in the last `digits` bytes of each word; at most all eight."""
    spare = (np.uint64(8) * (8 - np.minimum(digits, 8)).astype(np.uint64)).astype(np.uint64)
    word = (words >> spare) << spare
    word = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)


def blanked(text: NDArray[np.uint8], numerals: Numerals) -> bytes:
    """The text with the byte 1 in the place of each number."""
    blank = text.copy()
    blank[spans(numerals.start, numerals.end - numerals.start)] = 0
    blank[numerals.start] = 1
    return blank.tobytes().translate(None, b"\x00")


def taken_out(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[bytes, bool]:
    """The text with zeros in these places, and whether each was a `whole` integer as `find` has it.

    None is longer than MAX_DIGITS.
    """
    zero, length = text.copy(), end - start
    words = np.ndarray(len(zero) - 7, "<u8", zero.data, strides=(1,))
    # What is long is three words, which may overlap; the rest goes byte by byte.
    long = length >= 8
    first, last = start[long], end[long] - 8
    at = np.concatenate([first, np.minimum(first + 8, last), last])
    word = words[at] ^ np.uint64(0x3030303030303030)
    good = not (
        (word | (word + np.uint64(0x7676767676767676))) & np.uint64(0x8080808080808080)
    ).any()
    words[at] = 0
    at = spans(start[~long], length[~long])
    good &= bool((zero[at] - np.uint8(48) < 10).all())
    zero[at] = 0
    return zero.tobytes(), good and not ((text[start] == 48) & (length > 1)).any()


def spans(first: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """`first[i]`, `first[i]` + 1, … `length[i]` of them, for one i after the other."""
    ends = np.cumsum(length)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - ends + length, length)


def varint_numbers(varints: list[bytes] | tuple[bytes, ...]) -> NDArray[np.uint64]:
    """uint64[M]: the numbers of M varints (protobuf's: seven bits a byte, the lowest first)."""
    octets = np.frombuffer(b"".join(varints), np.uint8)
    if not len(octets):
        return np.empty(0, np.uint64)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(len(octets)) - np.repeat(starts, ends - starts + 1)
    bits = (octets & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    numbers: NDArray[np.uint64] = np.add.reduceat(bits, starts)
    return numbers
