"""CSV files of any make, read by the map that `--columns` names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fabricmon.formats.tables import columns
from fabricmon.record.readers.base import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope


class MappedCsv:
    """Files whose first line has all the columns of the map."""

    name = "CSV by a map of columns"

    def __init__(self, path: Path) -> None:
        """Raises `ConfigError` where the map is wrong."""
        self._map = columns.load(path)

    @cached_property
    def _wanted(self) -> set[str]:
        return set(self._map.columns)

    def sniff(self, file: File) -> bool:
        """By name, if the map says which, and by the header."""
        if not self._map.wants(file.path.as_posix()):
            return False
        header = file.head.split(b"\n", 1)[0].decode(self._map.encoding, "replace").strip()
        return self._wanted <= {
            name.strip().strip('"') for name in header.split(self._map.delimiter)
        }

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """One stream a file."""
        reader = columns.Reader(self._map, scope.layout, scope.bad)
        return [], [self._pieces(file, reader) for file in files]

    @staticmethod
    def _pieces(file: File, reader: columns.Reader) -> Pieces:
        with file.open() as stream:
            yield from in_order(reader.read(stream, file.path.as_posix()))
