"""gnmic's `json` messages on one line, read by what repeats in them.

The head (who, when, which prefix) is small and parsed; the updates behind it are one form per
device and prefix. See `gnmic_lines` for the idea.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fabricmon.formats import gnmi_path
from fabricmon.formats.gnmic import KEY_LEAVES, as_time, message_readings
from fabricmon.formats.text_forms import Form, FormMaker, Piece, code_of

if TYPE_CHECKING:
    from fabricmon.formats.gnmi_record import Recorder

_MAX_TEXTS = 400_000
_MAX_BODY = 1 << 16
_UPDATES = b',"updates":['
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^"{}\[\],:\s]+')


class MessageLines:
    """Messages that stand on one line."""

    def __init__(self, recorder: Recorder) -> None:
        """Values go to `recorder`."""
        self._recorder = recorder
        self._samples = recorder.samples
        self._forms: dict[tuple[str, str], Form] = {}
        self._maker = FormMaker()

    def line(self, line: bytes) -> bool:
        """Take a line `{…,"updates":[…]}`; False (and nothing taken) if it is none."""
        at = line.find(_UPDATES)
        if at < 0 or line[:2] != b'{"' or line[-3:] != b"}]}":
            return False
        head = _loads(b"%b}" % line[:at])
        if not isinstance(head, dict):
            return False
        target, prefix = head.get("target") or head.get("source") or "", head.get("prefix") or ""
        if "deletes" in head or not (isinstance(target, str) and isinstance(prefix, str)):
            return False
        try:
            # Some devices stamp when a value last changed; the receive time moves on all the same.
            time_ns = max(as_time(head.get("timestamp")), as_time(head.get("recv-timestamp")))
        except (ValueError, TypeError, OverflowError):
            return False
        form = self._forms.get((target, prefix))
        found = form.pattern.fullmatch(line, at + len(_UPDATES)) if form is not None else None
        if form is not None and found is not None:
            form.take(found, self._samples)
            self._samples.stamp(time_ns)
            return True
        return self._learn(line, at + len(_UPDATES), (target, prefix), time_ns)

    def _learn(self, line: bytes, at: int, key: tuple[str, str], time_ns: int) -> bool:
        """Parse a message and remember its text. False where it is not as messages are."""
        message = _loads(line)
        if not isinstance(message, dict):
            return False
        device = self._recorder.event_device({"target": key[0]}) if key[0] else ""
        device = device or self._recorder.device
        mark = self._samples.mark()
        try:
            readings = list(message_readings(message))
            self._recorder.readings(device, time_ns, readings)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            self._samples.undo(mark)
            return False
        body = line[at:]
        spots = _spots(body) if len(body) < _MAX_BODY else None
        if spots is None or len(spots) != len(readings) or len(self._forms) >= _MAX_TEXTS:
            return True
        pieces, end = [], 0
        for reading, (first, last, fixed) in zip(readings, spots, strict=True):
            text = body[first:last]
            series = self._recorder.resolve(device, reading.elements, reading.value)
            if series is None:  # LLDP: must be read each time it changes
                return True
            if not fixed:
                pieces.append(Piece(body[end:first], text, code_of(series, text, self._samples)))
                end = last
        form = self._maker.make(pieces, body[end:])
        if form is not None:
            self._forms[key] = form
        return True


class Spot(NamedTuple):
    """Where one leaf's value stands in a text."""

    first: int
    last: int
    fixed: bool
    """Its text says which entry of a list the others belong to."""


def _spots(body: bytes) -> list[Spot] | None:
    """Where each leaf below a `values` stands.

    None where that cannot be told from the text alone (lists of plain values, decimals).
    """
    spots: list[Spot] = []
    stack: list[bytes] = []
    key, inside, after = b"", 0, b""
    for found in _TOKEN.finditer(body):
        token = found[0]
        if token in b"{[":
            stack.append(token)
            if not inside and key == b'"values"' and after == b":":
                inside = len(stack)
        elif token in b"}]":
            if not stack:
                break  # the list of updates ends
            stack.pop()
            inside = inside if len(stack) >= inside else 0
        elif token not in b":,":
            if after == b":" and inside:
                spots.append(Spot(found.start(), found.end(), _names_entry(key)))
            elif stack[-1:] == [b"["] and inside:
                return None
            key = token if after != b":" else key
        after = token
    return None if any(b"digits" in body[spot.first - 12 : spot.first] for spot in spots) else spots


def _names_entry(key: bytes) -> bool:
    return gnmi_path.bare(key.strip(b'"').decode("utf-8", "replace")) in KEY_LEAVES


def _loads(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
