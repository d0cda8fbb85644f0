"""Protobuf's text form, with `{ }` or the older `< >`, into plain dictionaries.

The spacing of this form changes on purpose between versions, so it is read by tokens. It is slow
and meant for people; gnmic and SONiC's tools print it.
"""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<word>-?[\w.]+)\s*:?|(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<open>[{<])|(?P<close>[}>])"
    r"|[\[\],;:])"
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_SINGLE = {"n": "\n", "r": "\r", "t": "\t"}
_MAX_DEPTH = 48


def unquote(text: str) -> str:
    """The text inside a quoted string; octal escapes are bytes of UTF-8."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 8) & 0xFF)
        if found[2]:
            return chr(int(found[2], 16))
        return _SINGLE.get(found[3], found[3])

    raw = _ESCAPE.sub(one, text[1:-1])
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return raw


def parse(text: str) -> dict[str, list[Any]]:
    """Fields by name; every value is a list, since the form does not tell what repeats.

    Raises `ValueError` where the text is no such message.
    """
    stack: list[dict[str, list[Any]]] = [{}]
    name, at = "", 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"not prototext at {text[at : at + 20]!r}")
        at = found.end()
        name = _token(stack, name, found)
    if len(stack) != 1:
        raise ValueError("ends inside a message")
    return stack[0]


def _token(stack: list[dict[str, list[Any]]], name: str, found: re.Match[str]) -> str:
    """Take one token; the name of the field whose value is still to come."""
    if found["open"]:
        if len(stack) > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        inner: dict[str, list[Any]] = {}
        stack[-1].setdefault(name, []).append(inner)
        stack.append(inner)
    elif found["close"]:
        if len(stack) == 1:
            raise ValueError("closes what was not opened")
        stack.pop()
    elif found["string"]:
        stack[-1].setdefault(name, []).append(unquote(found["string"]))
    elif found["word"]:
        word: str = found["word"]
        if not name or found[0].rstrip().endswith(":"):
            return word
        stack[-1].setdefault(name, []).append(word)
    return ""


def depth(text: str) -> int:
    """Messages opened and not closed in one line; strings do not count."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    opened = bare.count("{") + bare.count("<")
    return opened - bare.count("}") - bare.count(">")


def as_protojson(message: dict[str, list[Any]]) -> dict[str, Any]:
    """A parsed Notification in the shape protojson has, which is read further."""
    note: dict[str, Any] = {"timestamp": int(_one(message, "timestamp") or 0)}
    prefix = _one(message, "prefix")
    if isinstance(prefix, dict):
        note["prefix"] = _path(prefix)
    note["update"] = [
        {"path": _path(_one(update, "path") or {}), "val": _value(_one(update, "val"))}
        for update in message.get("update", ())
        if isinstance(update, dict)
    ]
    note["delete"] = list(message.get("delete", ()))
    return note


def _one(message: dict[str, list[Any]], name: str) -> Any:
    values = message.get(name)
    return values[-1] if values else None


def _path(path: dict[str, list[Any]]) -> dict[str, Any]:
    elem = []
    for part in path.get("elem", ()):
        if isinstance(part, dict):
            keys = {
                str(_one(key, "key")): str(_one(key, "value"))
                for key in part.get("key", ())
                if isinstance(key, dict)
            }
            elem.append({"name": str(_one(part, "name") or ""), "key": keys})
    element = [str(part) for part in path.get("element", ())]
    return {"elem": elem, "element": element, "target": str(_one(path, "target") or "")}


def _value(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return None
    kind = next(iter(value))
    inner = _one(value, kind)
    if kind in ("uint_val", "int_val"):
        return {kind: str(inner)}
    if kind in ("float_val", "double_val"):
        return {kind: float(inner)}
    if isinstance(inner, dict):
        inner = {name: values[-1] for name, values in inner.items()}
    return {kind: inner}
