"""Healthy rows to learn from: a bounded sample per kind, without anything that was diagnosed.

A row waits some ticks before it counts as healthy, so that what turns out to be the beginning of an
incident is taken back; ports stay out until some ticks after their last alarm.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.detect.peers import Peers

_CAPACITY = 4096
"""Rows kept per kind: a forest draws 256 a tree, the tail needs a few thousand."""
_PER_TICK = 64
_MARGIN = 5
"""Ticks around an alarm that are not taken as healthy."""


class Nursery:
    """Reservoirs float32[M,F] per kind; the oldest rows fade out at random once one is full."""

    def __init__(self, seed: int) -> None:
        """Empty; `seed` makes the sampling repeatable."""
        self._generator = np.random.default_rng(seed)
        self._waiting: deque[tuple[int, NDArray[np.int16], NDArray[np.intp], NDArray[np.float32]]]
        self._waiting = deque()
        self._rows: dict[int, NDArray[np.float32]] = {}
        self._filled: dict[int, int] = {}
        self._tainted = np.empty(0, np.int64)
        """int64[N]: the tick until which a port is kept out."""

    def tainted(self, tick: int, ports: int) -> NDArray[np.bool_]:
        """bool[N]: ports that are kept out now."""
        short = ports - len(self._tainted)
        if short > 0:
            self._tainted = np.concatenate([self._tainted, np.full(short, -1)])
        return self._tainted[:ports] >= tick

    def taint(self, tick: int, rows: NDArray[np.intp]) -> None:
        """Keep these ports out for a while, and take back what they handed in last."""
        self._tainted[rows] = tick + _MARGIN
        for i, (when, kinds, ports, values) in enumerate(self._waiting):
            keep = self._tainted[ports] < tick
            if not keep.all():
                self._waiting[i] = (when, kinds[keep], ports[keep], values[keep])

    def take(
        self,
        tick: int,
        peers: Peers,
        healthy: NDArray[np.bool_],
        values: NDArray[np.float32],
    ) -> None:
        """Sample some healthy ports of each kind. `values` float32[F,N]."""
        chosen = []
        for one in peers.kinds:
            ports = np.flatnonzero(healthy & (peers.kind == one))
            if len(ports) > _PER_TICK:
                ports = ports[self._generator.integers(0, len(ports), _PER_TICK)]
            chosen.append(ports)
        if chosen:
            ports = np.concatenate(chosen)
            self._waiting.append((tick, peers.kind[ports], ports, values[:, ports].T))
        while self._waiting and self._waiting[0][0] + _MARGIN <= tick:
            self._mature()

    def samples(self) -> dict[int, NDArray[np.float32]]:
        """float32[M,F] per kind: everything that waited long enough, copied."""
        return {kind: rows[: self._filled[kind]].copy() for kind, rows in self._rows.items()}

    def count(self, kind: int) -> int:
        """Rows that `samples` has of a kind."""
        return self._filled.get(kind, 0)

    @property
    def kept_out(self) -> NDArray[np.int64]:
        """int64[N]: the tick until which each port is kept out, -1 never."""
        return self._tainted

    def restore(self, samples: dict[int, NDArray[np.float32]], kept_out: NDArray[np.int64]) -> None:
        """Begin with rows [M,F] by kind, and `kept_out` int64[N], that an earlier run had."""
        self._tainted = kept_out
        for kind, rows in samples.items():
            self._add(kind, rows)

    def _mature(self) -> None:
        _, kinds, _, values = self._waiting.popleft()
        for kind in np.unique(kinds):
            self._add(int(kind), values[kinds == kind])

    def _add(self, kind: int, rows: NDArray[np.float32]) -> None:
        if kind not in self._rows:
            self._rows[kind] = np.empty((_CAPACITY, rows.shape[1]), np.float32)
            self._filled[kind] = 0
        have = self._filled[kind]
        room = min(_CAPACITY - have, len(rows))
        self._rows[kind][have : have + room] = rows[:room]
        self._filled[kind] = have + room
        rest = rows[room:]
        self._rows[kind][self._generator.integers(0, _CAPACITY, len(rest))] = rest
