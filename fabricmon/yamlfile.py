"""The one YAML reader: YAML 1.2, with the line of every key, and without aliases.

`load` gives a `Document`: plain Python data plus the line each value stands on, so that an error
found later (by a model, a mapping, a scenario) can name its place. Aliases and anchors are refused:
they are how small files become huge ones.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fabricmon.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_MAX_BYTES = 16 << 20
_MAX_NODES = 500_000
_MAX_DEPTH = 64

# YAML 1.2 core schema; ruamel's own resolver still carries 1.1 habits such as sexagesimals.
_INT = re.compile(r"[-+]?[0-9]+$")
_HEX = re.compile(r"0x[0-9a-fA-F]+$")
_OCT = re.compile(r"0o[0-7]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_CONSTANTS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    ".inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data and where each value was written."""

    file: str
    data: Any
    lines: dict[tuple[str | int, ...], int] = field(repr=False)

    def line(self, path: tuple[str | int, ...]) -> int:
        """The line of `path`, or of its nearest parent that was written (1-based)."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def error(self, message: str, path: tuple[str | int, ...] = ()) -> ConfigError:
        """An error that points at `path` in this file."""
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        key = key.removeprefix(".")
        return ConfigError(message, file=self.file, line=self.line(path), key=key)


def load(path: Path) -> Document:
    """Read one file. Raises `ConfigError` naming file and line."""
    return loads(text_of(path), file=str(path))


def text_of(path: Path) -> str:
    """What is in a file that is not too large. Raises `ConfigError` naming it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(error.strerror or str(error), file=str(path)) from error
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"larger than {_MAX_BYTES >> 20} MiB", file=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 (byte {error.start})", file=str(path)) from error


def loads(text: str, *, file: str = "<text>") -> Document:
    """Read one document from `text`; `file` is the name used in errors."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - 60 ms that `--help` must not pay
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    try:
        node = YAML(typ="safe", pure=True).compose(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise ConfigError(error.problem or "not YAML", file=file, line=line) from error
    except (YAMLError, ValueError) as error:
        raise ConfigError(f"not YAML: {error}", file=file) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file) from error
    reader = _Reader(file)
    data = reader.read(node, ()) if node is not None else None
    return Document(file, data, reader.lines)


class _Reader:
    """Turns ruamel's node tree into data and remembers lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[tuple[str | int, ...], int] = {}
        self._seen: set[int] = set()

    def read(self, node: Any, path: tuple[str | int, ...]) -> Any:
        line = node.start_mark.line + 1
        if id(node) in self._seen or node.anchor:
            raise ConfigError("anchors and aliases are not allowed", file=self.file, line=line)
        self._seen.add(id(node))
        if len(self._seen) > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise ConfigError("too large or too deep", file=self.file, line=line)
        self.lines.setdefault(path, line)
        match node.id:
            case "mapping":
                return self._mapping(node, path)
            case "sequence":
                return [self.read(child, (*path, i)) for i, child in enumerate(node.value)]
            case _:
                return self._scalar(node, line)

    def _mapping(self, node: Any, path: tuple[str | int, ...]) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                raise ConfigError("a key must be a plain word", file=self.file, line=line)
            key = self._scalar(key_node, line)
            if key in out:
                raise ConfigError(f"{key!r} is given twice", file=self.file, line=line)
            place = key if isinstance(key, str | int) else str(key)
            self.lines[*path, place] = line
            out[key] = self.read(value_node, (*path, place))
        return out

    def _scalar(self, node: Any, line: int) -> object:
        text: str = node.value
        tag = str(node.tag or "")
        if tag.endswith(":str"):
            return text
        if tag.startswith("!"):
            raise ConfigError(f"unknown tag {tag}", file=self.file, line=line)
        return self._plain(text)

    @staticmethod
    def _plain(text: str) -> object:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.match(text) and len(text) <= 40:
            return int(text)
        if _HEX.match(text) or _OCT.match(text):
            return int(text, 0)
        if _FLOAT.match(text):
            return float(text)
        return text
