"""Device clocks that are wrong, in files where every device stamps its own samples.

What stands together in a file was received together. A device whose times are far from those of
most others is taken to have a wrong clock; its times are shifted by whole seconds, by the same as
long as that fits, so that its rates stay what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.base import BadRecord, Chunk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.formats.base import Bad, Layout

_SECOND = 1_000_000_000
_LEAST_NS = 60 * _SECOND
"""Smaller differences are delays of delivery."""


class Clocks:
    """The corrections of one file."""

    def __init__(self, layout: Layout, bad: Bad, file: str) -> None:
        """`bad` hears once of every device whose clock is wrong."""
        self._layout, self._bad, self._file = layout, bad, file
        self._offset: dict[str, int] = {}

    def corrected(self, chunk: Chunk) -> Chunk:
        """The same samples by the clock of most devices. With less than three, nobody is right."""
        of_port, names = self._layout.devices()
        if len(names) < 3 or not len(chunk):
            return chunk
        device = of_port[chunk.port]
        present, middle, span = _middles(device, chunk.time_ns)
        if len(present) < 3:
            return chunk
        most = np.sort(middle)[(len(middle) - 1) // 2]
        limit = max(_LEAST_NS, 2 * int(np.median(span)))
        shift = np.zeros(len(names), np.int64)
        for number, at in zip(present.tolist(), (middle - most).tolist(), strict=True):
            shift[number] = self._offset_of(names[number], at, limit)
        if not shift.any():
            return chunk
        time_ns = chunk.time_ns - shift[device]
        return Chunk(time_ns, chunk.port, chunk.column, chunk.raw, chunk.state).in_order()

    def _offset_of(self, name: str, ahead_ns: int, limit_ns: int) -> int:
        known = self._offset.get(name, 0)
        if abs(ahead_ns - known) <= limit_ns:
            return known
        offset = 0 if abs(ahead_ns) <= limit_ns else round(ahead_ns / _SECOND) * _SECOND
        self._offset[name] = offset
        if offset:
            how = f"{abs(offset) // _SECOND} s {'ahead' if offset > 0 else 'behind'}"
            reason = f"the clock of {name} is {how}: its times are shifted"
            self._bad(BadRecord(self._file, 0, reason))
        return offset


def _middles(
    device: NDArray[np.int32], time_ns: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Devices, and for each the time of its middle sample and the time it spans."""
    order = np.argsort(device, kind="stable")
    present, first, count = np.unique(device[order], return_index=True, return_counts=True)
    times = time_ns[order]
    middle = times[first + count // 2]
    return present, middle, times[first + count - 1] - times[first]
