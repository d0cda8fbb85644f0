"""How levels are written, and what they are in catalogue units.

Counts need none of this. A level may be a number, a word for a state, a speed in a vendor's
notation, or a float32 packed in base64.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Read: TypeAlias = Literal["number", "state", "speed", "float32", "milliwatt", "port_state"]
Reader: TypeAlias = "Callable[[object], float | None]"

_UP = frozenset({"up", "enable", "enabled", "true", "1", "lower_layer_up", "active", "linkup"})
_DOWN = frozenset(
    {"down", "disable", "disabled", "false", "0", "lower_layer_down", "not_present", "dormant"}
    | {"testing", "unknown", "init", "polling", "linkdown", "armed", "sleep"}
)
_SPEED = re.compile(r"(?:speed_)?([\d.]+)\s*(k|m|g|t)?(?:b|bps|b/s|bit/s)?$", re.IGNORECASE)
_POWERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_NUMBER = re.compile(r"\s*([-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?)")


def number(value: object) -> float | None:
    """A number, or the number that a text begins with (`-2.31 dBm`); None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        level = float(value) if abs(value) < 1e300 else math.nan
    elif isinstance(value, str) and (found := _NUMBER.match(value)) and len(value) < 64:
        level = float(found[1].replace(",", ""))
    elif isinstance(value, dict) and isinstance(value.get("instant"), int | float | str):
        return number(value["instant"])
    else:
        return None
    return level if math.isfinite(level) else None


def state(value: object) -> float | None:
    """1 for up, 0 for down; None for a word that says neither."""
    word = str(value).strip().lower().rpartition(":")[2].replace("-", "_").replace(" ", "_")
    word = word.removeprefix("if_oper_state_").removeprefix("im_state_")
    if word in _UP:
        return 1.0
    return 0.0 if word in _DOWN else None


def speed(value: object) -> float | None:
    """Bits per second from `SPEED_400GB`, `400G`, or a plain number."""
    if isinstance(value, str):
        found = _SPEED.match(value.strip().rpartition(":")[2])
        if found is None or found[1].count(".") > 1 or found[1] == ".":
            return None
        return float(found[1]) * _POWERS[(found[2] or "").lower()]
    return number(value)


def float32(value: object) -> float | None:
    """An IEEE-754 float32 in base64, as JSON writes bytes; plain numbers as they are."""
    if not isinstance(value, str | bytes):
        return number(value)
    try:
        packed = base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return None
    return float(struct.unpack(">f", packed)[0]) if len(packed) == 4 else None


def milliwatt(value: object) -> float | None:
    """DBm of a power in milliwatts; None for no light at all."""
    power = number(value)
    return 10.0 * math.log10(power) if power is not None and power > 0 else None


def port_state(value: object) -> float | None:
    """1 where an InfiniBand port state number says active (4), 0 for the others."""
    level = number(value)
    return None if level is None else float(level == 4)


_PLAIN: dict[str, Reader] = {
    "port_state": port_state,
    "number": number,
    "state": state,
    "speed": speed,
    "float32": float32,
    "milliwatt": milliwatt,
}


@cache
def _scaled(read: str, factor: float) -> Reader:
    plain = _PLAIN[read]
    if factor == 1.0:
        return plain

    def reader(value: object) -> float | None:
        level = plain(value)
        return None if level is None else level * factor

    return reader


READERS: dict[str, Callable[[float], Reader]] = {
    name: (lambda factor, name=name: _scaled(name, factor))  # type: ignore[misc]
    for name in _PLAIN
}
"""By the `read` of a row: given its factor, the function that reads a value."""
