"""The files a replay is given: found below folders, opened plain, and when they were written."""

from __future__ import annotations

import io
import re
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats import compressed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_MAX_FILES = 200_000
_MAX_SMALL = 256 << 20
_MAX_ARCHIVE = 1 << 30
_TAR_AT = 257
_DATE = re.compile(
    r"(?<!\d)(20\d\d)[-_.]?([01]\d)[-_.]?([0-3]\d)[T_\-. ]?"
    r"([0-2]\d)[-_:.]?([0-5]\d)(?:[-_:.]?([0-5]\d))?(?!\d)"
)
_SUFFIXES = re.compile(r"(\.[A-Za-z]\w{0,8})+$")
_NUMBER = re.compile(r"\d+(?!.*\d)")
_LOST_NS = 500_000_000
_EPOCH = re.compile(r"(?<!\d)(1[3-9]\d{8})(\d{3})?(\d{6})?(?!\d)")


@dataclass(frozen=True)
class File:
    """One file of a replay."""

    path: Path
    given: bool
    """It was named itself, not found in a folder."""
    data: bytes | None = None
    """What is in it, where it was found in an archive."""
    mtime_ns: int = 0
    """When the archive says it was written."""
    numbered_ns: int = 0
    """When it must have been written by its number in a series; 0 where times are known better."""

    @property
    def name(self) -> str:
        """How it is called in reports."""
        return str(self.path)

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """Its plain bytes. Raises `FormatError` where it cannot be read."""
        if self.data is not None:
            yield compressed.plain(io.BytesIO(self.data), self.name)
            return
        try:
            with self.path.open("rb") as raw:
                yield compressed.plain(raw, self.name)
        except OSError as error:
            raise FormatError(error.strerror or str(error), file=self.name) from error

    def read(self) -> bytes:
        """All of a small file. Raises `FormatError` for one that is none."""
        with self.open() as stream:
            data = stream.read(_MAX_SMALL + 1)
        if len(data) > _MAX_SMALL:
            raise FormatError(f"larger than {_MAX_SMALL >> 20} MiB", file=self.name)
        return data

    @cached_property
    def head(self) -> bytes:
        """Its first bytes, by which its format is told."""
        with self.open() as stream:
            return compressed.head(stream)

    @cached_property
    def written_ns(self) -> int:
        """When it was written: as its name or its folder's says, else as the file system says.

        Copies often lose the file system's time, so a name wins. Names are taken as UTC.
        """
        if self.numbered_ns:
            return self.numbered_ns
        for part in (self.path.name, self.path.parent.name):
            named = time_in_name(part)
            if named is not None:
                return named
        return self.mtime_ns if self.data is not None else self.path.stat().st_mtime_ns


def time_in_name(name: str) -> int | None:
    """Nanoseconds since the epoch of a date or an epoch number in a file's name; None without."""
    date = _DATE.search(name)
    if date is not None:
        try:
            year, month, day, hour, minute, second = (int(part or 0) for part in date.groups())
            moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            pass
        else:
            return round(moment.timestamp()) * 1_000_000_000
    epoch = _EPOCH.search(name)
    if epoch is None:
        return None
    return int("".join(part or "" for part in epoch.groups()).ljust(19, "0"))


def untimed(file: File) -> str:
    """The name of a file without suffixes, and without a time in it: a device's, usually."""
    stem = _SUFFIXES.sub("", file.path.name)
    return _EPOCH.sub("", _DATE.sub("", stem)).strip("-_. Z") or file.path.parent.name


def found(paths: Sequence[Path]) -> list[File]:
    """Every file of `paths` and below, in order of name, and what is in archives (tar).

    Hidden files and links are left out. Raises `FormatError` for a path that is not there, and
    where there is more than can be meant.
    """
    files: list[File] = []
    for path in paths:
        if path.is_file():
            files.extend(_opened(File(path, given=True)))
        elif path.is_dir():
            for inner in _below(path):
                files.extend(_opened(File(inner, given=False)))
        else:
            raise FormatError("no such file or folder", file=str(path))
        if len(files) > _MAX_FILES:
            raise FormatError(f"more than {_MAX_FILES} files", file=str(path))
    return files


def numbered(files: Sequence[File], interval_s: float) -> tuple[list[File], str]:
    """Files of a numbered series whose times were lost, as many intervals apart as their numbers.

    `sweep_000.txt`, `sweep_001.txt`, … out of a version control system all have the time of the
    check-out. The second is one such series, or empty where there is none.
    """
    series: dict[tuple[Path, str], dict[int, File]] = {}
    for file in files:
        match = _NUMBER.search(_SUFFIXES.sub("", file.path.name))
        if match is not None and not time_in_name(file.path.name):
            key = (file.path.parent, match.re.sub("#", file.path.name, count=1))
            series.setdefault(key, {})[int(match[0])] = file
    moved: dict[File, File] = {}
    told = ""
    for (_, name), members in series.items():
        stamps = [file.written_ns for file in members.values()]
        whole = len(members) >= 3 and max(members) - min(members) + 1 == len(members)
        if whole and max(stamps) - min(stamps) < len(members) * _LOST_NS:
            told = name
            for number, file in members.items():
                at = min(stamps) + round(number * interval_s * 1e9)
                moved[file] = replace(file, numbered_ns=at)
    return [moved.get(file, file) for file in files], told


def _opened(file: File) -> Iterator[File]:
    """The file, or the files in it where it is an archive. Nothing is unpacked to disk."""
    try:
        if file.head[_TAR_AT : _TAR_AT + 5] != b"ustar":
            yield file
            return
    except FormatError:
        yield file  # whoever looks at it next says what is wrong with it
        return
    left = _MAX_ARCHIVE
    try:
        with file.open() as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                left -= member.size
                if left < 0:
                    raise FormatError(f"holds more than {_MAX_ARCHIVE >> 20} MiB", file=file.name)
                held = archive.extractfile(member)
                data = held.read() if held is not None else b""
                yield File(file.path / member.name, file.given, data, int(member.mtime * 1e9))
    except tarfile.TarError as error:
        raise FormatError(f"not readable as an archive: {error}", file=file.name) from error


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.is_file():
            yield path
