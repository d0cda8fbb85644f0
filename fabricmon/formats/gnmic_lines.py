"""gnmic's event lines, read by what repeats in them. The fast path of the gNMI reader.

A device says the same again and again: of an event, all but its numbers is the text of the sample
before. So the text around the numbers is looked up as bytes. It was parsed as JSON when it was
first seen, hence a hit is as sure as parsing it again; whatever misses is parsed in full. No event
becomes a dictionary, no number an object before all of them become one array.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from fabricmon.formats.gnmic import take_event
from fabricmon.formats.series import UNMAPPED
from fabricmon.formats.text_forms import LEVEL, Form, FormMaker, Piece, code_of, quoted

if TYPE_CHECKING:
    from fabricmon.formats.gnmi_record import Recorder

MAX_TEXTS = 1_000_000
"""Texts remembered at most, by one file; what is beyond is parsed each time it comes."""
_HEAD = re.compile(rb'\[?(\{"name":"(?:[^"\\]|\\.)*","timestamp":([0-9]{1,19}),"tags":\{)')
_VALUES = b'},"values":{'
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|[^",{}\[\]]+')


class EventLines:
    """Events that stand on one line, as an array or alone."""

    def __init__(self, recorder: Recorder) -> None:
        """Values go to `recorder`."""
        self._recorder = recorder
        self._samples = recorder.samples
        # One-value events by their text up to the number: the code of a bare count (-1 unmapped);
        # and of everything else, where a gauge is LEVEL minus its series.
        self._bare: dict[bytes, int] = {}
        self._single: dict[bytes, int] = {}
        # The tags of an event with several values: the form its values had last.
        self._forms: dict[bytes, Form] = {}
        self._maker = FormMaker()

    def line(self, line: bytes) -> bool:
        """Take a line `[{"name":…},…]` or `{"name":…}`; False (and nothing taken) if it is not one.

        A line that turns out to be broken further on leaves nothing behind.
        """
        found = _HEAD.match(line)
        end = -3 if line[:1] == b"[" else -2
        if found is None or line[end:] != b"}}]"[:-end]:
            return False
        head, stamp = found.groups()
        events = line[found.end() : end].split(b"}}," + head)
        samples, bare = self._samples, self._bare
        if len(events) == 1 and self._known_form(events[0]):
            samples.stamp(int(stamp))
            return True
        mark = None
        for event in events:
            text, _, number = event.rpartition(b":")
            code = bare.get(text)
            if code is not None and number.isdigit() and len(number) < 20:
                samples.codes.append(code)
                samples.digits.append(number)
            elif not (self._known_single(text, number) or self._known_form(event)):
                mark = mark or samples.mark()
                if not self._learn(head, event):
                    samples.undo(mark)
                    return False
        samples.stamp(int(stamp))
        return True

    def _known_single(self, text: bytes, number: bytes) -> bool:
        """Take `TAGS},"values":{"PATH":` with a number that is quoted, or no count."""
        code = self._single.get(text)
        if code is None:
            return False
        if code >= 0:
            digits = number[1:-1]
            good = quoted(number) and digits.isdigit() and len(digits) < 20
            if good:
                self._samples.codes.append(code)
                self._samples.digits.append(digits)
            return good
        value = _loads(number)
        if value is None or isinstance(value, dict | list):
            return False
        if code != UNMAPPED:
            self._samples.put(LEVEL - code, value)
        return True

    def _known_form(self, event: bytes) -> bool:
        """Take `TAGS},"values":{…` with several values, if the text around them is as before."""
        k = event.find(_VALUES)
        form = self._forms.get(event[:k])
        if form is None:
            return False
        found = form.pattern.fullmatch(event, k + 12)
        if found is None:
            return False
        form.take(found, self._samples)
        return True

    def _learn(self, head: bytes, event: bytes) -> bool:
        """Parse one event and remember its text. False where it is no JSON object."""
        parsed = _loads(b"%b%b}}" % (head, event))
        if parsed is None or not take_event(self._recorder, parsed):
            return False
        k = event.find(_VALUES)
        tags = _loads(b"{%b}" % event[:k])
        if k >= 0 and isinstance(tags, dict) and tags == parsed.get("tags"):
            self._remember(event, k, tags, parsed["values"])
        return True

    def _remember(self, event: bytes, k: int, tags: dict[str, Any], values: Any) -> None:
        body = event[k + 12 :]
        items = _items(body)
        if items is None or len(items) != len(values) or any("." in path for path in values):
            return
        pieces = [
            Piece(b",%b:" % written if i else b"%b:" % written, text, self._code(tags, path, text))
            for i, (path, (written, text)) in enumerate(zip(values, items, strict=True))
        ]
        if len(pieces) == 1:
            if len(self._single) + len(self._bare) < MAX_TEXTS:
                (text, value, code) = pieces[0]
                bare = code >= UNMAPPED and value.isdigit() and code & 1
                known = self._bare if bare else self._single
                known[event[: k + 12] + text[:-1]] = code
        elif len(self._forms) < MAX_TEXTS:
            form = self._maker.make(pieces, b"")
            if form is not None:
                self._forms[event[:k]] = form

    def _code(self, tags: dict[str, Any], path: str, text: bytes) -> int:
        return code_of(self._recorder.series(tags, path), text, self._samples)


def _loads(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _items(body: bytes) -> list[tuple[bytes, bytes]] | None:
    """`"PATH":VALUE,…` as written, in pieces; None where a value is no scalar."""
    items, at = [], 0
    while True:
        path = _SCALAR.match(body, at)
        if path is None or body[path.end() : path.end() + 1] != b":":
            return None
        value = _SCALAR.match(body, path.end() + 1)
        if value is None:
            return None
        items.append((path[0], value[0]))
        at = value.end() + 1
        if value.end() == len(body):
            return items
        if body[value.end() : at] != b",":
            return None
