"""What a collector hands over: one poll of one target, as read, in columns.

No rates, no unwrapping, no zeros for what is missing. Ports are named by the source itself, in a
`PortSet` that stays the same object from poll to poll, so that the pipeline translates names to
rows once and not per sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from fabricmon.model.counters import NO_QUEUE, Counter, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fabricmon.errors import Reason
    from fabricmon.model.topology import Topology


K = TypeVar("K")
V = TypeVar("V")


class State(IntEnum):
    """What is known of one value. Everything from `MISSING` on has no usable number.

    Missing is never zero: a value that could not be read says why.
    """

    OK = 0
    WRAPPED = 1
    """Good: the counter passed its top once and the difference was taken over it."""
    HELD = 2
    """Good: the device refreshes slower than we poll; the rate of its last refresh still holds."""

    MISSING = 8
    """Not in this poll."""
    UNSUPPORTED = 9
    """The device says that it does not count this."""
    BASELINE = 10
    """The first value of a series, or the first after a gap or a change of source."""
    SATURATED = 11
    """The counter stands at its maximum: the rate is unknown, and at least not zero."""
    RESET = 12
    """The counter fell, which is no wrap: somebody cleared it, or the device restarted."""
    STALE = 13
    """The device's cache has not moved for longer than its own refresh period."""
    OVER_RATE = 14
    """More than the link can carry: withheld."""


USABLE_BELOW = 8
"""States below this have a number."""


@dataclass(frozen=True, slots=True)
class PortSet:
    """Ports in a source's own row order. Compared by identity: keep one per target.

    `device[i]`, `port[i]` name row i. Identity is the device's name (or GUID) and the port's own
    name (or number), never ifIndex or LID.
    """

    device: tuple[str, ...]
    port: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.port)


@dataclass(frozen=True, slots=True)
class Column:
    """What one row of a batch holds, and how its source counts.

    `bits` is the width at which the source wraps (monotonic) or sticks (saturating). `source` names
    the origin in the vendor's own words (OID, path, field), for evidence. `estimated` marks values
    that are software estimates on the device. Counts are handed over as read; `scale` turns one of
    the source's units into the catalogue's (4 for InfiniBand words, 1000 for microseconds), and is
    applied after unwrapping. Gauges are handed over in catalogue units. `every` above 1: the
    source is asked for this in one of so many polls only; what it said holds until it is due again.
    """

    counter: Counter
    queue: int = NO_QUEUE
    bits: int = 64
    saturates: bool = False
    scale: int = 1
    source: str = ""
    estimated: bool = False
    every: int = 1

    @property
    def kind(self) -> Kind:
        """GAUGE, SATURATING or MONOTONIC, as this source counts."""
        if self.counter.is_gauge:
            return Kind.GAUGE
        return Kind.SATURATING if self.saturates else Kind.MONOTONIC


class ByIdentity(Generic[K, V]):
    """What was worked out for objects that stay the same from poll to poll: port sets, columns.

    Each object is held, so that no other one gets its identity. Sources that make new objects at
    each poll must not leak: where too much is remembered, all of it is forgotten.
    """

    def __init__(self) -> None:
        """Nothing remembered yet."""
        self._known: dict[int, tuple[K, V]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: K) -> V | None:
        """What was worked out for this very object."""
        known = self._known.get(id(key))
        return None if known is None else known[1]

    def put(self, key: K, value: V, size: int = 1, most: int = 65_536) -> bool:
        """Remember; whether all else was forgotten, since all sizes were more than `most`."""
        more = 0 if id(key) in self._known else size
        full = self._size + more > most
        if full:
            self.clear()
        self._known[id(key)] = (key, value)
        self._size += size if full else more
        return full

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._size = 0


@dataclass(frozen=True, slots=True, eq=False)
class ReadingBatch:
    """One reading of one target.

    values  uint64[K,N]   cumulative counts as read
    state   uint8[K,N]    `State`: OK, MISSING, UNSUPPORTED (the rest is found by normalize)
    gauges  float64[G,N]  levels; NaN where missing
    time_ns int64[N]      when the source sampled the row, wall clock; the receive time if unknown
    """

    target: str
    ports: PortSet
    columns: tuple[Column, ...]
    values: NDArray[np.uint64]
    state: NDArray[np.uint8]
    time_ns: NDArray[np.int64]
    gauge_columns: tuple[Column, ...] = ()
    gauges: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    discontinuity: bool = False
    """The source knows that its counters restarted before this reading (agent restart)."""
    partial: bool = False
    """The source tells what changed, or what answered: others of its ports may still be there."""

    def __post_init__(self) -> None:
        """Check shapes once, at the border, and freeze the arrays."""
        n = len(self.ports)
        if self.gauges.size == 0 and self.gauges.shape != (len(self.gauge_columns), n):
            object.__setattr__(self, "gauges", np.empty((len(self.gauge_columns), n)))
        shapes = (
            (self.values, (len(self.columns), n)),
            (self.state, (len(self.columns), n)),
            (self.time_ns, (n,)),
            (self.gauges, (len(self.gauge_columns), n)),
        )
        for array, shape in shapes:
            if array.shape != shape:
                raise ValueError(f"batch of {self.target}: {array.shape} where {shape} is due")
            array.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Poll:
    """The outcome of one poll that gave at least something.

    `lost` counts what could not be read (rows, replies, records) by reason; the rest still flows.
    """

    batches: tuple[ReadingBatch, ...]
    lost: Mapping[Reason, int] = field(default_factory=dict)
    topology: Topology | None = None
    """The fabric's shape, where this poll found it changed."""
