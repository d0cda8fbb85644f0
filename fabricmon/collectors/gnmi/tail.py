"""Follows files that grow, rotate, are truncated or replaced; hands over what is new, in order.

A path may be a file, a directory (all files in it), or a glob. A file is known by its inode and its
first bytes, so that a rename is no new file and a rewritten one is.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fabricmon.formats.compressed import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 20
_HEAD = 128
_MAX_FILES = 4096
_PATIENCE = 30
"""Looks without news after which a file that was moved away is let go: its writer may not know."""


@dataclass(slots=True)
class Followed:
    """One open file."""

    path: str
    stream: BinaryIO
    identity: tuple[int, int]
    raw: BinaryIO
    """What is to be closed: `stream` may inflate it."""
    offset: int = 0
    head: bytes = b""
    packed: bool = False
    """Compressed: read once, to its end."""
    seen: bool = True
    """Whether the path still leads here."""
    idle: int = 0
    """Looks in a row without news."""
    skipped_bytes: int = 0
    """What was left out at the start, since the file was longer than the backlog."""


@dataclass(frozen=True, slots=True)
class News:
    """Bytes that came to a file since the last look."""

    file: Followed
    data: bytes = b""
    ended: bool = False
    """Nothing more will come: the file was replaced, removed, or is compressed and read."""


@dataclass(slots=True)
class Tail:
    """Everything behind one address."""

    address: str
    backlog: int = 64 << 20
    """Bytes at the end of an existing file that are read at the start."""
    _files: dict[tuple[int, int], Followed] = field(default_factory=dict)
    _replaced: list[Followed] = field(default_factory=list)
    _started: bool = False

    def read(self, limit: int) -> Iterator[News]:
        """What is new, at most about `limit` bytes; the rest waits for the next call.

        Raises `FileNotFoundError` where the address leads nowhere and nothing is open, and other
        `OSError`s of files that may not be read.
        """
        self._look()
        while self._replaced:
            yield News(self._replaced.pop(), ended=True)
        left = limit
        for file in list(self._files.values()):
            file.idle += 1
            for data in self._blocks(file, left):
                file.idle = 0
                left -= len(data)
                yield News(file, data)
            if left <= 0:
                break
            if file.packed or (not file.seen and file.idle >= _PATIENCE):
                self._drop(file)
                yield News(file, ended=True)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            _close(file)
        self._files.clear()
        self._started = False

    def _blocks(self, file: Followed, left: int) -> Iterator[bytes]:
        while left > 0 and (data := file.stream.read(min(_BLOCK, left))):
            if len(file.head) < _HEAD and not file.skipped_bytes:
                file.head = (file.head + data)[:_HEAD]
            file.offset += len(data)
            left -= len(data)
            yield data

    def _paths(self) -> list[str]:
        path = Path(self.address)
        if path.is_dir():
            found = sorted(str(p) for p in path.iterdir() if p.is_file() and p.name[0] != ".")
        elif glob.has_magic(self.address):
            found = sorted(glob.glob(self.address))  # noqa: PTH207 - absolute patterns too
        else:
            return [self.address]
        return found[-_MAX_FILES:]

    def _look(self) -> None:
        """Find new, replaced, truncated and vanished files."""
        for file in self._files.values():
            file.seen = False
        missing: OSError | None = None
        for path in self._paths():
            try:
                self._look_at(path)
            except OSError as error:
                missing = error
        if missing is not None and not self._files:
            raise missing
        if not self._files and not self._started:
            raise FileNotFoundError(2, "no file there", self.address)
        self._started = True

    def _look_at(self, path: str) -> None:
        stat = os.stat(path)  # noqa: PTH116 - one call a file a poll
        identity = (stat.st_dev, stat.st_ino)
        known = self._files.get(identity)
        if known is None:
            self._open(path, identity)
            return
        known.seen, known.path = True, path
        if not known.packed and (stat.st_size < known.offset or not self._same_head(known)):
            self._drop(known)  # truncated in place, or written anew under the same inode
            self._open(path, identity, fresh=True)
            self._replaced.append(known)

    def _same_head(self, file: Followed) -> bool:
        if not file.head:
            return True
        return os.pread(file.stream.fileno(), len(file.head), 0) == file.head

    def _open(self, path: str, identity: tuple[int, int], *, fresh: bool = False) -> None:
        raw = open(path, "rb")  # noqa: SIM115, PTH123 - kept open while it is followed
        stream = plain(raw, path)
        if stream is not raw:
            if self._started:  # a rotated copy of what was read while it grew
                raw.close()
            else:
                self._files[identity] = Followed(path, stream, identity, raw, packed=True)
            return
        file = Followed(path, stream, identity, raw)
        size = os.fstat(raw.fileno()).st_size
        if not self._started and not fresh and size > self.backlog:
            file.head = os.pread(raw.fileno(), _HEAD, 0)
            file.offset = file.skipped_bytes = stream.seek(size - self.backlog)
        self._files[identity] = file

    def _drop(self, file: Followed) -> None:
        _close(file)
        self._files.pop(file.identity, None)


def _close(file: Followed) -> None:
    file.stream.close()
    file.raw.close()
