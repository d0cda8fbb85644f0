"""`/sys/class/infiniband` as files: one port's counters, state and rate.

The caller reads (or unpacks) the files; here a path below the class folder and its text become a
field of a port.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATH = re.compile(
    r"(?:^|/)(?P<hca>[\w.-]+)/ports/(?P<port>\d+)/"
    r"(?P<field>counters/\w+|hw_counters/\w+|state|phys_state|rate|link_layer)$"
)
_RATE = re.compile(r"([\d.]+) Gb/sec")
_MAX_TEXT = 256


class PortFiles(NamedTuple):
    """One port: `mlx5_0`, `1`, and what its files say by field."""

    hca: str
    port: str
    fields: dict[str, str]

    @property
    def name(self) -> str:
        """The port's name in the model."""
        return f"{self.hca}/{self.port}"

    @property
    def infiniband(self) -> bool:
        """Whether the link layer is InfiniBand; Ethernet otherwise."""
        return self.fields.get("port/link_layer", "InfiniBand") != "Ethernet"


def ports(files: Iterable[tuple[str, str]]) -> list[PortFiles]:
    """The ports of a tree, from paths and texts; what is no field of a port is left out."""
    found: dict[tuple[str, str], PortFiles] = {}
    for path, text in files:
        match = _PATH.search(path)
        if match is None or len(text) > _MAX_TEXT or not text.strip():
            continue
        key = (match["hca"], match["port"])
        entry = found.setdefault(key, PortFiles(*key, {}))
        field = match["field"]
        if "/" not in field:
            field = f"port/{field}"
        if field.endswith("/lifespan"):
            continue
        entry.fields[field] = text.strip()
    for entry in found.values():
        _plain_levels(entry.fields)
    return [found[key] for key in sorted(found)]


def _plain_levels(fields: dict[str, str]) -> None:
    """`4: ACTIVE` and `400 Gb/sec (4X NDR)` as plain words and numbers."""
    if "port/state" in fields:
        fields["port/state"] = fields["port/state"].rpartition(": ")[2]
    rate = _RATE.match(fields.get("port/rate", ""))
    fields.pop("port/rate", None)
    fields.pop("port/phys_state", None)
    if rate is not None:
        fields["port/rate"] = str(round(float(rate[1]) * 1e9))


def sniff(path: str) -> bool:
    """Whether a path is a port's file of such a tree."""
    return _PATH.search(path) is not None
