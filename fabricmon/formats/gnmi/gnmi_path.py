"""gNMI paths as text: elements, their keys, and the plain form that mappings speak.

A plain path has no keys, no origin and no module prefixes: `/interfaces/interface/state/counters`.
Keys are named after their element, as gnmic names its tags: `interface_name`, `queue_name`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MODULE = re.compile(r"(?<![^/])[^/:\[\]]+:(?=[A-Za-z_])")
_ORIGIN = re.compile(r"^[^/:\[\]]*:(?=/)")
_MAX_DEPTH = 64


class Element(NamedTuple):
    """One step of a path."""

    name: str
    keys: Mapping[str, str]


def split(path: str) -> list[Element]:
    """The elements of a path; brackets protect slashes, backslashes protect brackets.

    `interfaces/interface[name=eth1/2:3=4 x]/state` has three elements. A key without a name
    (Juniper sends such) belongs to the element before it.
    """
    elements: list[Element] = []
    for part in _parts(_ORIGIN.sub("", path)):
        name, keys = _element(part)
        name = bare(name)
        if not name and elements and keys:
            elements[-1] = Element(elements[-1].name, {**elements[-1].keys, **keys})
        elif name:
            elements.append(Element(name, keys))
        if len(elements) > _MAX_DEPTH:
            raise ValueError(f"a path of more than {_MAX_DEPTH} elements")
    return elements


def _parts(path: str) -> Iterable[str]:
    start, depth, escaped = 0, 0, False
    for i, char in enumerate(path):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "[":
            depth += 1
        elif char == "]":
            depth = max(0, depth - 1)
        elif char == "/" and depth == 0:
            yield path[start:i]
            start = i + 1
    yield path[start:]


_KEY = re.compile(r"\[([^=\]]+)=((?:\\.|[^\\\]])*)\]")


def _element(part: str) -> tuple[str, dict[str, str]]:
    name, bracket, _ = part.partition("[")
    if not bracket:
        return part, {}
    found = _KEY.findall(part)
    return name, {bare(key): re.sub(r"\\(.)", r"\1", value) for key, value in found}


def bare(name: str) -> str:
    """An element's name without its module: `openconfig-interfaces:in-octets` is `in-octets`.

    Names begin with a letter: what follows the colon of `Ethernet68:3` is none.
    """
    rest = name.rpartition(":")[2]
    return rest if rest[:1].isalpha() or rest[:1] == "_" else name


def plain(path: str) -> str:
    """The plain form of a path that has no keys in it (gnmic events, JSON leaves)."""
    if "[" in path:
        return join(split(path))[0]
    path = _ORIGIN.sub("", path)
    if ":" in path:
        path = _MODULE.sub("", path)
    return path if path.startswith("/") else f"/{path}"


def join(elements: Iterable[Element]) -> tuple[str, dict[str, str]]:
    """Plain path and keys by tag name. Two elements of one name keep both, by their whole path."""
    path, keys = "", {}
    for name, own in elements:
        path = f"{path}/{name}"
        for key, value in own.items():
            tag = f"{name}_{key}"
            keys[tag if tag not in keys else f"{path}_{key}"] = value
    return path, keys


def text(elements: Iterable[Element]) -> str:
    """The path as gnmic prints it, keys in brackets."""
    return "/".join(
        name + "".join(f"[{key}={_escaped(value)}]" for key, value in sorted(keys.items()))
        for name, keys in elements
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("]", "\\]")


def native(elements: Sequence[Element], value: object) -> tuple[str, dict[str, str], object]:
    """Arista's native `/Smash/…/counter/INTERFACE/…`: the interface becomes a key.

    The chip's name stands in the middle of these paths; it is left out.
    """
    names = [name for name, _ in elements]
    if "counter" in names[:-2]:
        at = names.index("counter")
        path = f"/{names[0]}/counter/{'/'.join(names[at + 2 :])}"
        return path, {"counter_name": names[at + 1]}, value
    return f"/{'/'.join(names)}", {}, value


def host(address: str) -> str:
    """The device of an address: `leaf1:57400` is `leaf1`, `[2001:db8::1]:57400` is the address."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    name, colon, port = address.rpartition(":")
    return name if colon and port.isdigit() and ":" not in name and name else address
