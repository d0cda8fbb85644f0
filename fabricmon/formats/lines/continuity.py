"""What holds from one poll of a stream to the next: nothing twice, nothing late, levels that stay.

Writers repeat and reorder; devices send a state once, when it changes. What a poll hands over must
still be newer than what was handed over before, and a state that was not sent again still holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.base import Chunk, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.formats.lines.series_table import SeriesTable

_HORIZON_NS = 120 * 1_000_000_000
"""What is older than this behind the newest is no late sample but a clock that was set back."""

_NEVER = np.iinfo(np.int64).min // 2


class Continuity:
    """The last sample of every series of a table."""

    def __init__(self, table: SeriesTable) -> None:
        """Empty."""
        self._table = table
        self._last = np.full((0, 0), _NEVER, np.int64)
        self._mark = np.empty(0, np.int64)  # by port: the last sample as `silent` saw it
        self._level: dict[int, NDArray[np.uint64]] = {}
        self._known: dict[int, NDArray[np.bool_]] = {}
        self.late = 0
        """Samples that were dropped since a newer one of their series was handed over before."""

    def apply(self, chunk: Chunk) -> Chunk:
        """`chunk` without what is late or known, and with the levels that still hold."""
        if not len(chunk):
            return chunk
        self._grow(chunk)
        last = self._last[chunk.column, chunk.port]
        late = (chunk.time_ns <= last) & (chunk.time_ns > last - _HORIZON_NS)
        if late.any():
            self.late += int(late.sum())
            chunk = chunk.part(~late)
        self._last[chunk.column, chunk.port] = chunk.time_ns
        return self._with_levels(chunk) if len(chunk) else chunk

    def forget(self) -> None:
        """The session ended: no level is known any more."""
        self._known.clear()

    def end(self, ended: set[int]) -> None:
        """Series that the device deleted: their levels hold no longer."""
        for series in ended:
            port, column = self._table.where(series)
            known = self._known.get(column)
            if known is not None and 0 <= port < len(known):
                known[port] = False

    def silent(self) -> NDArray[np.bool_]:
        """bool[ports]: those that were known at the last call and of which nothing came since."""
        latest = np.full(self._table.layout.ports, _NEVER, np.int64)
        seen = self._last.max(axis=0, initial=_NEVER)[: len(latest)]
        latest[: len(seen)] = seen
        before, self._mark = self._mark, latest
        silent = np.zeros(len(latest), np.bool_)
        silent[: len(before)] = latest[: len(before)] == before
        return silent

    def keep(self, ports: NDArray[np.bool_]) -> None:
        """Forget the ports that are False, of bool[ports]; the table did already."""
        kept = np.flatnonzero(ports)
        self._mark = self._mark[kept]
        have = self._last.shape[1]
        grown = np.full((len(self._last), len(kept)), _NEVER, np.int64)
        grown[:, kept < have] = self._last[:, kept[kept < have]]
        self._last = grown
        for column in self._level:
            level, known = self._columns(column, len(ports))
            self._level[column], self._known[column] = level[kept], known[kept]

    def _grow(self, chunk: Chunk) -> None:
        columns, ports = int(chunk.column.max()) + 1, int(chunk.port.max()) + 1
        have_columns, have_ports = self._last.shape
        if columns > have_columns or ports > have_ports:
            shape = (max(columns, have_columns), max(ports, have_ports * 2))
            grown = np.full(shape, _NEVER, np.int64)
            grown[:have_columns, :have_ports] = self._last
            self._last = grown

    def _with_levels(self, chunk: Chunk) -> Chunk:
        """Add the last value of each held level, for ports that said anything at all."""
        ports = self._last.shape[1]
        heard = np.zeros(ports, np.int64)
        heard[chunk.port] = chunk.time_ns
        parts = [chunk]
        for column in self._table.held_columns:
            level, known = self._columns(column, ports)
            own = chunk.column == column
            told = np.zeros(ports, np.bool_)
            told[chunk.port[own]] = True
            missing = np.flatnonzero(known & ~told & (heard > 0)).astype(np.int32)
            if len(missing):
                parts.append(
                    Chunk(
                        heard[missing],
                        missing,
                        np.full(len(missing), column, np.int32),
                        level[missing],
                        np.zeros(len(missing), np.uint8),
                    )
                )
            level[chunk.port[own]] = chunk.raw[own]
            known |= told
        return joined(parts)

    def _columns(self, column: int, ports: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        level = self._level.get(column, np.zeros(0, np.uint64))
        known = self._known.get(column, np.zeros(0, np.bool_))
        if len(level) < ports:
            level = np.concatenate([level, np.zeros(ports - len(level), np.uint64)])
        if len(known) < ports:
            known = np.concatenate([known, np.zeros(ports - len(known), np.bool_)])
        self._level[column], self._known[column] = level, known
        return level, known
