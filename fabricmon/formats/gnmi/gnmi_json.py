"""JSON documents that carry gNMI data: what each is, found by its keys, and how it is read."""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

import orjson

from fabricmon.formats.gnmi import gnmi_path, gnmic
from fabricmon.formats.gnmi.gnmi_path import Element
from fabricmon.formats.gnmi.gnmi_record import Reading
from fabricmon.formats.gnmi.gnmic import as_time
from fabricmon.formats.system import sonic, sonic_cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fabricmon.formats.gnmi.gnmi_record import Recorder

_KEYS: tuple[bytes, ...] = (
    *(b'"tags"', b'"updates"', b'"update"', b'"Path"', b'"fields"', b'"notification"'),
    *(b'"sync-response"', b'"syncResponse"', b'"sync_response"', b"{'update'", b"{'sync_response'"),
)
_MODULE = re.compile(r"[a-z][\w.-]+:[a-z][\w.-]*$")
_SONIC_KEYS: tuple[bytes, ...] = (
    *(b"oid:0x", b'"SAI_', b'"PORT_TABLE', b'"COUNTERS', b'"PFC_WD_', b'"PORT|', b'"lldp_rem_'),
    *(b'"totalpacket"', b'"ecnmarkedpacket"'),
)
_START = re.compile(rb'\s*\{\s*"(?:[a-z][\w.-]*:[a-z]|Ethernet\d+(?:/\d+)?:\d+"\s*:\s*\{)')
"""How a bare payload begins, and the queues of a SONiC port."""


def is_telling(head: bytes) -> bool:
    """Whether the beginning of a file names keys that only gNMI-style records have."""
    if b"{" not in head:
        return False
    return any(key in head for key in (*_KEYS, *_SONIC_KEYS)) or bool(_START.match(head))


def loads(text: bytes, *, lenient: bool = False) -> Any:
    """One JSON document; None where it is not (or is just `null`).

    `lenient` also reads what only some writers call JSON: NaN (becomes null, hence absent), broken
    UTF-8, and Python's own notation, which scripts around pygnmi print.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    if text[:2] == b"{'":
        return _python(text)
    if not lenient:
        return None
    try:
        return json.loads(text.decode("utf-8", "replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _python(text: bytes) -> Any:
    try:
        return ast.literal_eval(text.decode("utf-8", "replace").replace(": nan", ": None"))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


_decoder = json.JSONDecoder(parse_constant=lambda _: None)


def documents(text: bytes) -> tuple[list[Any], bytes]:
    """Documents run together, and what is left where they end being any."""
    string, at, found = text.decode("utf-8", "replace"), 0, []
    while at < len(string):
        while at < len(string) and string[at] in " \t\r\n,":
            at += 1
        try:
            document, at = _decoder.raw_decode(string, at)
        except (ValueError, RecursionError):
            break
        found.append(document)
    return found, string[at:].encode()


def take(recorder: Recorder, document: Any, file: str = "") -> bool:
    """Take what a document holds. False for none of the known kinds; raises for broken ones.

    `file` is its file's name, which says whose dump it is and of when, where nothing else does.
    """
    if isinstance(document, list):
        # An empty list is what gnmic leaves of a message that its processors emptied.
        taken = [take(recorder, entry, file) for entry in document]
        return all(taken)
    if not isinstance(document, dict):
        return False
    reader = _reader(document)
    if reader is not None:
        return reader(recorder, document)
    if sonic.is_dump(document):
        return sonic.take(recorder, document, file)
    if sonic_cli.is_json(document):
        recorder.values(recorder.device, 0, sonic_cli.json_values(document))
    elif any(_MODULE.match(key) for key in document):  # the bare payload of an answer
        recorder.readings(recorder.device, 0, gnmic.leaves([], document))
    else:
        return not document
    return True


def repeats(document: Any) -> bool:
    """Whether a record of this kind says everything by itself, and is written again and again."""
    if isinstance(document, list):
        return all(isinstance(one, dict) and _reader(one) is not None for one in document)
    return isinstance(document, dict) and _reader(document) is not None


def _reader(document: Mapping[str, Any]) -> Callable[[Recorder, Any], bool] | None:
    keys = document.keys()
    if "fields" in keys and "name" in keys:
        return _telegraf
    if keys & {"updates", "sync-response"} or ("deletes" in keys and "tags" not in keys):
        return _gnmic_message
    if keys & {"tags", "values", "deletes"}:
        return gnmic.take_event
    if keys & {"update", "syncResponse", "sync_response", "notification"}:
        return _protocol
    return None


def _gnmic_message(recorder: Recorder, message: Mapping[str, Any]) -> bool:
    stamp, received = as_time(message.get("timestamp")), as_time(message.get("recv-timestamp"))
    device = message.get("target") or message.get("source") or recorder.device
    recorder.deleted += len(message.get("deletes") or ())
    readings = gnmic.message_readings(message)
    # Some devices stamp when a value last changed; the receive time moves on where that stands.
    recorder.readings(gnmi_path.host(str(device)), max(stamp, received), readings)
    return True


def _protocol(recorder: Recorder, document: Mapping[str, Any]) -> bool:
    """The protocol's own messages: protojson, and the dictionaries that pygnmi makes of them."""
    notifications = document.get("notification")
    if isinstance(notifications, list):
        for one in notifications:
            _notification(recorder, one)
        return True
    update = document.get("update")
    if isinstance(update, dict):
        _notification(recorder, update)
    return True


