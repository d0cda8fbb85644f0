"""Reading a folder that somebody else fills: a cron job that runs the tools, a copied dump.

What a file is, is found by looking at it. The newest discovery names the ports; counts carry the
time their file was written. Files that have not changed are not read again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon.errors import PollError, Reason
from fabricmon.formats.base import BadRecord
from fabricmon.formats.infiniband import ibdumps
from fabricmon.formats.infiniband.ibfabric import IbFabric
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.formats.infiniband.ibtext import PortCounts

_MAX_BYTES = 256 << 20
_MAX_FILES = 10_000
_ONE_READING_NS = 5_000_000_000
_GUID_IN_NAME = re.compile(r"0x([0-9a-fA-F]{16})")


@dataclass(slots=True)
class _File:
    """One file as it was when it was read last."""

    stamp: tuple[int, int]
    fabric: IbFabric | None = None
    blocks: list[PortCounts] = field(default_factory=list)


class Folder:
    """One directory."""

    def __init__(self, target: str, path: Path, context: Context, max_age_s: float) -> None:
        """Nothing is touched until the first `scan`."""
        self._target, self._path, self._max_age_s = target, path, max_age_s
        self._clock, self._report = context.clock, context.report
        self._files: dict[Path, _File] = {}
        self._fabric_from = 0
        self.fresh_fabric: IbFabric | None = None
        """A discovery that was not there at the scan before."""

    def scan(self) -> dict[int, list[PortCounts]]:
        """Counts by the time their files were written, ns since the epoch.

        Files written within seconds of each other are one reading.

        Raises `PollError` where the folder cannot be read or holds nothing recent.
        """
        try:
            paths = sorted(p for p in self._path.iterdir() if not p.name.startswith("."))
        except OSError as error:
            raise PollError(Reason.NOT_FOUND, f"{self._path}: {error.strerror or error}") from error
        found: dict[int, list[PortCounts]] = {}
        shapes: list[_File] = []
        for path in paths[:_MAX_FILES]:
            file = self._read(path)
            if file is not None and file.blocks:
                found.setdefault(file.stamp[0], []).extend(file.blocks)
            if file is not None and file.fabric is not None:
                shapes.append(file)
        self._files = {path: file for path, file in self._files.items() if path in set(paths)}
        self._join(sorted(shapes, key=lambda file: file.stamp))
        self._check_age(found)
        return _together(found)

    def _join(self, shapes: list[_File]) -> None:
        """One fabric of all discoveries, where one of them is new."""
        self.fresh_fabric = None
        if not shapes or shapes[-1].stamp[0] <= self._fabric_from:
            return
        self._fabric_from = shapes[-1].stamp[0]
        whole = IbFabric()
        for file in shapes:
            if file.fabric is not None:
                whole = whole.joined(file.fabric)
        self.fresh_fabric = whole

    def _check_age(self, found: dict[int, list[PortCounts]]) -> None:
        if not found:
            raise PollError(Reason.NO_DATA, f"{self._path} holds no counters")
        age = (self._clock.now_ns() - max(found)) / 1e9
        if age > self._max_age_s:
            raise PollError(Reason.NO_DATA, f"the newest file in {self._path} is {age:.0f} s old")

    def _read(self, path: Path) -> _File | None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            old = self._files.get(path)
            if old is not None and old.stamp == stamp:
                return old
            if not path.is_file() or status.st_size > _MAX_BYTES:
                return None
            text = path.read_bytes()
        except OSError as error:
            self._bad(BadRecord(str(path), 0, error.strerror or str(error)))
            return None
        file = self._files[path] = _File(stamp)
        self._parse(path, text, file)
        return file

    def _parse(self, path: Path, text: bytes, file: _File) -> None:
        kind = ibdumps.sniff(text[:8192])
        if not kind:
            self._bad(BadRecord(str(path), 0, "is no output of an InfiniBand tool"))
            return
        dump = ibdumps.read(text.decode("latin-1"), self._bad, str(path), kind)
        file.fabric, file.blocks = dump.fabric, dump.counts
        guid = _GUID_IN_NAME.search(path.name)
        for block in file.blocks:
            block.guid = block.guid or (int(guid[1], 16) if guid else 0)

    def _bad(self, record: BadRecord) -> None:
        self._report.emit(Event.RECORD_SKIPPED, self._target, error=str(record))


def _together(by_time: dict[int, list[PortCounts]]) -> dict[int, list[PortCounts]]:
    """Readings under the time of their last file."""
    out: dict[int, list[PortCounts]] = {}
    last = 0
    for time_ns in sorted(by_time):
        begun = out.pop(last, []) if last and time_ns - last <= _ONE_READING_NS else []
        out[time_ns] = begun + by_time[time_ns]
        last = time_ns
    return out
