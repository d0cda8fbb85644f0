"""The most that a counter can move in a second: the border between counts and nonsense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.counters import Counter
    from fabricmon.model.ports import PortTable

_UNKNOWN_SPEED_BPS = 1.6e12
"""Faster than any port today: what a port of unknown speed is allowed."""
_SMALLEST_PACKET = 64.0
_SLACK = 1.1
_JITTER_S = 0.1
"""How far a sample's stamp may be from the moment at which the device counted."""


class Limits:
    """Per second and port, by unit: bytes and packets at line rate, a second of ns a second."""

    def __init__(self, table: PortTable) -> None:
        """Nothing is computed before `renew`."""
        self._table = table
        self._version = -1
        self._by_unit: dict[str, NDArray[np.float32]] = {}
        self._slack = 0.0

    def renew(self, interval_s: float) -> None:
        """Follow link speeds, and allow for jitter at this tick length."""
        slack = _SLACK + _JITTER_S / interval_s
        if self._version != self._table.version or slack != self._slack:
            self._version, self._slack = self._table.version, slack
            self._by_unit.clear()

    def of(self, counter: Counter) -> NDArray[np.float32]:
        """float32[N]: catalogue units a second that are still believed."""
        unit = counter.unit if counter.unit in {"bytes", "ns", "ticks"} else "packets"
        if unit not in self._by_unit:
            self._by_unit[unit] = (self._per_second(unit) * self._slack).astype(np.float32)
        return self._by_unit[unit]

    def _per_second(self, unit: str) -> NDArray[np.float64]:
        known = self._table.speed_bps
        octets = np.where(known > 0, known, _UNKNOWN_SPEED_BPS) / 8
        match unit:
            case "bytes":
                return octets
            case "ns":
                return np.full(len(octets), 1e9)
            case "ticks":  # a tick is a byte time at the least
                tick = self._table.tick_bytes
                return octets / np.where(tick > 0, tick, 1.0)
            case _:
                return octets / _SMALLEST_PACKET
