"""One tick of a whole fabric: rates, unwrapped totals, states, and the ratios made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.counters import NO_QUEUE
from fabricmon.model.readings import USABLE_BELOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.counters import Counter


PAUSE_BITS = 65_535 * 512
"""Bit times of the longest pause that one frame can ask for."""
TYPICAL_PAUSE = 0.2
"""Share of it that a pause frame stands for: 69 us of 335 at 100G, as measured on a public switch
dump. Most silicon sends a stop and a go, not the longest pause."""
STUCK_PAUSE = 0.5
"""Frames at this share of the refresh rate or more, and nothing sent: paused without a break."""
SILENT_USE = 0.01
"""Share of the link below which next to nothing is sent."""


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """Physical ratios per port, each 0..1 as share of the tick; NaN where unknown.

    stall      float32[N]    egress had data and could not send
    press      float32[N]    we kept the peer paused (the longest-paused queue)
    tx_use     float32[N]    bytes sent, over what the link carries
    rx_use     float32[N]    bytes received, over what the link carries
    estimated  bool[N]       the stall is an estimate from frame counts
    stall_low  float32[N]    lower bound of the stall (equal to it where measured)
    stall_high float32[N]    upper bound
    queue_stall float32[N,Q] egress stall of one queue
    queue_press float32[N,Q] pressure of one queue
    """

    stall: NDArray[np.float32]
    press: NDArray[np.float32]
    tx_use: NDArray[np.float32]
    rx_use: NDArray[np.float32]
    estimated: NDArray[np.bool_]
    stall_low: NDArray[np.float32]
    stall_high: NDArray[np.float32]
    queue_stall: NDArray[np.float32]
    queue_press: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class GaugeOrigins:
    """Where the gauges of a frame are from.

    number  uint8[G,N]  from 1 into the gauge's `names`; 0 where it was not read
    names   [G]         the sources of each gauge, in the vendors' own words
    rows    (id, queue or -1) -> which of the G
    at_ns   int64[N]    when the port's gauges were sampled
    """

    number: NDArray[np.uint8]
    names: tuple[tuple[str, ...], ...]
    rows: dict[tuple[str, int], int]
    at_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Odd:
    """A count that wrapped, fell, stands at its top or moved more than the link can carry.

    rows intp[M]; before, after uint64[M] as read, in the source's own units. Not every port is
    kept where many of them are odd.
    """

    counter: str
    queue: int | None
    rows: NDArray[np.intp]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Where each value of a frame is from. Series: port counters, then queue counters x Q.

    number  uint8[S,N]    from 1 into the series' `names`; 0 where nothing feeds it
    names   [S]           the sources of each series, in the vendors' own words
    group   [S]           which row of the next two a series has
    at_ns   int64[G,N]    when its latest value was sampled
    over_s  float32[G,N]  seconds its rate is taken over, NaN where this tick has none
    """

    number: NDArray[np.uint8]
    names: tuple[tuple[str, ...], ...]
    group: tuple[int, ...]
    at_ns: NDArray[np.int64]
    over_s: NDArray[np.float32]
    levels: GaugeOrigins
    odd: tuple[Odd, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One tick. Only counters that some source of the fabric has take a row.

    time_ns            the tick, wall clock
    interval_s         the nominal tick length
    counters           K port counters; `rate` float32[K,N] per second (NaN unless usable),
                       `total` uint64[K,N] unwrapped (it begins with
                       what its first source showed), `state` uint8[K,N]
    queue_counters     Kq queue counters over `queues` (Q queue numbers):
                       `queue_rate`, `queue_total`, `queue_state` [Kq,N,Q]
    gauges             id -> float32[N]; queue_gauges: id -> float32[N,Q]; NaN missing
    elapsed_s          float32[N] the time the rates are taken over, NaN where there is none
    age_s              float32[N] time since the port was last read, inf never
    """

    time_ns: int
    interval_s: float
    counters: tuple[Counter, ...]
    rate: NDArray[np.float32]
    total: NDArray[np.uint64]
    state: NDArray[np.uint8]
    queue_counters: tuple[Counter, ...]
    queues: tuple[int, ...]
    queue_rate: NDArray[np.float32]
    queue_total: NDArray[np.uint64]
    queue_state: NDArray[np.uint8]
    gauges: dict[str, NDArray[np.float32]]
    queue_gauges: dict[str, NDArray[np.float32]]
    elapsed_s: NDArray[np.float32]
    age_s: NDArray[np.float32]
    ratios: Ratios
    origins: Origins | None = None

    @property
    def n_ports(self) -> int:
        """N."""
        return len(self.age_s)

    def row(self, counter: str) -> int | None:
        """The K index of a port counter, None where no source has it."""
        return next((k for k, c in enumerate(self.counters) if c.id == counter), None)

    def queue_row(self, counter: str) -> int | None:
        """The Kq index of a queue counter, None where no source has it."""
        return next((k for k, c in enumerate(self.queue_counters) if c.id == counter), None)

    def rate_of(self, counter: str) -> NDArray[np.float32]:
        """float32[N] per second, NaN where unknown."""
        k = self.row(counter)
        return self.rate[k] if k is not None else np.full(self.n_ports, np.nan, np.float32)

    def queue_rate_of(self, counter: str) -> NDArray[np.float32]:
        """float32[N,Q] per second, NaN where unknown."""
        k = self.queue_row(counter)
        if k is not None:
            return self.queue_rate[k]
        return np.full((self.n_ports, len(self.queues)), np.nan, np.float32)

    def series(self, counter: str, queue: int | None = None) -> int | None:
        """Which series of `origins` a counter is; None where no source has it."""
        if queue is None:
            return self.row(counter)
        k = self.queue_row(counter)
        if k is None or queue not in self.queues:
            return None
        return len(self.counters) + k * len(self.queues) + self.queues.index(queue)

    def source_of(self, counter: str, row: int, queue: int | None = None) -> str:
        """What a counter of one port is read from, in the vendor's own words; empty unknown."""
        if self.origins is None:
            return ""
        series, origins = self.series(counter, queue), self.origins
        where: Origins | GaugeOrigins = origins
        if series is None:
            where = origins.levels
            series = where.rows.get((counter, NO_QUEUE if queue is None else queue))
        if series is None or row >= where.number.shape[1]:
            return ""
        number, names = int(where.number[series, row]), where.names[series]
        return names[number - 1] if 0 < number <= len(names) else ""

    def usable(self) -> NDArray[np.bool_]:
        """bool[K,N]: the value has a number."""
        usable: NDArray[np.bool_] = self.state < USABLE_BELOW
        return usable
