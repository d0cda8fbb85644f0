"""Reading gNMI-style bytes in a test: values by device, port, counter and queue."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import NamedTuple

from fabricmon.formats.base import BadRecord, Layout
from fabricmon.formats.gnmi.gnmi import GnmiDecoder
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.series import polls
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.model.readings import ReadingBatch, State

_PATHS = GnmiPaths.load()
RECEIVED = 1_700_000_000_000_000_000


class Read(NamedTuple):
    """What came of some bytes."""

    batches: list[ReadingBatch]
    bad: list[BadRecord]
    recorder: Recorder
    paths: GnmiPaths

    def series(self, counter: str, port: str, queue: int = -1) -> list[int | float]:
        """One value through all batches, in catalogue units; missing ones are left out."""
        found: list[int | float] = []
        for batch in self.batches:
            for n, name in enumerate(batch.ports.port):
                if name != port:
                    continue
                for k, column in enumerate(batch.columns):
                    same = (column.counter.id, column.queue) == (counter, queue)
                    if same and batch.state[k, n] == State.OK:
                        found.append(int(batch.values[k, n]) * column.scale)
                for g, column in enumerate(batch.gauge_columns):
                    same = (column.counter.id, column.queue) == (counter, queue)
                    if same and batch.gauges[g, n] == batch.gauges[g, n]:
                        found.append(float(batch.gauges[g, n]))
        return found

    def all(self) -> dict[tuple[str, str, int], int | float]:
        """The last value of everything, by port, counter and queue."""
        found: dict[tuple[str, str, int], int | float] = {}
        for batch in self.batches:
            for port in batch.ports.port:
                for column in (*batch.columns, *batch.gauge_columns):
                    values = self.series(column.counter.id, port, column.queue)
                    if values:
                        found[port, column.counter.id, column.queue] = values[-1]
        return found


def read(data: bytes, name: str = "x", device: str = "dut", step: int = 1 << 20) -> Read:
    """Everything in `data`, fed in steps of that many bytes."""
    paths = copy(_PATHS)  # compiled once; what it counts is its own
    paths.unmatched, paths.unkeyed = Counter(), Counter()
    layout = Layout("t")
    recorder = Recorder(SeriesTable(layout, paths), paths, device)
    bad: list[BadRecord] = []
    decoder = GnmiDecoder(recorder, bad.append, name)
    for at in range(0, len(data), step):
        decoder.feed(data[at : at + step], RECEIVED)
    decoder.close(RECEIVED)
    return Read(list(polls(layout, recorder.samples.take())), bad, recorder, paths)
