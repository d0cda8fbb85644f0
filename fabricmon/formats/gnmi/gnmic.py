"""What gnmic writes, parsed: `event` objects and `json` messages, in both directions.

`line_forms` reads the lines of a kind that was seen before without parsing them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_path import Element
from fabricmon.formats.gnmi.gnmi_record import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fabricmon.formats.gnmi.gnmi_record import Recorder


def take_event(recorder: Recorder, event: Any) -> bool:
    """Take one event, whatever its values are; False where it is none."""
    if not isinstance(event, dict) or not (event.keys() & {"tags", "values", "deletes"}):
        return False
    tags, values = event.get("tags") or {}, event.get("values") or {}
    if not isinstance(tags, dict) or not isinstance(values, dict):
        return False
    try:
        time_ns = as_time(event.get("timestamp"))
    except (ValueError, TypeError, OverflowError):
        return False
    recorder.deleted += len(event.get("deletes") or ())
    recorder.values(recorder.event_device(tags), time_ns, event_readings(tags, values))
    return True


def as_time(stamp: object) -> int:
    """A time as an integer, however it was written; 0 for none. Raises `ValueError` or `TypeError`.

    Processors make floats and texts of what gnmic writes as an integer. Floats of seconds keep
    their fraction, as nanoseconds.
    """
    if stamp is None or stamp == "":
        return 0
    if isinstance(stamp, bool) or not isinstance(stamp, int | float | str):
        raise TypeError(f"{stamp!r} is no time")
    if isinstance(stamp, float):
        number = int(stamp * 1e9) if abs(stamp) < 1e11 else int(stamp)
    else:
        number = int(stamp)
    if abs(number) >= 1 << 63:
        raise ValueError(f"{stamp!r} is no time")
    return number


def event_readings(
    tags: Mapping[str, str], values: Mapping[str, Any]
) -> Iterable[tuple[str, Mapping[str, str], object]]:
    """Plain path, keys and value of each value of an event.

    gnmic flattens lists to `/interface.0/name`, `/interface.0/mtu`: siblings get their key leaf.
    """
    indexed: dict[str, dict[str, str]] = {}
    for written, value in values.items():
        stem, _, leaf = gnmi_path.plain(written).rpartition("/")
        if "." in stem and isinstance(value, str):
            indexed.setdefault(stem, {})[leaf] = str(value)
    for written, value in values.items():
        path = gnmi_path.plain(written)
        if "." in path:
            yield (*_unflattened(path, indexed, tags), value)
        elif isinstance(value, dict | list):
            elements = gnmi_path.split(path)
            for inner, leaf_value in leaves(elements, value):
                joined_path, keys = gnmi_path.join(inner)
                yield joined_path, {**tags, **keys}, leaf_value
        else:
            yield path, tags, value


def _unflattened(
    written: str, indexed: Mapping[str, Mapping[str, str]], tags: Mapping[str, str]
) -> tuple[str, Mapping[str, str]]:
    """`/interface.1/x` with the leaf `/interface.1/name` is `/interface/x` of that name."""
    path, so_far, keys = "", "", dict(tags)
    for part in written.split("/")[1:]:
        so_far = f"{so_far}/{part}"
        name, dot, index = part.rpartition(".")
        if dot and index.isdigit():
            path = f"{path}/{name}"
            for key in [key for key in keys if key.startswith(f"{name}_")]:
                del keys[key]  # a tag cannot speak for several entries of one list
            keys.update({f"{name}_{leaf}": text for leaf, text in indexed.get(so_far, {}).items()})
        else:
            path = f"{path}/{part}"
    return path, keys


def message_readings(message: Mapping[str, Any]) -> Iterable[Reading]:
    """The readings of one gnmic `json` message; subtrees are walked down to their leaves."""
    prefix = gnmi_path.split(message.get("prefix") or "")
    for update in message.get("updates") or ():
        elements = prefix + gnmi_path.split(update.get("Path") or "")
        values = update.get("values")
        if not isinstance(values, dict):
            continue
        for value in values.values():
            yield from leaves(elements, value)


KEY_LEAVES = frozenset(
    ("name", "id", "index", "interface-id", "priority", "queue-id", "queue-number", "port-id")
)
"""Leaves that tell the entries of a list apart."""


def leaves(elements: list[Element], value: object, depth: int = 0) -> Iterable[Reading]:
    """The leaves of a JSON subtree below a path. List entries are told apart by their key leaf."""
    if depth > 48:
        return
    if isinstance(value, dict) and not _is_scalar(value):
        for name, inner in value.items():
            plain_name = gnmi_path.bare(name)
            if isinstance(inner, list) and inner and isinstance(inner[0], dict):
                for entry in inner:
                    if isinstance(entry, dict):
                        yield from leaves([*elements, _entry(plain_name, entry)], entry, depth + 1)
            else:
                yield from leaves([*elements, Element(plain_name, {})], inner, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and elements:
        for entry in value:
            if isinstance(entry, dict):
                last = _entry(elements[-1].name, entry)
                yield from leaves([*elements[:-1], last], entry, depth + 1)
    else:
        yield Reading(elements, decimal(value))


def _is_scalar(value: Mapping[str, Any]) -> bool:
    """A decimal64 as gnmic's json writes it."""
    return value.keys() == {"digits", "precision"}


def _entry(name: str, entry: Mapping[str, Any]) -> Element:
    keys = {}
    for key, value in entry.items():
        key_name = gnmi_path.bare(key)
        if key_name in KEY_LEAVES and isinstance(value, str | int):
            keys[key_name] = str(value)
    return Element(name, keys)


def decimal(value: object) -> object:
    """The number behind gnmic's `{"digits":1234,"precision":2}`; other values as they are."""
    if isinstance(value, dict) and _is_scalar(value):
        digits, precision = value["digits"], value["precision"]
        if isinstance(digits, int) and isinstance(precision, int) and 0 <= precision <= 18:
            return digits / 10**precision if precision else digits
    return value


def write_event(
    name: str,
    time_ns: int,
    tags: Mapping[str, str],
    values: Mapping[str, object],
) -> dict[str, object]:
    """One event as gnmic's `event` format holds it; an array of them is one record."""
    return {"name": name, "timestamp": time_ns, "tags": dict(tags), "values": dict(values)}


def write_message(
    source: str, name: str, time_ns: int, prefix: str, values: Mapping[str, object]
) -> dict[str, object]:
    """One message of gnmic's `json` format; `values` by path below `prefix`, keys in brackets."""
    return {
        "source": source,
        "subscription-name": name,
        "timestamp": time_ns,
        "prefix": prefix,
        "updates": [
            {"Path": path, "values": {gnmi_path.plain(path)[1:]: value}}
            for path, value in values.items()
        ],
    }
