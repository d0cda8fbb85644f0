"""What a writer of files is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.formats.interchange import Label
    from fabricmon.model.stream import Item
    from fabricmon.selfmon import Reporter


class FileWriter(Protocol):
    """Writes a stream into a folder that exists."""

    def __init__(self, folder: Path, fabric: str, report: Reporter) -> None:
        """Nothing is written yet."""

    def write(self, item: Item) -> None:
        """Take one item."""

    def close(self, labels: Sequence[Label]) -> None:
        """End the files. `labels` is what is known to have happened, for formats that hold it."""


def stamp(time_ns: int) -> str:
    """A time as it stands in file names: UTC, or nanoseconds where it is no whole second."""
    if time_ns % 1_000_000_000:
        return str(time_ns)
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")
