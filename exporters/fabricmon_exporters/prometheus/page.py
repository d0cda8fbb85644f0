"""Blocks of text to one page, plain and gzipped, without compressing a large block twice.

Each large block is deflated on its own and ended on a byte boundary (sync flush), so that a gzip
member can be put together from parts that are already compressed: only its small parts and its
checksum are new.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from fabricmon.api import Page

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_LARGE = 1 << 14
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_END = b"\x03\x00"
"""An empty last deflate block."""

try:
    from isal import isal_zlib as _fast

    _codec: Any = _fast
except ImportError:  # platforms without igzip
    _codec = zlib


def deflate(text: bytes) -> bytes:
    """Raw deflate that ends on a byte boundary and may be followed by more."""
    stream = _codec.compressobj(1, zlib.DEFLATED, -15)
    packed: bytes = stream.compress(text) + stream.flush(zlib.Z_SYNC_FLUSH)
    return packed


class Piece:
    """A part of a page. A large one is deflated once, when first asked."""

    __slots__ = ("_packed", "text")

    def __init__(self, text: bytes) -> None:
        """Nothing is compressed yet."""
        self.text = text
        self._packed: bytes | None = None

    @property
    def large(self) -> bool:
        """Worth its own deflate stream."""
        return len(self.text) >= _LARGE

    def packed(self) -> bytes:
        """Deflated."""
        if self._packed is None:
            self._packed = deflate(self.text)
        return self._packed


def header(name: str, type_: str, help_: str, *, openmetrics: bool) -> bytes:
    """HELP and TYPE lines. OpenMetrics names a counter without its `_total`."""
    if openmetrics and type_ == "counter":
        name = name.removesuffix("_total")
    text = help_.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        text = text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {type_}\n".encode()


def assemble(pieces: Iterable[Piece], *, openmetrics: bool) -> Page:
    """One page of all pieces, in order."""
    parts = list(pieces)
    packed, crc = [_GZIP_HEADER], 0
    small: list[bytes] = []
    for piece in parts:
        crc = _codec.crc32(piece.text, crc)
        if piece.large:
            packed += [deflate(b"".join(small)), piece.packed()] if small else [piece.packed()]
            small = []
        else:
            small.append(piece.text)
    packed.append(deflate(b"".join(small)))
    size = sum(len(piece.text) for piece in parts)
    packed += [_END, struct.pack("<LL", crc, size & 0xFFFFFFFF)]
    body = b"".join(piece.text for piece in parts)
    return Page(body, OPENMETRICS if openmetrics else TEXT, b"".join(packed))
