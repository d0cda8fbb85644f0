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
from fabricmon.formats.system.sonic import is_map

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 20
_HEAD = 128
_MAX_FILES = 100_000
_MAX_OPEN = 128
"""Files kept open between polls. An open file is read to its end even after it was moved away."""
_PATIENCE = 30
"""Looks without news after which a file is closed: its writer may not know that it was moved."""


@dataclass(slots=True, eq=False)
class Followed:
    """One file."""

    path: str
    identity: tuple[int, int]
    written_ns: int
    """When it was last written to."""
    offset: int = 0
    head: bytes = b""
    packed: bool = False
    """Compressed: read once, to its end."""
    seen: bool = True
    """Whether the path still leads here."""
    idle: int = 0
    """Looks in a row without news."""
    due: bool = True
    """There may be something to read."""
    lines: int = 0
    """For the reader's books: lines read before it let go of the file."""
    skipped_bytes: int = 0
    """What was left out at the start, since the file was longer than the backlog."""
    raw: BinaryIO | None = None
    stream: BinaryIO | None = None
    """`raw`, inflated where it is compressed."""


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
    _open: int = 0
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
            if file.raw is None and not file.due:
                if not file.seen:
                    del self._files[file.identity]
                continue
            file.idle += 1
            for data in self._blocks(file, left):
                file.idle = 0
                left -= len(data)
                yield News(file, data)
            if left <= 0:
                break
            if file.packed or (not file.seen and file.idle >= _PATIENCE):
                self._close(file)
                yield News(file, ended=True)
            elif file.idle >= _PATIENCE or self._open > _MAX_OPEN:
                self._close(file)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            self._close(file)
        self._files.clear()
        self._started = False

    def _blocks(self, file: Followed, left: int) -> Iterator[bytes]:
        stream = self._stream(file)
        while left > 0:
            data = stream.read(min(_BLOCK, left))
            if not data:
                file.due = False
                return
            if len(file.head) < _HEAD and not file.skipped_bytes:
                file.head = (file.head + data)[:_HEAD]
            file.offset += len(data)
            left -= len(data)
            yield data

    def _stream(self, file: Followed) -> BinaryIO:
        if file.stream is None:
            raw = open(file.path, "rb")  # noqa: SIM115, PTH123 - kept open while it is followed
            file.raw, file.stream = raw, plain(raw, file.path)
            file.packed = file.stream is not raw
            self._open += 1
            if not file.packed:
                raw.seek(file.offset)
        return file.stream

    def _close(self, file: Followed) -> None:
        if file.raw is not None and file.stream is not None:
            file.stream.close()
            file.raw.close()
            self._open -= 1
        file.raw = file.stream = None

    def _paths(self) -> list[str]:
        path = Path(self.address)
        if path.is_dir():
            found = [str(p) for p in path.iterdir() if p.is_file() and p.name[0] != "."]
        elif glob.has_magic(self.address):
            found = glob.glob(self.address)  # noqa: PTH207 - absolute patterns too
        else:
            return [self.address]
        found.sort()
        # Files that give others their names come first.
        return sorted(found[-_MAX_FILES:], key=lambda path: not is_map(path))

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
            self._add(path, identity, stat)
            return
        known.seen, known.path, known.written_ns = True, path, stat.st_mtime_ns
        if known.packed:
            return
        if stat.st_size < known.offset or not self._same_head(known):
            self._close(known)  # truncated in place, or written anew under the same inode
            self._replaced.append(known)
            self._files[identity] = Followed(path, identity, stat.st_mtime_ns)
        elif stat.st_size > known.offset:
            known.due = True

    def _same_head(self, file: Followed) -> bool:
        if file.raw is None or not file.head:
            return True
        return os.pread(file.raw.fileno(), len(file.head), 0) == file.head

    def _add(self, path: str, identity: tuple[int, int], stat: os.stat_result) -> None:
        file = Followed(path, identity, stat.st_mtime_ns)
        self._files[identity] = file
        with open(path, "rb") as raw:  # noqa: PTH123 - a look at its kind and its first bytes
            file.packed = plain(raw, path) is not raw
            if file.packed:
                # A rotated copy of what was read while it grew, where it came later.
                file.due = not self._started
            elif not self._started and stat.st_size > self.backlog:
                file.head = os.pread(raw.fileno(), _HEAD, 0)
                file.offset = file.skipped_bytes = stat.st_size - self.backlog
