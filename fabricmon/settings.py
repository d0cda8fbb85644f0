"""The strict base of everything users write, and the small types they write it with."""

from __future__ import annotations

import os
import re
from bisect import insort
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from fabricmon.errors import ConfigError

if TYPE_CHECKING:
    from fabricmon.yamlfile import Document

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?$")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:bps|b/s|bit/s)?$", re.IGNORECASE)


class Settings(BaseModel):
    """Base of every `*Config`: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def parse_duration(text: object) -> float:
    """`10s`, `1m30s`, `250ms` as seconds; plain numbers are seconds already."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    parts = _DURATION.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: write it as 10s, 1m30s or 250ms")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _scaled(pattern: re.Pattern[str], base: int, what: str) -> Any:
    def parse(text: object) -> object:
        if not isinstance(text, str):
            return text
        match = pattern.match(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not {what}")
        power = " KMGT".index(match[2].upper() or " ")
        return int(float(match[1]) * base**power)

    return parse


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(gt=0),
    WithJsonSchema({"type": ["string", "number"], "examples": ["10s", "1m30s", "250ms"]}),
]
"""Seconds, written as `10s` or `1m30s`."""

Size = Annotated[
    int,
    BeforeValidator(_scaled(_SIZE, 1024, "a size such as 64MiB")),
    Field(ge=0),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["64MiB", "10GiB"]}),
]
"""Bytes, written as `64MiB`."""

BitRate = Annotated[
    int,
    BeforeValidator(_scaled(_RATE, 1000, "a rate such as 400G")),
    Field(gt=0),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["400G", "25G"]}),
]
"""Bits per second, written as `400G`."""


_MASK = "<secret>"
_SHORTEST = 4
"""A shorter secret is no secret, and would mask ordinary words."""
_concealed: list[str] = []
"""The longest first: one may be part of another."""


def conceal(text: str) -> None:
    """Mask `text`, and each longer word of it, from now on: a secret, or what was made of one."""
    for part in (text, *text.split()):
        if len(part) >= _SHORTEST and part not in _concealed:
            insort(_concealed, part, key=lambda known: -len(known))


def masked(text: str) -> str:
    """`text` without any secret that was revealed. Mask before cutting: parts are not found."""
    for secret in _concealed:
        text = text.replace(secret, _MASK)
    return text


class Secret(Settings):
    """A secret kept outside the config: in a file, or in an environment variable.

    It never prints: `repr`, `str` and JSON show only where it comes from. Once revealed it is
    concealed: what the far end repeats of it is `masked`.
    """

    file: Path | None = None
    env: str | None = None

    def model_post_init(self, _context: Any, /) -> None:
        """Refuse a secret with no source, or with two."""
        if (self.file is None) == (self.env is None):
            raise ValueError("give either `file` or `env`: secrets are not written in the config")

    def reveal(self) -> str:
        """Read the secret now, so that a renewed file is used at the next connect."""
        text = self._read()
        conceal(text)
        return text

    def _read(self) -> str:
        if self.file is not None:
            try:
                return self.file.read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError("the secret cannot be read", file=str(self.file)) from error
        value = os.environ.get(self.env or "")
        if value is None:
            raise ConfigError(f"the environment variable {self.env} is not set")
        return value


class NatsAccess(Settings):
    """Base of configs of what talks to NATS: where the servers are, and how they let us in."""

    servers: Annotated[list[str], Field(min_length=1)] = ["nats://127.0.0.1:4222"]
    credentials_file: Path | None = None
    username: str = ""
    password: Secret | None = None
    ca_file: Path | None = None

    def access(self) -> dict[str, Any]:
        """Credentials and TLS for `nats.connect`, read now. Raises `ConfigError`, `OSError`."""
        options: dict[str, Any] = {}
        if self.credentials_file is not None:
            options["user_credentials"] = str(self.credentials_file)
        if self.password is not None:
            options.update(user=self.username, password=self.password.reveal())
        if self.ca_file is not None:
            import ssl  # noqa: PLC0415 - only where it is asked for

            options["tls"] = ssl.create_default_context(cafile=self.ca_file)
        return options


_S = TypeVar("_S", bound=BaseModel)


def validate(
    model: type[_S], document: Document, data: Any = None, at: tuple[str | int, ...] = ()
) -> _S:
    """Build `model` from `document` (or from its part `data`, which stands at path `at`).

    Raises `ConfigError` for the first thing that is wrong, naming file, line, key and what is
    allowed there.
    """
    try:
        return model.model_validate(document.data if data is None and not at else data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=True)[0]
        path = _written_path(document, at, first["loc"], missing=first["type"] == "missing")
        raise document.error(_explain(first, model), path) from error


def _written_path(
    document: Document,
    at: tuple[str | int, ...],
    loc: tuple[str | int, ...],
    *,
    missing: bool,
) -> tuple[str | int, ...]:
    """The path users wrote, without pydantic's own steps (union tags); plus a missing last key."""
    path = at
    for i, part in enumerate(loc):
        if (*path, part) in document.lines or (missing and i == len(loc) - 1):
            path = (*path, part)
    return path


def _explain(first: Any, model: type[BaseModel]) -> str:
    match first["type"]:
        case "extra_forbidden":
            allowed = ", ".join(sorted(_fields_at(model, first["loc"][:-1])))
            return "unknown key" + (f"; allowed here: {allowed}" if allowed else "")
        case "missing":
            return "this key is required"
        case "enum" | "literal_error":
            return f"{first['input']!r} is not allowed; use {first['ctx']['expected']}"
        case _:
            message = str(first["msg"]).removeprefix("Value error, ")
            return message[:1].lower() + message[1:]


def _fields_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """Field names of the model that stands at `loc` inside `model`, as users write them."""
    current: Any = model
    for part in loc:
        if isinstance(part, int):
            continue
        fields = getattr(current, "model_fields", {})
        if part not in fields:
            return []
        current = _model_in(fields[part].annotation)
    return [f.alias or name for name, f in getattr(current, "model_fields", {}).items()]


def _model_in(annotation: Any) -> Any:
    """The first pydantic model inside an annotation such as `list[X] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
