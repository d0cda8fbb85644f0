"""One tick of a whole fabric: rates, unwrapped totals, states, and the ratios made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.readings import USABLE_BELOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.counters import Counter


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
class Origins:
    """Which column of a source feeds each series. Series: port counters, then queue counters x Q.

    number  uint8[S,N]  from 1 into the series' `names`; 0 where nothing feeds it
    names   [S]         the sources of each series, in the vendors' own words
    """

    number: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    names: tuple[tuple[str, ...], ...] = ()


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
    origins: Origins = field(default_factory=Origins)

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

    def source_of(self, counter: str, row: int, queue: int | None = None) -> str:
        """What a counter of one port is read from, in the vendor's own words; empty unknown."""
        series = self.row(counter)
        if queue is not None and queue in self.queues:
            k = self.queue_row(counter)
            offset = len(self.counters) + self.queues.index(queue)
            series = None if k is None else offset + k * len(self.queues)
        if series is None or series >= len(self.origins.names):
            return ""
        number, names = int(self.origins.number[series, row]), self.origins.names[series]
        return names[number - 1] if 0 < number <= len(names) else ""

    def usable(self) -> NDArray[np.bool_]:
        """bool[K,N]: the value has a number."""
        usable: NDArray[np.bool_] = self.state < USABLE_BELOW
        return usable
