"""formats/compressed: gzip and zstd by their magic, with limits."""

from __future__ import annotations

import gzip
import io
import os
from itertools import count
from typing import TYPE_CHECKING

import cramjam
import pytest

from fabricmon.errors import FormatError
from fabricmon.formats.compressed import head, lines, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.formats.base import BadRecord

TEXT = b"".join(b"line %d\n" % i for i in range(50_000))


def zstd(data: bytes) -> bytes:
    """One zstd frame."""
    return bytes(cramjam.zstd.compress(data))


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, zstd, lambda d: gzip.compress(d[:9]) + gzip.compress(d[9:])]
)
def test_every_packing_gives_the_same_bytes(pack: Callable[[bytes], bytes]) -> None:
    """Plain, gzip, zstd and two gzip members in a row read as the text they hold."""
    stream = plain(io.BytesIO(pack(TEXT)), "x")
    assert head(stream)[:7] == b"line 0\n"
    assert stream.read() == TEXT


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_bomb_is_cut_short(pack: Callable[[bytes], bytes]) -> None:
    """A stream that inflates to hundreds of times its size is refused long before its end."""
    stream = plain(io.BytesIO(pack(bytes(100 << 20))), "bomb.gz")
    read = count(1)
    with pytest.raises(FormatError, match=r"bomb.gz: refused"):
        all(stream.read(1 << 20) for _ in read)
    assert next(read) < 90


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_damage_is_one_clear_error(pack: Callable[[bytes], bytes]) -> None:
    """A cut or garbled stream raises `FormatError` that names the file."""
    packed = pack(os.urandom(200_000))
    with pytest.raises(FormatError, match=r"x: the compressed data is damaged"):
        plain(io.BytesIO(packed[: len(packed) // 2]), "x").read()


def test_a_line_without_end_costs_only_itself() -> None:
    """A line above the limit is skipped and told; its neighbours are read with their numbers."""
    told: list[BadRecord] = []
    stream = plain(io.BytesIO(b"a\r\n" + b"x" * 500_000 + b"\nb"), "f")
    assert list(lines(stream, "f", told.append)) == [(1, b"a"), (3, b"b")]
    assert [(bad.file, bad.line) for bad in told] == [("f", 2)]
