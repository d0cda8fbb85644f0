"""Series that are encoded once and patched at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon_exporters.remote_write.wire import STALE, TIME_FROM_END, VALUE_FROM_END, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SERIES_PER_PART = 20_000
"""Series of one part at most; a request is made of parts."""


class Template:
    """The series of one metric (and queue), one for each row that ever had a value."""

    def __init__(self, encode: Callable[[NDArray[np.intp]], list[bytes]]) -> None:
        """`encode` gives the blank series of these rows."""
        self._encode = encode
        self._rows = np.empty(0, np.intp)
        self._row_mask = np.empty(0, np.bool_)
        self._whole = _Block([])
        self._present = np.empty(0, np.bool_)
        self._part = self._whole

    def clear(self) -> None:
        """Labels have changed: encode anew. The receiver sees the old series end."""
        self.__init__(self._encode)  # type: ignore[misc] # the same as made anew

    def parts(
        self, values: NDArray[np.float64], mask: NDArray[np.bool_], time_ms: int
    ) -> Iterator[tuple[int, bytes]]:
        """(series, bytes) for the rows of `mask` (bool[N]), and for those that ended just now."""
        self._admit(mask)
        present = mask[self._rows]
        ended = self._present & ~present
        if not np.array_equal(present, self._present):
            self._part = self._whole if present.all() else self._whole.only(present)
            self._present = present
        if ended.any():
            gone = self._whole.only(ended)
            yield from gone.patched(np.full(len(gone), STALE), time_ms)
        yield from self._part.patched(values[self._rows[present]], time_ms)

    def ended(self, time_ms: int) -> Iterator[tuple[int, bytes]]:
        """Everything that is present ends."""
        gone = self._part if self._present.any() else _Block([])
        self._present = np.zeros_like(self._present)
        self._part = _Block([])
        yield from gone.patched(np.full(len(gone), STALE), time_ms)

    def _admit(self, mask: NDArray[np.bool_]) -> None:
        if len(mask) > len(self._row_mask):
            more = np.zeros(len(mask) - len(self._row_mask), np.bool_)
            self._row_mask = np.concatenate([self._row_mask, more])
        fresh = np.flatnonzero(mask & ~self._row_mask[: len(mask)])
        if not len(fresh):
            return
        self._row_mask[fresh] = True
        self._rows = np.concatenate([self._rows, fresh])
        self._whole = self._whole.with_more(self._encode(fresh))
        self._present = np.concatenate([self._present, np.zeros(len(fresh), np.bool_)])


class _Block:
    """Encoded series behind one another. `ends` int64[M]: where each ends."""

    def __init__(self, series: list[bytes]) -> None:
        # Eight spare bytes, so that a value can be written as one unaligned number anywhere.
        self._bytes = np.frombuffer(b"".join(series) + bytes(8), np.uint8).copy()
        self._ends = np.cumsum(np.fromiter(map(len, series), np.int64, len(series)))
        self._stamp = b""

    def __len__(self) -> int:
        return len(self._ends)

    def with_more(self, series: list[bytes]) -> _Block:
        more = _Block(series)
        more._bytes = np.concatenate([self._bytes[:-8], more._bytes])
        more._ends = np.concatenate([self._ends, more._ends + (len(self._bytes) - 8)])
        return more

    def only(self, which: NDArray[np.bool_]) -> _Block:
        lengths = np.diff(self._ends, prepend=0)
        kept = _Block([])
        own = self._bytes[:-8][np.repeat(which, lengths)]
        kept._bytes = np.concatenate([own, np.zeros(8, np.uint8)])
        kept._ends = np.cumsum(lengths[which])
        return kept

    def patched(self, values: NDArray[np.float64], time_ms: int) -> Iterator[tuple[int, bytes]]:
        """(series, bytes) of at most `SERIES_PER_PART` each."""
        if not len(self._ends):
            return
        stamp = timestamp(time_ms)
        if stamp != self._stamp:
            self._stamp = stamp
            for i, octet in enumerate(stamp):
                self._bytes[self._ends - TIME_FROM_END + i] = octet
        # Every offset of the bytes as a float64, unaligned: one assignment writes all values.
        offsets = np.ndarray(len(self._bytes) - 7, "<f8", self._bytes.data, strides=(1,))
        offsets[self._ends - VALUE_FROM_END] = values
        begin = 0
        for first in range(0, len(self._ends), SERIES_PER_PART):
            last = min(first + SERIES_PER_PART, len(self._ends))
            end = int(self._ends[last - 1])
            yield last - first, self._bytes[begin:end].tobytes()
            begin = end
