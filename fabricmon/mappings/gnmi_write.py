"""The gNMI mapping backward: readings as the leaves that a device would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabricmon.model.counters import NO_QUEUE
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.mappings.gnmi import GnmiPaths, PathRow
    from fabricmon.model.readings import Column, ReadingBatch


class PortLeaves(NamedTuple):
    """What one port has to say at one time: paths with keys in brackets, and values."""

    device: str
    port: str
    time_ns: int
    leaves: list[tuple[str, int | float | str]]


class GnmiWriter:
    """Turns batches in catalogue terms into paths and values of one mapping."""

    def __init__(self, paths: GnmiPaths) -> None:
        """`paths` should be one vendor's mapping: of two paths for a counter, one is written."""
        self._rows: dict[str, PathRow] = {}
        for row in paths.rows:
            known = self._rows.get(row.counter)
            if known is None or row.rank <= known.rank:
                self._rows[row.counter] = row

    def ports(self, batch: ReadingBatch) -> Iterator[PortLeaves]:
        """Every port with what the mapping has words for. Missing values are left out."""
        rows = [(k, self._rows.get(c.counter.id), c) for k, c in enumerate(batch.columns)]
        gauges = [(g, self._rows.get(c.counter.id), c) for g, c in enumerate(batch.gauge_columns)]
        for n, (device, port) in enumerate(zip(batch.ports.device, batch.ports.port, strict=True)):
            leaves: list[tuple[str, int | float | str]] = []
            for k, row, column in rows:
                if row is not None and batch.state[k, n] == State.OK:
                    count = int(batch.values[k, n]) * column.scale // row.scale
                    count &= (1 << row.bits) - 1
                    leaves.append((path_of(row, port, column), count))
            for g, row, column in gauges:
                level = float(batch.gauges[g, n])
                if row is not None and not np.isnan(level):
                    leaves.append((path_of(row, port, column), _level(row, level)))
            yield PortLeaves(device, port, int(batch.time_ns[n]), leaves)

    @staticmethod
    def neighbour(paths: GnmiPaths, port: str, device: str, peer: str) -> list[tuple[str, str]]:
        """The LLDP leaves of a cable's near end."""
        said = {"device": device, "port": peer}
        return [
            (row.path.replace("{port}", _key(port)).replace("{neighbour}", "1"), said[row.field])
            for row in paths.lldp
        ]


def path_of(row: PathRow, port: str, column: Column) -> str:
    """The row's path at one port and queue."""
    path = row.path.replace("{port}", _key(port)).replace("=*]", "=0]")
    return path if column.queue == NO_QUEUE else path.replace("{queue}", str(column.queue))


def _key(text: str) -> str:
    return text.replace("\\", "\\\\").replace("]", "\\]")


def _level(row: PathRow, level: float) -> float | str:
    if row.read == "state":
        return "UP" if level >= 0.5 else "DOWN"
    if row.read == "speed":
        return f"SPEED_{level / 1e9:g}GB"
    if row.read == "milliwatt":
        return float(10 ** (level / 10))
    return level / row.factor
