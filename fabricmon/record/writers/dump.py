"""Interchange dumps and own recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.formats.interchange import (
    COUNTERS,
    LABELS,
    TOPOLOGY,
    write_labels,
    write_topology,
)
from fabricmon.formats.tables.longtable_write import LongTable
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology
from fabricmon.record.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.formats.interchange import Label
    from fabricmon.model.stream import Item
    from fabricmon.selfmon import Reporter


class DumpWriter:
    """`counters.parquet`, `topology.json`, `labels.json`."""

    def __init__(self, folder: Path, fabric: str, report: Reporter) -> None:
        """Nothing is written yet."""
        del fabric, report
        self._folder = folder
        self._sink = (folder / COUNTERS[0]).open("wb")
        self._table = LongTable(self._sink)
        self._topology = Topology()
        self._interval_s = 0.0

    def write(self, item: Item) -> None:
        """Take one item. Failed polls are told by what is not there."""
        match item:
            case ReadingBatch():
                self._table.add(item)
            case Topology():
                self._topology = self._topology.merged(item)
            case Tick():
                self._interval_s = item.interval_s

    def close(self, labels: Sequence[Label]) -> None:
        """End the table and write topology and labels."""
        self._table.close()
        self._sink.close()
        shape = Topology(interval_s=self._interval_s)
        topology = write_topology(self._topology.merged(shape))
        (self._folder / TOPOLOGY).write_bytes(topology)
        (self._folder / LABELS).write_bytes(write_labels(labels))


class RecordingWriter:
    """Our own recording, in one file."""

    def __init__(self, folder: Path, fabric: str, report: Reporter) -> None:
        """Nothing is written yet."""
        self._writer = Writer(folder / "recording.arrows", fabric, report)

    def write(self, item: Item) -> None:
        """Take one item."""
        self._writer.write(item)

    def close(self, labels: Sequence[Label]) -> None:
        """End the file; a recording holds what was read, and no labels."""
        del labels
        self._writer.close()
