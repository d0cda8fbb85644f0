"""gNMI-style files as a stream: bytes in, samples out. Framing, sniffing, finding the way back.

Files are whatever gnmic, telegraf and people's scripts wrote: one document a line, pretty-printed,
run together, cut off, with log lines or holes between. Data gets lost in the framing, not in the
JSON parser, so it is all here: `GnmiDecoder` finds the documents, and a bad one costs only itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats.base import BadRecord
from fabricmon.formats.gnmi import gnmi_json, gnmi_text
from fabricmon.formats.lines.line_forms import LineForms
from fabricmon.formats.lines.line_trace import Trace
from fabricmon.formats.lines.lines import Lines

if TYPE_CHECKING:
    from fabricmon.formats.base import Bad
    from fabricmon.formats.gnmi.gnmi_record import Given, Recorder

_BROKEN = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)
"""What a reader raises where a document's parts are not of the kinds its shape has."""

_MAX_RECORD = 64 << 20
_SHORT, _LONG = 1 << 15, 1 << 18
"""Bytes looked at together: while much is new, and when most is known. More leaves the cache."""
_BLANK = b" \t\r\x00"
_BOM = b"\xef\xbb\xbf"
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(rb"[^\[\]{}]+")
_OPENERS = (b"{", b"[")
_SOURCE_PREFIX = re.compile(rb"^\[[^\]\s\"{]+\] +(?=[\s\[\]{}\"])")
_RECORD_START = re.compile(rb'\[?\{"(?:name|source|sync-response|timestamp|update|fields)"')


def sniff(head: bytes) -> bool:
    """Whether a file beginning like this holds gNMI-style records of any form."""
    text = head.replace(b"\x00", b"").decode("utf-8", "replace")
    return gnmi_json.is_telling(head) or gnmi_text.is_telling(text)


