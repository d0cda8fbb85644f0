"""Notifications by their bytes: the fast path of live gNMI.

As in files, a device repeats itself: of a notification, all but the numbers is the same from one
sample to the next. A notification that was parsed once becomes a pattern of its bytes with gaps for
the numbers; the next one costs a match, and its numbers become an array with thousands of others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from fabricmon.formats.lines.numerals import varint_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.formats.lines.series import Samples

_MAX_FORMS = 100_000
_MAX_PATTERNS = 2_000
_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_LENGTH = rb"[\x80-\xff]{0,2}[\x00-\x7f]"
# SubscribeResponse.update, then the notification's timestamp, then its prefix with its length.
_HEAD = re.compile(
    rb"\x0a%b\x08(%b)\x12([\x00-\x7f]|[\x80-\xff][\x00-\x7f])" % (_LENGTH, _NUMBER), re.DOTALL
)


class _Form(NamedTuple):
    pattern: re.Pattern[bytes]
    codes: list[int]


class WireForms:
    """What the notifications of one target look like."""

    def __init__(self, samples: Samples) -> None:
        """Numbers go to `samples`."""
        self._samples = samples
        self._forms: dict[bytes, _Form] = {}
        self._patterns: dict[tuple[bytes, ...], re.Pattern[bytes]] = {}

    def take(self, raw: bytes) -> bool:
        """Take a response that is as one before, but for its numbers; False if it is not."""
        head = _HEAD.match(raw)
        if head is None:
            return False
        end = head.end() + _length(head[2])
        form = self._forms.get(raw[head.end() : end])
        found = form.pattern.fullmatch(raw, end) if form is not None else None
        if form is None or found is None:
            return False
        self._samples.put_wire(form.codes, found.groups(), head[1])
        return True

    def learn(self, raw: bytes, note: Any, code: Callable[[Any], int | None]) -> None:
        """Remember a response and what it was parsed to, if it is nothing but counts.

        `code` gives the code of an update (twice its series, -1 unmapped), None for no count.
        """
        head = _HEAD.match(raw)
        if head is None or len(note.delete) or note.atomic or len(self._forms) >= _MAX_FORMS:
            return
        end = head.end() + _length(head[2])
        layout, codes = [], []
        for update in note.update:
            known = code(update)
            if known is None:
                return
            path = update.path.SerializeToString()
            layout.append(b"\x0a%b%b" % (_varint(len(path)), path))
            codes.append(known)
        pattern = self._pattern(tuple(layout))
        found = pattern.fullmatch(raw, end) if pattern is not None else None
        if pattern is None or found is None:
            return
        numbers = varint_numbers(found.groups()).tolist()
        if numbers == [update.val.uint_val for update in note.update]:
            self._forms[raw[head.end() : end]] = _Form(pattern, codes)

    def _pattern(self, layout: tuple[bytes, ...]) -> re.Pattern[bytes] | None:
        known = self._patterns.get(layout)
        if known is None and len(self._patterns) < _MAX_PATTERNS:
            # Update: its length, its path as it was, and a value that is a uint_val.
            parts = (
                rb"\x22%b%b\x1a[\x00-\x7f]\x18(%b)" % (_LENGTH, re.escape(path), _NUMBER)
                for path in layout
            )
            known = self._patterns[layout] = re.compile(b"".join(parts), re.DOTALL)
        return known


def _length(text: bytes) -> int:
    return text[0] if len(text) == 1 else (text[0] & 0x7F) | text[1] << 7


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
