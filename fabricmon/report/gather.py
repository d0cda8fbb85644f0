"""Collect, over a run, what a report shows beside the incidents: how their ports were held back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.incident import Incident
    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Snapshot

_FLOOR = 0.005
"""A smaller share of the time is drawn as none."""
_MAX_TICKS = 20_000
_AROUND = 12
"""Ticks shown before the start and after the end."""
_MAX_LINES = 6


@dataclass(frozen=True, slots=True)
class Plot:
    """Stall ratios of one incident's ports.

    times_s   seconds since the epoch, oldest first
    lines     (port, values); a value per time, 0 where nothing was held back
    start_s, end_s  when the incident ran; None = still open
    """

    times_s: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float, ...]], ...]
    start_s: float
    end_s: float | None


class Gatherer:
    """Give it each snapshot of one fabric; memory grows with what is held back, not with ports."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._times: list[int] = []
        self._held: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
        self._incidents: dict[str, Incident] = {}
        self._table: PortTable | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Take one tick."""
        stall = snapshot.frame.ratios.stall
        rows = np.flatnonzero(np.nan_to_num(stall) > _FLOOR).astype(np.int32)
        self._times.append(snapshot.frame.time_ns)
        self._held.append((rows, stall[rows].copy()))
        if len(self._times) > _MAX_TICKS:
            del self._times[: _MAX_TICKS // 10], self._held[: _MAX_TICKS // 10]
        self._table = snapshot.table
        for incident in (*snapshot.incidents, *snapshot.closed):
            self._incidents[incident.id] = incident

    def incidents(self) -> list[dict[str, Any]]:
        """Every incident in its last state, worst first, as JSON."""
        ordered = sorted(self._incidents.values(), key=lambda one: one.sort_key())
        return [incident.to_json() for incident in ordered]

    def plots(self) -> dict[str, Plot]:
        """A plot for every incident that holds a port back, by the incident's id."""
        made = {key: self._plot(one) for key, one in self._incidents.items()}
        return {key: plot for key, plot in made.items() if plot is not None}

    def _plot(self, incident: Incident) -> Plot | None:
        assert self._table is not None
        victims = sorted(incident.victims, key=lambda one: -one.stall_ratio)[:_MAX_LINES]
        ports = [PortId(one.device, one.port) for one in victims]
        rows = [(port, row) for port in ports if (row := self._table.row(port)) is not None]
        if not rows:
            return None
        first = max(0, bisect_left(self._times, incident.started_ns) - _AROUND)
        until = incident.ended_ns if incident.ended_ns is not None else self._times[-1]
        last = bisect_right(self._times, until) + _AROUND
        times, held = self._times[first:last], self._held[first:last]
        return Plot(
            tuple(time / 1e9 for time in times),
            tuple((str(port), tuple(_of(row, one) for one in held)) for port, row in rows),
            incident.started_ns / 1e9,
            incident.ended_ns / 1e9 if incident.ended_ns is not None else None,
        )


def _of(row: int, held: tuple[NDArray[np.int32], NDArray[np.float32]]) -> float:
    rows, stall = held
    at = int(np.searchsorted(rows, row))
    return float(stall[at]) if at < len(rows) and rows[at] == row else 0.0
