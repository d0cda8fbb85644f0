"""One device whose counters a test sets by hand, read and normalised tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.api import Context
from fabricmon.model.counters import BY_ID
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.normalize import Normalizer
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock
from support.selfmon import metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fabricmon.model.frame import Frame

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
_TOP = 1 << 64


class Feed:
    """A switch with `ports` ports of 100 Gb/s; `read` absorbs, `tick` makes the frame."""

    def __init__(
        self,
        columns: Sequence[Column | str] = ("tx_bytes",),
        ports: int = 1,
        speed_bps: float = 100e9,
    ) -> None:
        """Columns may be given as counter ids; then they are plain 64-bit counters."""
        self.columns = tuple(c if isinstance(c, Column) else column(c) for c in columns)
        self.ports = PortSet(("sw",) * ports, tuple(str(i + 1) for i in range(ports)))
        self.table = PortTable()
        clock = ManualClock()
        self.context = Context(clock, Reporter(clock))
        self.normalizer = Normalizer(self.table, "f", self.context)
        rows = self.table.rows(self.ports)
        self.table.set_speed(rows, np.full(ports, speed_bps))

    def batch(
        self,
        at: float,
        values: Sequence[Sequence[int] | int],
        *,
        state: Sequence[Sequence[int]] | None = None,
        columns: tuple[Column, ...] | None = None,
        ports: PortSet | None = None,
        discontinuity: bool = False,
    ) -> ReadingBatch:
        """A reading `at` seconds after the start; one value per column, or one row of ports."""
        columns = self.columns if columns is None else columns
        ports = self.ports if ports is None else ports
        shape = (len(columns), len(ports))
        rows = [[row] * shape[1] if isinstance(row, int) else list(row) for row in values]
        return ReadingBatch(
            "sw",
            ports,
            columns,
            np.array([[v % _TOP for v in row] for row in rows], np.uint64).reshape(shape),
            np.zeros(shape, np.uint8) if state is None else np.array(state, np.uint8),
            np.full(shape[1], START + round(at * SECOND), np.int64),
            discontinuity=discontinuity,
        )

    def read(self, at: float, *values: Sequence[int] | int, discontinuity: bool = False) -> None:
        """Absorb one complete reading."""
        self.normalizer.absorb(self.batch(at, values, discontinuity=discontinuity))

    def tick(self, at: float, interval_s: float = 1.0) -> Frame:
        """The frame `at` seconds after the start."""
        return self.normalizer.tick(START + round(at * SECOND), interval_s)

    def counted(self, state: str) -> float:
        """How often `fabricmon_values_total` counted this state."""
        return metric(self.context, "fabricmon_values_total", fabric="f", state=state)


def column(counter: str, **how: object) -> Column:
    """A column of this counter."""
    return Column(BY_ID[counter], **how)  # type: ignore[arg-type]


def latest(batches: Iterable[ReadingBatch]) -> dict[tuple[str, str], int | float]:
    """The last value that is known, by port and counter."""
    found: dict[tuple[str, str], int | float] = {}
    for batch in batches:
        for n, port in enumerate(batch.ports.port):
            for k, column in enumerate(batch.columns):
                if batch.state[k, n] == State.OK:
                    found[port, column.counter.id] = int(batch.values[k, n])
            for g, column in enumerate(batch.gauge_columns):
                if batch.gauges[g, n] == batch.gauges[g, n]:
                    found[port, column.counter.id] = float(batch.gauges[g, n])
    return found
