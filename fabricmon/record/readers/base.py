"""What a family of files is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricmon.formats.base import Bad, Chunk, Layout
    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File

Pieces: TypeAlias = "Iterator[Chunk | Topology]"
"""What is in files, as it is read."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What all files of one replay share."""

    layout: Layout
    bad: Bad


class Family(Protocol):
    """Files that are read by the same means and belong together."""

    name: str
    """How it is called in reports and help."""

    def sniff(self, file: File) -> bool:
        """Whether the file is of this family, by its content."""

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """Shapes that hold from the start, and what is read side by side, merged by time.

        Pieces raise `FormatError` where a file cannot be read on; it costs only that file.
        """
