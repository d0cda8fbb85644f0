"""What a forest judges: physical, one-sided, phase-free numbers, the same for both technologies.

Training traffic goes on and off within a few polls, so every signal is a mean over about two
iterations. A fabric of all-to-all jobs congests a little in each of them: what counts is what lies
above the port's own past, and above its peers now. Only deviations towards congestion count: a
port that falls quiet has nothing to answer for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.detect.peers import Peers
    from fabricmon.model.window import Window

_SIGNALS = (
    ("stall", 0.0),
    ("press", 0.0),
    ("tx_use", 0.0),
    ("rx_pause", 1.0),
    ("tx_pause", 1.0),
    ("ecn", 1.0),
    ("depth", 1e-3),
    ("cnp", 1.0),
    ("drops", 60.0),
    ("errors", 60.0),
    ("downs", 60.0),
    ("resent", 60.0),
)
"""Signal, and the factor before log1p (a minute's worth of what should not happen at all, kilobytes
of depth); 0: a share of time, taken as it is."""

_AT = {name: i for i, (name, _) in enumerate(_SIGNALS)}
_LEVELS = ("stall", "press", "drops", "errors", "downs", "resent")
_LOSSES = ("drops", "errors", "downs")
_RISES = ("stall", "press", "rx_pause", "tx_pause", "ecn", "depth", "cnp", "resent", *_LOSSES)
_PEERED = ("stall", "press")
NAMES = (
    *_LEVELS,
    *(f"{name} over own past" for name in _RISES),
    *(f"{name} over peers" for name in _PEERED),
    "use over siblings",
)
"""F feature names, in row order."""

_PHASE = 1 / 6
"""Weight of the newest poll: a mean over about two iterations of a few polls."""
_UP, _DOWN = 0.05, 0.01
"""How fast a port's own past follows it upwards and downwards: a high expectile of the past."""
_FULL = 0.8
"""Use from which an uplink counts as full beside its siblings."""
LASTING = 1.0
"""Loss that is more than a stray event: log1p of a minute's worth, averaged over two iterations."""
_SHARE_STEP = 0.05
_USE_STEP = 0.3


class Features:
    """Streaming state per port: a few arrays [S,N], and no look back through the window."""

    def __init__(self) -> None:
        """No ports yet."""
        self._mean = np.full((len(_SIGNALS), 0), np.nan, np.float32)
        self._past = np.full((len(_SIGNALS), 0), np.nan, np.float32)
        self.values = np.zeros((len(NAMES), 0), np.float32)
        """float32[F,N] of the latest tick; 0 where nothing is known."""

    def update(self, window: Window, peers: Peers, frozen: NDArray[np.bool_]) -> None:
        """Take the latest tick. The past of `frozen` bool[N] ports does not learn from it."""
        now = self._read(window)
        n = now.shape[1]
        self._grow(n)
        fresh = ~np.isnan(now)
        first = fresh & np.isnan(self._mean)
        np.copyto(self._mean, now, where=first)
        np.copyto(self._past, now, where=first)
        step = np.where(fresh, now - self._mean, np.float32(0))
        self._mean += step * np.float32(_PHASE)
        self.values = self._judge(peers)
        rise = np.nan_to_num(self._mean - self._past)
        rise *= np.where(rise > 0, np.float32(_UP), np.float32(_DOWN))
        rise[:, frozen] = 0
        self._past += rise

    def _judge(self, peers: Peers) -> NDArray[np.float32]:
        """float32[F,N]: how far each port stands out, never below zero."""
        mean = self._mean
        rise = np.nan_to_num(np.maximum(mean - self._past, 0))
        values = np.empty((len(NAMES), mean.shape[1]), np.float32)
        rows = iter(values)
        for name in _LEVELS:
            next(rows)[:] = np.nan_to_num(mean[_AT[name]])
        for name in _RISES:
            next(rows)[:] = rise[_AT[name]]
        for name in _PEERED:
            over = mean[_AT[name]] - peers.middle(mean[_AT[name]])
            next(rows)[:] = np.where(np.isnan(over), rise[_AT[name]], np.maximum(over, 0))
        use = mean[_AT["tx_use"]]
        over = np.where(use > _FULL, use - peers.others(use), np.float32(0))
        next(rows)[:] = np.nan_to_num(np.maximum(over, 0))
        return values

    def evident(self) -> NDArray[np.bool_]:
        """bool[N]: the port stands out by something physical, not by how it is used.

        Held back or pressing by a twentieth of the time more than its past and its peers; losing,
        erring or flapping; or full while its siblings idle. Marks and queues alone are load.
        """
        value = dict(zip(NAMES, self.values, strict=True))
        evident = value["use over siblings"] > _USE_STEP
        for name in _PEERED:
            both = np.minimum(value[f"{name} over own past"], value[f"{name} over peers"])
            evident |= both > _SHARE_STEP
        for name in _LOSSES:
            evident |= value[f"{name} over own past"] > LASTING
        return evident

    @staticmethod
    def _read(window: Window) -> NDArray[np.float32]:
        """float32[S,N]: the signals of the latest tick, shares as they are, the rest as log1p."""
        now = np.stack([window.now(name) for name, _ in _SIGNALS])
        for row, (_, factor) in zip(now, _SIGNALS, strict=True):
            if factor:
                np.log1p(row * np.float32(factor), out=row)
        return now

    def _grow(self, n: int) -> None:
        short = n - self._mean.shape[1]
        if short > 0:
            pad = np.full((len(_SIGNALS), short), np.nan, np.float32)
            self._mean = np.concatenate([self._mean, pad], axis=1)
            self._past = np.concatenate([self._past, pad], axis=1)