def _notification(recorder: Recorder, notification: Mapping[str, Any]) -> None:
    prefix = notification.get("prefix")
    elements = _path(prefix)
    target = prefix.get("target") if isinstance(prefix, dict) else ""
    device = recorder.device_of(str(target or ""))
    stamp = as_time(notification.get("timestamp"))
    recorder.deleted += len(notification.get("delete") or ())
    readings = list(_updates(elements, notification.get("update") or ()))
    recorder.readings(device, stamp, _keyed(readings))


def _keyed(readings: list[Reading]) -> list[Reading]:
    """Some devices send a list entry without its key, and the key as a leaf beside the others.

    Only where the notification speaks of one entry: of several, nobody knows whose a leaf is.
    """
    named: dict[str, set[str]] = {}
    for elements, value in readings:
        if len(elements) > 1 and elements[-1].name == "name" and isinstance(value, str):
            for element in elements[:-1][-2:]:
                if not element.keys and element.name not in ("state", "config"):
                    named.setdefault(element.name, set()).add(str(value))
    key = {name: next(iter(values)) for name, values in named.items() if len(values) == 1}
    if not key:
        return readings
    return [
        Reading(
            [
                Element(e.name, {"name": key[e.name]}) if e.name in key and not e.keys else e
                for e in elements
            ],
            value,
        )
        for elements, value in readings
    ]


def _updates(prefix: list[Element], updates: Iterable[Any]) -> Iterable[Reading]:
    for update in updates:
        # A path may begin with a key that belongs to the last element of the prefix.
        elements = _joined(prefix, update.get("path"))
        value = update.get("val", update.get("value"))
        if isinstance(value, dict) and len(value) == 1:
            value = _typed(*next(iter(value.items())))
        yield from gnmic.leaves(elements, value)


def _path(path: Any) -> list[Element]:
    return _joined([], path)


def _joined(prefix: list[Element], path: Any) -> list[Element]:
    elements = list(prefix)
    if isinstance(path, str):
        return elements + gnmi_path.split(path)
    if not isinstance(path, dict):
        return elements
    for part in path.get("elem") or ():
        name, keys = gnmi_path.bare(part.get("name") or ""), part.get("key") or {}
        keys = {gnmi_path.bare(key): str(value) for key, value in keys.items()}
        if name:
            elements.append(Element(name, keys))
        elif elements:
            elements[-1] = Element(elements[-1].name, {**elements[-1].keys, **keys})
    for part in path.get("element") or ():  # deprecated, still sent
        elements.extend(gnmi_path.split(part))
    return elements


def _typed(kind: str, value: Any) -> Any:
    """The value of a protojson TypedValue; unknown kinds as they are."""
    match kind.replace("_", "").lower():
        case "jsonietfval" | "jsonval":
            return _embedded(value)
        case "leaflistval":
            inner = value.get("element") or ()
            return [_typed(*next(iter(entry.items()))) for entry in inner if entry]
        case "decimalval":
            digits, precision = int(value.get("digits") or 0), int(value.get("precision") or 0)
            return digits / 10**precision if 0 < precision <= 18 else digits
        case "uintval" | "intval" | "stringval" | "asciival" | "boolval" | "floatval":
            return value  # integers are texts here, and exact
        case "doubleval" | "bytesval":
            return value
        case _:
            return {kind: value}


def _embedded(value: Any) -> Any:
    """JSON inside protojson: base64 there, plain text or already parsed in other dumps."""
    if not isinstance(value, str):
        return value
    try:
        return loads(base64.b64decode(value, validate=True), lenient=True)
    except (binascii.Error, ValueError):
        return loads(value.encode(), lenient=True)


def _telegraf(recorder: Recorder, metric: Mapping[str, Any]) -> bool:
    """Telegraf's JSON output: fields below the path that its `path` tag (or its name) gives.

    Names have `_` for `-`, keys are tags named without their element.
    """
    tags, fields = metric.get("tags") or {}, metric["fields"]
    if not isinstance(tags, dict) or not isinstance(fields, dict):
        raise TypeError("tags or fields")
    path = gnmi_path.plain(str(tags.get("path") or metric["name"]))
    readings = [(f"{path}/{field}", tags, value) for field, value in fields.items()]
    stamp = as_time(metric.get("timestamp"))
    recorder.values(recorder.event_device(tags), stamp, readings)
    return True
