"""The recent past of a fabric: a ring of per-port signals, one slot a tick.

Detection and diagnosis both look back through it; the pipeline owns it and pushes each frame.
Memory is 4 x signals x capacity x N bytes: 15 signals x 60 ticks x 100,000 ports = 360 MB.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.ports import Saved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.model.frame import Frame

KEPT = 4
"""Frames kept whole: the polls that a level is a mean of, and the one before, as evidence."""
SIGNALS = (
    "stall",  # share of the tick: egress had data and could not send
    "press",  # share of the tick: we kept the peer paused
    "tx_use",  # share of what the link carries
    "rx_use",
    "tx_rate",  # bytes per second
    "rx_rate",
    "rx_pause",  # pause frames per second, global and PFC of all queues
    "tx_pause",
    "ecn",  # marked packets per second, all queues
    "drops",  # discarded packets per second, port and queue counters together
    "errors",  # faulty packets, symbol and uncorrected FEC errors per second
    "downs",  # link-down events and recoveries per second
    "depth",  # bytes standing in the deepest queue
    "resent",  # host: out-of-sequence, retransmitted, timed out, per second
    "cnp",  # host: congestion notifications sent and handled, per second
)
"""What is kept per port and tick. NaN = unknown."""

_INDEX = {name: i for i, name in enumerate(SIGNALS)}
PORT_RATES = {
    "tx_rate": ("tx_bytes",),
    "rx_rate": ("rx_bytes",),
    "rx_pause": ("rx_pause_frames",),
    "tx_pause": ("tx_pause_frames",),
    "drops": ("rx_discards", "tx_discards", "hoq_discards", "rx_buffer_discards"),
    "errors": ("rx_errors", "tx_errors", "symbol_errors", "fec_uncorrected"),
    "downs": ("link_downed", "link_recoveries"),
    "resent": ("out_of_sequence", "retransmits", "ack_timeouts"),
    "cnp": ("cnp_sent", "cnp_handled"),
}
"""Signals that are sums of rates of port counters ..."""
QUEUE_RATES = {
    "rx_pause": ("rx_pfc_frames",),
    "tx_pause": ("tx_pfc_frames",),
    "ecn": ("ecn_marked_packets",),
    "drops": ("queue_discards",),
}
"""... and of queue counters, all queues."""
DEPTHS = ("queue_depth_peak_bytes", "queue_depth_bytes")
"""Gauges whose largest, over all queues, is the signal `depth`."""


def _sum_known(parts: list[NDArray[np.float32]], n: int) -> NDArray[np.float32]:
    """float32[N]: the sum of what is known; NaN only where nothing is. Rates are never negative.

    With one of the two unknown their sum is NaN, and the larger known one is the other.
    """
    total = np.full(n, np.nan, np.float32)
    for part in parts:
        larger = np.fmax(total, part)
        np.fmax(total + part, larger, out=total)
    return total


def signals_of(frame: Frame) -> NDArray[np.float32]:
    """float32[S,N]: the signals of one frame, in the order of `SIGNALS`."""
    n = frame.n_ports
    out = np.full((len(SIGNALS), n), np.nan, np.float32)
    for name in ("stall", "press", "tx_use", "rx_use"):
        out[_INDEX[name]] = getattr(frame.ratios, name)
    for name in {**PORT_RATES, **QUEUE_RATES}:
        parts = [frame.rate[k] for c in PORT_RATES.get(name, ()) if (k := frame.row(c)) is not None]
        for counter in QUEUE_RATES.get(name, ()):
            k = frame.queue_row(counter)
            if k is not None:
                parts.extend(frame.queue_rate[k].T)
        out[_INDEX[name]] = _sum_known(parts, n)
    depths = [frame.queue_gauges[name] for name in DEPTHS if name in frame.queue_gauges]
    if depths:
        out[_INDEX["depth"]] = np.fmax.reduce(np.concatenate(depths, axis=1), axis=1)
    return out


class Window:
    """Ring of the last `capacity` (W) ticks."""

    def __init__(self, capacity: int = 60) -> None:
        """Empty; arrays grow with the fabric."""
        self.capacity = capacity
        self.frames: deque[Frame] = deque(maxlen=KEPT)
        """The latest frames whole, oldest first."""
        self.ticks = 0
        """Frames pushed so far."""
        self._ring = np.full((len(SIGNALS), capacity, 0), np.nan, np.float32)
        self._times = np.zeros(capacity, np.int64)

    def push(self, frame: Frame) -> None:
        """Take one tick."""
        known = self._ring.shape[2]
        if frame.n_ports > known:
            ring = np.empty((len(SIGNALS), self.capacity, frame.n_ports), np.float32)
            ring[:, :, :known], ring[:, :, known:] = self._ring, np.nan
            self._ring = ring
        slot = self.ticks % self.capacity
        self._ring[:, slot] = signals_of(frame)
        self._times[slot] = frame.time_ns
        self.frames.append(frame)
        self.ticks += 1

    @property
    def frame(self) -> Frame | None:
        """The latest frame."""
        return self.frames[-1] if self.frames else None

    def save(self) -> Saved:
        """All of it but the latest frame."""
        saved = Saved({"ring": self._ring}, {"times": self._times})
        saved.write("about", {"signals": SIGNALS, "ticks": self.ticks})
        return saved

    def restored(self, saved: Saved) -> Window:
        """A new window of what was saved. Raises `ValueError` where it was of another kind."""
        window, about = Window(self.capacity), saved.read("about")
        if about["signals"] != list(SIGNALS):
            raise ValueError(f"the window holds other signals: {about['signals']}")
        saved.give_back(window, ["_ring"])
        window._times, window.ticks = saved.other["times"], int(about["ticks"])
        return window

    def __len__(self) -> int:
        """Ticks held, at most `capacity`."""
        return min(self.ticks, self.capacity)

    def _slots(self, last: int | None) -> NDArray[np.intp]:
        held = len(self) if last is None else min(last, len(self))
        return np.arange(self.ticks - held, self.ticks) % self.capacity

    def past(self, signal: str, last: int | None = None) -> NDArray[np.float32]:
        """float32[W,N]: up to `last` ticks of one signal, oldest first (a copy)."""
        return self._ring[_INDEX[signal], self._slots(last)]

    def now(self, signal: str) -> NDArray[np.float32]:
        """float32[N]: the signal at the latest tick (a view; do not write)."""
        return self._ring[_INDEX[signal], (self.ticks - 1) % self.capacity]

    def of_port(self, row: int) -> NDArray[np.float32]:
        """float32[S,W]: every signal of one port, oldest tick first (a copy); NaN where unknown."""
        if row >= self._ring.shape[2]:
            return np.full((len(SIGNALS), len(self)), np.nan, np.float32)
        return self._ring[:, self._slots(None), row]

    def times(self, last: int | None = None) -> NDArray[np.int64]:
        """int64[W]: when those ticks were, nanoseconds, oldest first."""
        return self._times[self._slots(last)]
