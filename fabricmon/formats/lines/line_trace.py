"""What each number of a line is: found by watching the ordinary reader read it.

The numbers of a parsed line are replaced by marked ones. Those that reach the recorder as values of
leaves are values, the members that hold times are times, a few are known to say nothing; all others
are taken for parts of names, which must be the same for the form of the line to fit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from fabricmon.formats.gnmi.gnmic import KEY_LEAVES
from fabricmon.formats.lines.line_forms import IGNORED, LABEL, LEVEL, NO_TIME, TIME, Form, Part
from fabricmon.formats.lines.numerals import is_number
from fabricmon.formats.lines.series_table import UNMAPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.formats.gnmi.gnmi_record import Given
    from fabricmon.formats.lines.series import Samples

_NAMES = frozenset({"tags", "key"})
"""Members whose numbers are parts of names."""
_SILENT = frozenset({"latency-nano", "latency-milli"})
_DATES = frozenset({"time", "recv-time"})
_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d", re.ASCII)
_INDEXED = re.compile(r"\.\d+(/|$)")
_MAX_NUMBERS = 10_000


class _Scope:
    """A part of a document that has a time of its own."""

    def __init__(self) -> None:
        self.times = (NO_TIME, NO_TIME)


class _Marked:
    """A scalar that knows where it stood."""

    at: int | None
    """Which number of its line it is; None for a text."""
    scope: _Scope


class _Whole(int, _Marked):
    pass


class _Real(float, _Marked):
    pass


class _Text(str, _Marked):  # noqa: SLOT000 - its marks are attributes
    pass


class _Number(NamedTuple):
    value: object
    """None where it is not compared with what is written."""
    role: int | None
    """What it is wherever it goes."""
    scope: _Scope


class Trace:
    """The numbers of one document, in the order of its text."""

    def __init__(self, document: Any) -> None:
        """Raises `ValueError` for a document that has no form."""
        self._numbers: list[_Number] = []
        self.document = self._marked(document, _Scope(), None)
        """The same document with its scalars marked."""

    def _marked(self, value: Any, scope: _Scope, role: int | None) -> Any:
        """A container with its scalars marked; those of a list are no values by themselves."""
        if isinstance(value, list):
            return [
                self._marked(entry, scope, role) if isinstance(entry, dict | list) else entry
                for entry in value
            ]
        if role is not None:
            self._names(value, scope, role)
            return value
        if "timestamp" in value:
            scope = _Scope()
        if "digits" in value:
            raise ValueError("a number that is not a value by itself")
        return {name: self._member(value, name, inner, scope) for name, inner in value.items()}

    def _member(self, value: dict[str, Any], name: str, inner: Any, scope: _Scope) -> Any:
        if "." in name and _INDEXED.search(name):
            raise ValueError("a value that is a name as well")
        if isinstance(inner, dict | list):
            return self._marked(inner, scope, LABEL if name in _NAMES else None)
        which = self._time_of(name, value)
        if which is not None:
            if isinstance(inner, int) or is_number(str(inner)):
                at = len(self._numbers)
                self._number(inner, scope, TIME)
                scope.times = (at, scope.times[1]) if which == 0 else (scope.times[0], at)
            return inner
        if isinstance(inner, bool) or inner is None:
            return inner
        if isinstance(inner, str) and not is_number(inner):
            self._date(inner, name, scope)
            return _mark(_Text(inner), None, scope)
        return self._number(inner, scope, IGNORED if name in _SILENT else None)

    def _names(self, value: dict[str, Any], scope: _Scope, role: int) -> None:
        """Count the numbers among names; nothing in there is a value."""
        for inner in value.values():
            if isinstance(inner, dict | list):
                self._marked(inner, scope, role)
            elif isinstance(inner, str):
                if is_number(inner):
                    self._number(inner, scope, role)
            elif isinstance(inner, int | float) and not isinstance(inner, bool):
                self._number(inner, scope, role)

    @staticmethod
    def _time_of(name: str, value: dict[str, Any]) -> int | None:
        """Which of a record's times a member is."""
        if name == "timestamp":
            return 0
        return 1 if name == "recv-timestamp" and "updates" in value else None

    def _date(self, value: str, member: str, scope: _Scope) -> None:
        if member.endswith("time") and _DATE.match(value):
            if member not in _DATES:
                raise ValueError("a date that may mean something")
            self._numbers.extend([_Number(None, IGNORED, scope)] * 6)

    def _number(self, value: Any, scope: _Scope, role: int | None) -> Any:
        at = len(self._numbers)
        if at > _MAX_NUMBERS:
            raise ValueError("a document of too many numbers")
        self._numbers.append(_Number(value, role, scope))
        if role is not None:
            return value
        kind = _Text if isinstance(value, str) else _Whole if isinstance(value, int) else _Real
        return _mark(kind(value), at, scope)

    def form(
        self,
        given: Sequence[Given],
        put: Sequence[tuple[int, int, int]],
        written: Sequence[bytes],
        samples: Samples,
        first: int,
    ) -> Form | None:
        """The form of a line whose numbers are `written`, after its document was taken.

        `given` is what reached the recorder, `put` what came of it: code, raw value and time, the
        first of which has the index `first`. None where the line is not as plain as it looks.
        """
        if not self._are(written):
            return None
        roles: dict[int, int] = {}
        constants: list[Part] = []
        absent = 0
        for value, series, leaf, index in given:
            if series is None or not isinstance(value, _Marked):
                return None  # LLDP, or a value that is no part of the text
            code, raw, time_ns = (0, 0, None) if index is None else put[index - first]
            if time_ns is not None and self._time(value.scope, written) != time_ns:
                return None
            if value.at is not None:
                roles[value.at] = _role(samples, series, value, leaf)
            elif time_ns is not None:
                constants.append(Part(code, raw, value.scope.times))
            else:
                absent += series != UNMAPPED
        parts = [
            self._part(number, roles.get(at, LABEL), written[at])
            for at, number in enumerate(self._numbers)
        ]
        return None if None in parts else Form([p for p in parts if p], constants, absent)

    def _are(self, written: Sequence[bytes]) -> bool:
        """Whether the numbers of the text are those of the document."""
        return len(written) == len(self._numbers) and all(
            number.value is None
            or (
                float(text) == number.value
                if isinstance(number.value, float)
                else text == str(number.value).encode()
            )
            for text, number in zip(written, self._numbers, strict=True)
        )

    @staticmethod
    def _time(scope: _Scope, written: Sequence[bytes]) -> int:
        texts = [written[at] for at in scope.times if at != NO_TIME]
        return max((int(text) if text.isdigit() else -1 for text in texts), default=0)

    @staticmethod
    def _part(number: _Number, found: int, text: bytes) -> Part | None:
        role = found if number.role is None else number.role
        if role in (LABEL, TIME) and not text.isdigit():
            return None
        value = int(text) if role == LABEL else 0
        return Part(role, value, number.scope.times) if value < 1 << 64 else None


def _mark(value: Any, at: int | None, scope: _Scope) -> Any:
    value.at, value.scope = at, scope
    return value


def _role(samples: Samples, series: int, value: object, leaf: str) -> int:
    if leaf in KEY_LEAVES:
        return LABEL
    if series == UNMAPPED:
        return IGNORED
    if samples.table.gauges[series] is not None:
        return LEVEL - series
    return 2 * series + (not isinstance(value, str))
