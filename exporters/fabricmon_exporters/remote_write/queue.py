"""Requests on disk: oldest first out, and oldest dropped when there is no room.

One file a request, `<number>-<samples>.snappy`, written beside and renamed, so that what is there
after a crash is whole. Nothing is synced: a power cut may cost the last requests.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".snappy"


class Entry(NamedTuple):
    """One request that waits."""

    number: int
    samples: int
    size: int


class DiskQueue:
    """A folder of requests. Written by one thread, read by another."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Nothing is touched before `open`."""
        self._folder, self._max_bytes = folder, max_bytes
        self._entries: list[Entry] = []
        self._next = 0
        self._lock = threading.Lock()
        self.size = 0
        """Bytes that wait."""

    def open(self) -> None:
        """Make the folder and take over what waits there. Raises `OSError`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._entries = []
            for path in self._folder.iterdir():
                if path.suffix == ".tmp":
                    path.unlink(missing_ok=True)
                    continue
                number, _, samples = path.stem.partition("-")
                if path.suffix == _SUFFIX and number.isdigit() and samples.isdigit():
                    self._entries.append(Entry(int(number), int(samples), path.stat().st_size))
            self._entries.sort()
            self._next = self._entries[-1].number + 1 if self._entries else 0
            self.size = sum(entry.size for entry in self._entries)

    def put(self, samples: int, body: bytes) -> int:
        """Add a request; the number of samples that were dropped for it. Raises `OSError`."""
        with self._lock:
            entry = Entry(self._next, samples, len(body))
            self._next += 1
        beside = self._folder / f"{entry.number}.tmp"
        beside.write_bytes(body)
        beside.rename(self._path(entry))
        with self._lock:
            self._entries.append(entry)
            self.size += entry.size
            old = []
            while self.size > self._max_bytes and len(self._entries) > 1:
                old.append(self._entries.pop(0))
                self.size -= old[-1].size
        for gone in old:
            self._path(gone).unlink(missing_ok=True)
        return sum(gone.samples for gone in old)

    def oldest(self) -> tuple[Entry, bytes] | None:
        """The request that is to be sent next; None when there is none.

        One that cannot be read any more is passed over with an empty body.
        """
        with self._lock:
            if not self._entries:
                return None
            entry = self._entries[0]
        try:
            return entry, self._path(entry).read_bytes()
        except OSError:
            return entry, b""

    def remove(self, entry: Entry) -> None:
        """It was sent, or given up."""
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
                self.size -= entry.size
        self._path(entry).unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._entries)

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.number:016d}-{entry.samples}{_SUFFIX}"