class GnmiDecoder:
    """One file or stream of JSON records. Feed it bytes in order; samples gather in the recorder.

    The last record waits for its end for as long as it takes, unless a new one begins.
    """

    def __init__(
        self, recorder: Recorder, bad: Bad, name: str = "", forms: LineForms | None = None
    ) -> None:
        """`bad` hears of every record that was skipped, as `name:line`.

        Files of one recorder are best read with the same `forms`: what lines taught is shared.
        """
        self._recorder = recorder
        self._bad = bad
        self.forms: LineForms = LineForms() if forms is None else forms
        """What the lines seen so far look like."""
        self._watched: tuple[Lines, int] | None = None  # the line whose form is to be learnt
        self._stride = _SHORT
        self._text = gnmi_text.TextLines(recorder, self._take_here)
        self.name = name
        self.line = 0
        """Lines read so far."""
        self.skipped = 0
        """Records skipped so far."""
        self._rest: list[bytes] = []  # after the last line end
        self._rest_bytes = 0
        self._open: list[bytes] = []  # lines of a document that is not complete yet
        self._open_bytes = 0
        self._open_line = 0
        self._depth = 0

    @property
    def waiting(self) -> bool:
        """Whether the beginning of a record is here and its end is not."""
        return bool(self._rest or self._open or self._text.inside)

    def feed(self, data: bytes, received_ns: int) -> None:
        """Take the next bytes; `received_ns` stands in where a record has no time."""
        end = data.rfind(b"\n") + 1
        if end:
            whole = b"".join([*self._rest, memoryview(data)[:end]])
            self._rest, self._rest_bytes = [], 0
            at = 0
            while at < len(whole):
                stop = whole.find(b"\n", at + self._stride) + 1 or len(whole)
                self._lines(Lines(memoryview(whole)[at:stop]), received_ns)
                at = stop
        rest = data[end:]
        if rest:
            self._keep(rest)
        self._recorder.samples.pack(received_ns)

    def _lines(self, lines: Lines, received_ns: int) -> None:
        """Take whole lines: those of a known form at once, the others one by one."""
        self.forms.recognise(lines)
        begun, missed, line = self.line, 0, -1
        unknown = lines.unknown()
        for at in unknown:
            if at <= line:
                continue  # was inside a record that began before
            line = at
            self._one(lines, line, begun)
            missed += 1
            while self._inside and line + 1 < len(lines):
                line += 1
                lines.forget(line)
                self._one(lines, line, begun)
        self.line = begun + len(lines)
        self.forms.take(lines, self._recorder.samples, received_ns)
        # What one line teaches serves the next only once it is looked at.
        self._stride = _SHORT if missed * 8 > len(lines) else _LONG

    @property
    def _inside(self) -> bool:
        return bool(self._open or self._text.inside)

    def _one(self, lines: Lines, at: int, begun: int) -> None:
        self.line = begun + at + 1
        self._watched = None if self._inside else (lines, at)
        self._line(lines.text(at))
        self._watched = None

    def settle(self, received_ns: int) -> None:
        """There is no more for now: a last record without a line end is taken if it is whole."""
        rest = b"".join(self._rest)
        if not rest.rstrip(_BLANK).endswith((b"}", b"]")):
            return
        if self._depth_after(rest) > 0 or not (self._open or gnmi_json.loads(rest.strip(_BLANK))):
            return
        self._rest, self._rest_bytes = [], 0
        self.line += 1
        self._line(rest)
        self.line -= 1  # its line end is still to come
        self._recorder.samples.pack(received_ns)

    def close(self, received_ns: int) -> None:
        """The file is complete: what waits is taken if it is whole, and reported if not."""
        rest, self._rest, self._rest_bytes = b"".join(self._rest), [], 0
        if rest:
            self.line += 1
            self._line(rest)
        if self._open:
            self._abandon("the file ends inside a record")
        self._recorder.samples.pack(received_ns)

    def _keep(self, rest: bytes) -> None:
        self._rest.append(rest)
        self._rest_bytes += len(rest)
        if self._rest_bytes > _MAX_RECORD:
            self._rest, self._rest_bytes = [], 0
            self._skip(self.line + 1, f"a line longer than {_MAX_RECORD >> 20} MiB", rest)

    def _line(self, line: bytes) -> None:
        if b"\x00" in line:  # a hole after power loss; what stands on both sides is on its own
            for part in filter(None, line.split(b"\x00")):
                self._line(part)
            return
        if line.startswith(_BOM):
            line = line[3:]
        line = _SOURCE_PREFIX.sub(b"", line)
        text = line.strip(_BLANK)
        if not text:
            return
        if self._text.inside:
            self._text_line(text)
            return
        if self._open and line[:1] in _OPENERS and self._starts_anew(text):
            self._abandon("a record that breaks off")
        if self._open:
            self._gather(line)
        else:
            self._begin(line, text)

    def _begin(self, line: bytes, text: bytes) -> None:
        """A line outside any document: one document, the start of one or several, or noise."""
        if text[:1] in _OPENERS and not text[1:2].isdigit():  # `[2025-…` begins a line of text
            document = gnmi_json.loads(text.rstrip(b", \t"))
            if document is not None:
                self._take(document, self.line, text)
            elif text != b"[":  # a bare top-level list: its entries are records of their own
                self._open_line = self.line
                self._gather(line)
        elif text.strip(b"], \t}") and not self._text_line(line.rstrip(_BLANK)):
            at = text.find(b"{")  # telegraf logs records behind a word of its own
            document = gnmi_json.loads(text[at:]) if at > 0 else None
            if document is not None:
                self._take(document, self.line, text)
            else:
                self._skip(self.line, "not a record", text)

    def _text_line(self, line: bytes) -> bool:
        mark = self._recorder.samples.mark()
        try:
            return self._text.line(line.decode("utf-8", "replace"))
        except _BROKEN as error:
            self._recorder.samples.undo(mark)
            self._skip(self.line, f"not as this kind of record is made ({error})", line)
            return True

    def _starts_anew(self, text: bytes) -> bool:
        """Whether an opening bracket in the first column is a new document, not an inner line."""
        indented = any(line[:1] in b" \t" for line in self._open[1:])
        return indented or gnmi_json.loads(text) is not None or bool(_RECORD_START.match(text))

    def _gather(self, line: bytes) -> None:
        self._open.append(line)
        self._open_bytes += len(line) + 1
        if self._open_bytes > _MAX_RECORD:
            self._abandon(f"a record longer than {_MAX_RECORD >> 20} MiB")
            return
        self._depth = self._depth_after(line)
        if self._depth <= 0:
            self._complete()

    def _depth_after(self, line: bytes) -> int:
        brackets = _BRACKETS.sub(b"", _STRINGS.sub(b"", line))
        return self._depth + 2 * (brackets.count(b"{") + brackets.count(b"[")) - len(brackets)

    def _complete(self) -> None:
        text, line = self._close_open()
        text = text.strip(_BLANK + b"\n,")
        document = gnmi_json.loads(text, lenient=True)
        if document is not None:
            self._take(document, line, text)
            return
        pieces, rest = gnmi_json.documents(text)
        for piece in pieces:
            self._take(piece, line, text)
        if rest.strip(_BLANK + b"\n,]}") or not pieces:
            self._skip(line, "not JSON", rest or text)

    def _abandon(self, reason: str) -> None:
        text, line = self._close_open()
        self._skip(line, reason, text)
        # A writer that died and began again without a line end leaves a whole record behind.
        for found in list(_RECORD_START.finditer(text, 1))[-8:]:
            document = gnmi_json.loads(text[found.start() :].strip(_BLANK + b"\n,"))
            if document is not None:
                self._take(document, line, text)
                break

    def _close_open(self) -> tuple[bytes, int]:
        text = b"\n".join(self._open)
        self._open, self._open_bytes, self._depth = [], 0, 0
        return text, self._open_line

    def _take_here(self, document: object) -> None:
        self._take(document, self.line, b"")

    def _take(self, document: object, line: int, text: bytes) -> None:
        recorder, watched = self._recorder, self._watched
        mark = recorder.samples.mark()
        try:
            if watched is not None and gnmi_json.repeats(document):
                taken = self._learn(document, *watched)
            else:
                taken = gnmi_json.take(recorder, document, self.name)
        except _BROKEN as error:
            recorder.samples.undo(mark)
            self._skip(line, f"not as this kind of record is made ({error})", text)
            return
        if not taken:
            self._skip(line, "JSON, but no record of a known kind", text)

    def _learn(self, document: object, lines: Lines, at: int) -> bool:
        """Take a record that stands on a line of its own, and remember what it looks like."""
        recorder = self._recorder
        samples, deleted = recorder.samples, recorder.deleted
        try:
            trace = Trace(document)
        except ValueError:
            return gnmi_json.take(recorder, document, self.name)
        mark = samples.mark()
        given: list[Given] = []
        recorder.given = given
        try:
            taken = gnmi_json.take(recorder, trace.document, self.name)
        finally:
            recorder.given = None
        if taken and recorder.deleted == deleted:
            form = trace.form(given, samples.since(mark), lines.numbers(at), samples, mark[0])
            if form is not None:
                self.forms.add(lines.keys[at], form)
        return taken

    def _skip(self, line: int, reason: str, text: bytes) -> None:
        self.skipped += 1
        shown = text[:80].decode("utf-8", "replace").strip()
        self._bad(BadRecord(self.name, line, f"{reason}: {shown!r}"))
