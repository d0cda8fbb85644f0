"""Plain bytes of gzip and zstd streams, found by their magic, with limits against bombs.

The caller opens the file; here a stream goes in and a stream comes out. Nothing is inflated beyond
what is read, so memory stays bounded; a stream that inflates absurdly is cut with a `FormatError`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.formats.base import Bad

HEAD_BYTES = 4096
"""How much of a file's beginning is looked at to tell what it is."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAX_RATIO = 400  # deflate ends at 1,032; two weeks of idle counters as text stay below 200
_FREE_BYTES = 32 << 20  # no ratio is judged before this much came out
_MAX_BYTES = 256 << 30


class _Counted(io.RawIOBase):
    """A stream that knows how much of it was read."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type] # a buffer by contract of RawIOBase
        data = self._raw.read(len(view))
        view[: len(data)] = data
        self.count += len(data)
        return len(data)


class _Inflated(io.RawIOBase):
    """The plain side of a compressed stream; judges how much comes out of how little."""

    def __init__(
        self,
        read: Callable[[int], bytes],
        damage: tuple[type[Exception], ...],
        packed: _Counted,
        name: str,
    ) -> None:
        self._read, self._damage, self._packed, self._name = read, damage, packed, name
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type] # a buffer by contract of RawIOBase
        try:
            data = self._read(len(view))
        except self._damage as error:
            raise FormatError(
                f"the compressed data is damaged: {error}", file=self._name
            ) from error
        view[: len(data)] = data
        self._count += len(data)
        if self._count > _MAX_BYTES or (
            self._count > _FREE_BYTES and self._count > _MAX_RATIO * max(self._packed.count, 1)
        ):
            raise FormatError(
                f"refused: {self._packed.count} bytes inflate to more than {self._count}",
                file=self._name,
            )
        return len(data)


def plain(raw: BinaryIO, name: str) -> io.BufferedReader:
    """What `raw` holds, inflated where it is gzip or zstd. `name` is for errors.

    Reading raises `FormatError` where the compressed data is damaged or inflates absurdly.
    """
    buffered = (
        raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
    )
    magic = buffered.peek(4)[:4]
    damage: tuple[Any, ...]
    if magic[:2] == _GZIP:
        from isal import igzip, igzip_lib  # noqa: PLC0415 - a C library plain files do not need

        packed = _Counted(buffered)
        source = cast("BinaryIO", io.BufferedReader(packed, 1 << 16))
        inflated: Any = igzip.GzipFile(fileobj=source)  # type: ignore[no-untyped-call] # isal's stubs
        isal_error: Any = igzip_lib.IsalError  # typed as an instance in isal's stubs
        damage = (OSError, EOFError, ValueError, isal_error)
    elif magic == _ZSTD:
        import pyarrow as pa  # noqa: PLC0415 - 50 MB that plain files do not need

        packed = _Counted(buffered)
        inflated = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")
        damage = (OSError, pa.ArrowException)
    else:
        return buffered
    return io.BufferedReader(_Inflated(inflated.read, damage, packed, name), 1 << 18)


def head(stream: io.BufferedReader) -> bytes:
    """The first `HEAD_BYTES` of a plain stream, without a byte-order mark; nothing is consumed."""
    return stream.peek(HEAD_BYTES)[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf")


def lines(
    stream: io.BufferedReader, name: str, bad: Bad, limit: int = 1 << 16
) -> Iterator[tuple[int, bytes]]:
    """Numbered lines (1-based) without their ends; one longer than `limit` is skipped and told."""
    number = 0
    while line := stream.readline(limit + 2):
        number += 1
        if len(line) > limit and not line.endswith(b"\n"):
            while (rest := stream.readline(limit)) and not rest.endswith(b"\n"):
                pass
            bad(BadRecord(name, number, f"a line longer than {limit} bytes"))
            continue
        yield number, line.rstrip(b"\r\n")
