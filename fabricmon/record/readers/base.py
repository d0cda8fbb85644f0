"""What a family of files is asked for."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from fabricmon.formats.base import Chunk, joined
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fabricmon.formats.base import Bad, Layout
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File

OLDEST_FIRST = operator.attrgetter("written_ns", "name")
"""Sort key of files whose content has no times."""

Pieces: TypeAlias = "Iterator[Chunk | Topology]"
"""What is in files, as it is read."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What all files of one replay share."""

    layout: Layout
    bad: Bad
    settle: list[Callable[[Chunk], Chunk]] = field(default_factory=list)
    """What readers want done to the samples of a tick before they are handed on."""


def lines_of(file: File) -> list[str]:
    """The lines of a small text file, whatever its encoding."""
    return file.read().decode("utf-8", "replace").splitlines()


def in_order(pieces: Iterator[Chunk], limit: int = 10_000_000) -> Iterator[Chunk]:
    """As one piece in order of time, since tables are often sorted by device.

    What is beyond `limit` samples (0.3 GB) is handed on as it comes, and ought to be in order.
    """
    held: list[Chunk] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= limit:
            yield joined(held)
            held = []
            yield from pieces
    if held:
        yield joined(held)


def chunk_of(layout: Layout, batch: ReadingBatch) -> Chunk:
    """A reading in the numbers of a layout; what is MISSING in it is left out."""
    names = zip(batch.ports.device, batch.ports.port, strict=True)
    port = np.fromiter((layout.port(*name) for name in names), np.int32, len(batch.ports))
    counts = np.fromiter(map(layout.column, batch.columns), np.int32, len(batch.columns))
    levels = np.fromiter(map(layout.column, batch.gauge_columns), np.int32, len(batch.gauges))
    k, n = np.nonzero(batch.state != State.MISSING)
    g, m = np.nonzero(np.isfinite(batch.gauges))
    return Chunk(
        np.concatenate([batch.time_ns[n], batch.time_ns[m]]),
        np.concatenate([port[n], port[m]]),
        np.concatenate([counts[k], levels[g]]),
        np.concatenate([batch.values[k, n], batch.gauges[g, m].view(np.uint64)]),
        np.concatenate([batch.state[k, n], np.zeros(len(g), np.uint8)]),
    ).in_order()


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
