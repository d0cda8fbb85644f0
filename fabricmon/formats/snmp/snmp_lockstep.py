"""Many SNMP replies decoded at once: varbind j of every reply in one numpy step.

Only the plain form is read here, the one nearly every reply has: short lengths, the expected OIDs
in the expected order, numbers. A reply that deviates anywhere is marked `odd` and left to the plain
reader (`snmp.decode`), which says what it is. So this can be fast and never wrong.

Shapes: R replies, J varbinds of the longest expectation, W words of eight octets per OID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabricmon.formats.snmp import ber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PAD = bytes(256)
"""Before the replies, so that loading what stands before a value stays inside."""

_LONGEST_STEP = 129
_STEP = 2 + (np.arange(256) & 0x7F)
"""How far a varbind reaches, by its length octet."""

_FORM, _PLAIN = 0xFFFF_80FF, 0x0006_0030
"""Of the first four octets of a varbind, as a little-endian word: SEQUENCE with a length below 128,
OID; the fourth is the length of the OID."""

_KEEP = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""Masks that keep the last n octets of a big-endian word."""

_NUMBER, _GONE, _OTHER = 0, 1, 2
_KIND = np.full(256, _OTHER, np.uint8)
_KIND[[ber.INTEGER, ber.COUNTER32, ber.GAUGE32, ber.TIMETICKS, ber.COUNTER64]] = _NUMBER
_KIND[[0x80, 0x81]] = _GONE

_CHEAPEST = 12_800
"""Varbinds looked at in one go, so that the intermediate arrays stay in the processor's cache."""


class Decoded(NamedTuple):
    """values uint64[J,R], gone bool[J,R] (no such instance), odd bool[R] (read them otherwise)."""

    values: NDArray[np.uint64]
    gone: NDArray[np.bool_]
    odd: NDArray[np.bool_]


def words_for(oids: Sequence[bytes]) -> int:
    """W: how many words the longest of these encoded OIDs needs."""
    return max((len(oid) + 7) // 8 for oid in oids)


def expectation(oids: Sequence[bytes], words: int) -> NDArray[np.int64]:
    """int64[len(oids), 1+W]: the head of each varbind, then its OID.

    The OID as overlapping words: its last eight octets, its first eight, the next eight and so on,
    none of them beyond its end.
    """
    out = np.empty((len(oids), 1 + words), np.int64)
    out[:, 0] = [_PLAIN | len(oid) << 24 for oid in oids]
    for w in range(words):
        starts = [_word_start(len(oid), w) for oid in oids]
        flat = b"".join(oid[at : at + 8] for oid, at in zip(oids, starts, strict=True))
        out[:, 1 + w] = np.frombuffer(flat, "<i8")
    return out


def _word_start(size: int, w: int) -> int:
    return size - 8 if w == 0 else min(8 * (w - 1), size - 8)


def decode(
    payloads: Sequence[bytes], starts: Sequence[int], expected: NDArray[np.int64]
) -> Decoded:
    """Decode replies whose RESPONSE PDU stands at `starts`.

    expected int64[R,J,1+W]: as `expectation` makes them; rows with fewer varbinds end in zeros.
    """
    rows, longest = expected.shape[:2]
    # A varbind moves by 129 octets at most: whatever the lengths claim, no step leaves the buffer.
    tail = bytes(_LONGEST_STEP * (longest + 1) + len(_PAD))
    flat = np.frombuffer(b"".join((_PAD, *payloads, tail)), np.uint8)
    word = np.ndarray((len(flat) - 7,), "<i8", flat, strides=(1,))
    sizes = np.fromiter((len(payload) for payload in payloads), np.int64, rows)
    ends = np.cumsum(sizes) + len(_PAD)
    at, odd = _first_varbind(word, ends - sizes + np.asarray(starts, np.int64), ends)
    # The only steps that depend on each other: where does the next varbind begin?
    begins = np.empty((longest + 1, rows), np.int64)
    begins[0] = at
    sizes_at = flat[1:]
    for j in range(longest):
        at = at + _STEP[sizes_at[at]]
        begins[j + 1] = at
    values = np.empty((longest, rows), np.uint64)
    gone = np.empty((longest, rows), np.bool_)
    block = max(1, _CHEAPEST // rows)
    for j in range(0, longest, block):
        part = slice(j, j + block)
        wanted = np.ascontiguousarray(expected[:, part].transpose(2, 1, 0))
        live = wanted[0] != 0
        values[part], gone[part], wrong = _values(word, begins[j : j + block + 1], wanted)
        wrong |= begins[1:][part] > ends
        odd |= (wrong & live).any(axis=0)
        gone[part] &= live
    return Decoded(values, gone, odd)


def _values(
    word: NDArray[np.int64], begins: NDArray[np.int64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Value, whether it is gone, and whether it deviates, of every varbind at once."""
    at, after = begins[:-1], begins[1:]
    wrong = word[at] & _FORM != wanted[0] & 0xFFFF_FFFF
    oid_size = wanted[0] >> 24
    start = at + 4
    end = start + oid_size
    for w in range(len(wanted) - 1):
        place = end - 8 if w == 0 else np.minimum(start + 8 * (w - 1), end - 8)
        wrong |= word[place] != wanted[1 + w]
    head = word[end]
    size = head >> 8 & 0xFF
    wrong |= end + 2 + size != after
    kind = _KIND[head & 0xFF]
    below_zero = (head & 0x80_00FF) == (0x80_0000 | ber.INTEGER)
    plain = (kind == _NUMBER) & (size >= 1) & (size <= 8) & ~below_zero
    gone = (kind == _GONE) & (size == 0)
    # Nine octets are eight behind a zero, which keeps the highest bit from being a sign.
    nine = (kind == _NUMBER) & (size == 9) & (head >> 16 & 0xFF == 0)
    wrong |= ~(plain | gone | nine)
    values = word[after - 8].astype(np.uint64)
    values.byteswap(inplace=True)
    values &= _KEEP[np.minimum(size, 8)]
    return values, gone, wrong


def _first_varbind(
    word: NDArray[np.int64], at: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where the first varbind begins, and which replies carry an error or are not plain."""
    odd = word[at] & 0xFF != 0xA2
    at, wrong = _skip_header(word, at)
    odd |= wrong | (at + 14 > ends)
    np.copyto(at, 0, where=odd)
    # A request id of four octets, then error-status and error-index, each 02 01 00.
    odd |= word[at] & 0xFFFF != 0x0402
    odd |= word[at + 6] & 0xFFFF_FFFF_FFFF != 0x0001_0200_0102
    at = at + 12
    odd |= word[at] & 0xFF != 0x30
    at, wrong = _skip_header(word, at)
    odd |= wrong | (at > ends)
    np.copyto(at, len(_PAD), where=odd)
    return at, odd


def _skip_header(
    word: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Past a tag and a length of up to three octets."""
    first = word[at] >> 8 & 0xFF
    extra = np.where(first < 0x80, 0, first & 0x7F)
    return at + 2 + extra, extra > 2
