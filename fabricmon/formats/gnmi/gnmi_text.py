"""gNMI data as text: prototext, jtimon logs, influx lines, gnmic `flat`, goarista, SONiC tables.

Each line is offered to whatever it may be. Forms over several lines keep what came before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats.gnmi import gnmi_json, gnmi_path, prototext
from fabricmon.formats.system.sonic import stamp_ns
from fabricmon.formats.system.sonic_cli import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.formats.gnmi.gnmi_record import Recorder

_MAX_BLOCK = 4 << 20
_PROTO_START = re.compile(
    r"(update|notification|sync_response|timestamp|prefix|path|response|supported_models)\s*:?\s*"
    r"([{<]|true$)"
)
_TRANSCRIPT = re.compile(r"== (get|set)(Request|Response):|encoding: \w+$")
_INFLUX = re.compile(
    r"(?P<name>(?:\\.|[^,\s\\])+)(?P<tags>(?:,(?:\\.|[^,=\s\\])+=(?:\\.|[^,\s\\])+)*) "
    r"(?P<fields>(?:\\.|[^,=\s\\])+=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"])+"
    r"(?:[^\s\"]|\"(?:[^\"\\]|\\.)*\")*)(?: (?P<time>-?\d{1,19}))?$"
)
_PAIR = re.compile(r"((?:\\.|[^,=\\])+)=(\"(?:[^\"\\]|\\.)*\"|(?:\\.|[^,\\])*)(?:,|$)")
_GOARISTA = re.compile(r"\[(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z?)\] (?P<path>/\S+) = (?P<value>.*)$")
_DELETED = re.compile(r"(\[[\d:.TZ-]+\] )?Deleted /\S+")
_FLAT = re.compile(
    r"(?P<path>/?[\w-]+(?::[\w-]+)?(?:\[[^\]]*\])*(?:/(?:[^:\[\s/]|:(?! )|\[[^\]]*\])+)+)"
    r": (?P<value>.*)$"
)
_JTIMON_FIELD = re.compile(
    r"/(?P<path>[^=\s]+)=(?:%!s\((?:float64|int|uint\d*|int\d*)=(?P<n>[^)]*)\)|(?P<text>[^\]]*))"
)
_JTIMON_KEY = re.compile(r"/(?P<path>[^@\s]+)/@(?P<key>[\w-]+)\s*=\s*(?P<value>[^\]\s]+)")
_JTIMON_DEVICE = re.compile(r"(?:^|[\s\[])device\s*=\s*(?P<device>[^\]\s]+)")


class TextLines:
    """Reads lines that are not JSON."""

    def __init__(self, recorder: Recorder, document: Callable[[object], None]) -> None:
        """Values go to `recorder`; lines that are records of another shape go to `document`."""
        self._recorder = recorder
        self._document = document
        self._tables = Tables()
        self._block: list[str] = []
        self._block_bytes = 0
        self._depth = 0
        self._tags = ""
        self._in_tags = False
        self._in_fields = False

    @property
    def inside(self) -> bool:
        """Whether a form over several lines is open, so that brackets are its own."""
        return self._depth > 0 or self._in_tags or self._in_fields

    def line(self, text: str) -> bool:
        """Take a line; False where it is of no known form. Raises `ValueError` for a broken one."""
        if self._depth > 0 or _PROTO_START.match(text):
            self._gather(text)
            return True
        return (
            bool(_TRANSCRIPT.match(text))
            or self._jtimon(text)
            or self._table(text)
            or self._arista(text)
            or self._influx(text)
            or self._flat(text)
        )

    def _gather(self, text: str) -> None:
        self._block.append(text)
        self._block_bytes += len(text)
        self._depth += prototext.depth(text)
        if self._depth > 0 and self._block_bytes < _MAX_BLOCK:
            return
        block, self._block, self._block_bytes, self._depth = self._block, [], 0, 0
        message = prototext.parse("\n".join(block))
        notes = [*message.get("notification", ()), *message.get("update", ())]
        for note in notes:
            if isinstance(note, dict):
                document = {"notification": [prototext.as_protojson(note)]}
                gnmi_json.take(self._recorder, document)

    def _table(self, text: str) -> bool:
        if self._tables.is_header(text) or not text.strip("- "):
            return True
        if text.startswith("For namespace"):
            return True
        row = self._tables.row(text)
        if row is None:
            return False
        self._recorder.values(self._recorder.device, 0, row)
        return True

    def _arista(self, text: str) -> bool:
        found = _GOARISTA.match(text)
        if found is None:
            return bool(_DELETED.match(text))
        path = found["path"].replace("\\/", "\x00")
        steps = [step.replace("\x00", "/") for step in path.split("/") if step]
        value = gnmi_json.loads(found["value"].encode(), lenient=True)
        if isinstance(value, dict) and "value" in value:
            value = value["value"]
        elements = [gnmi_path.Element(step, {}) for step in steps]
        readings = [gnmi_path.native(elements, value)]
        self._recorder.values(self._recorder.device, stamp_ns(found["time"]), readings)
        return True

    def _influx(self, text: str) -> bool:
        metric = _influx(text)
        if metric is not None:
            self._document(metric)
        return metric is not None

    def _flat(self, text: str) -> bool:
        found = _FLAT.match(text)
        if found is None:
            return False
        path, keys = gnmi_path.join(gnmi_path.split(found["path"]))
        self._recorder.values(self._recorder.device, 0, [(path, keys, found["value"].strip())])
        return True

    def _jtimon(self, text: str) -> bool:
        """`TAGS: [ … ]` names device and keys; `FIELDS: [ … ]` follows, on one line or many."""
        if text.startswith("TAGS:"):
            self._tags, self._in_fields = text, False
            self._in_tags = not text.rstrip().endswith("]")
        elif text.startswith("FIELDS:"):
            self._in_tags = False
            self._in_fields = text.rstrip().endswith("[")
            self._jtimon_fields(text)
        elif self._in_tags or self._in_fields:
            if text.strip() == "]":
                self._in_tags = self._in_fields = False
            elif self._in_tags:
                self._tags += f"\n{text}"
            else:
                self._jtimon_fields(text)
        else:
            return False
        return True

    def _jtimon_fields(self, text: str) -> None:
        device = _JTIMON_DEVICE.search(self._tags)
        keys = {}
        for found in _JTIMON_KEY.finditer(self._tags):
            element = found["path"].rpartition("/")[2]
            keys[f"{element}_{found['key']}"] = found["value"].strip("'\"")
        readings = [
            (f"/{found['path']}", keys, _go_value(found)) for found in _JTIMON_FIELD.finditer(text)
        ]
        name = gnmi_path.host(device["device"]) if device else self._recorder.device
        self._recorder.values(name, 0, readings)


def _influx(text: str) -> dict[str, object] | None:
    """A line of the influx protocol as telegraf's JSON would have it; None where it is none."""
    found = _INFLUX.match(text)
    if found is None:
        return None
    return {
        "name": _unescaped(found["name"]),
        "tags": {_unescaped(k): _unescaped(v) for k, v in _PAIR.findall(found["tags"][1:])},
        "fields": {_unescaped(k): _influx_value(v) for k, v in _PAIR.findall(found["fields"])},
        "timestamp": int(found["time"] or 0),
    }


def is_telling(text: str) -> bool:
    """Whether a file beginning with this text is of a form read here."""
    for line in _lines(text):
        if _PROTO_START.match(line) or line.startswith(("== get", "TAGS: [")):
            return True
        if _INFLUX.match(line) or _GOARISTA.match(line) or _FLAT.match(line):
            return True
        if Tables().is_header(line):
            return True
    return False


def _lines(text: str) -> Iterator[str]:
    """Whole lines of the beginning of a file."""
    return filter(None, (line.strip() for line in text.splitlines()[:20]))


def _go_value(found: re.Match[str]) -> object:
    if found["n"] is None:
        return found["text"]
    try:
        number = float(found["n"])
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 1e19 else number


def _unescaped(text: str) -> str:
    return re.sub(r"\\([,= \\])", r"\1", text)


def _influx_value(text: str) -> object:
    if text[:1] == '"':
        return text[1:-1].replace('\\"', '"')
    if text[-1:] in "iu" and text[:-1].lstrip("-").isdigit():
        return text[:-1]  # as text it stays exact
    return gnmi_json.loads(text.encode())
