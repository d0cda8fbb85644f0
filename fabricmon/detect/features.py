"""What a forest judges: physical, one-sided, phase-free numbers, the same for both technologies.

Training traffic goes on and off within a few polls, so every signal is a mean over about two
iterations. A fabric of all-to-all jobs congests a little in each of them: what counts is what lies
above the port's own past, and above its peers now. Only deviations towards congestion count: a
port that falls quiet has nothing to answer for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.ports import Saved

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
    "depth at less use",
)
"""F feature names, in row order."""

_KEPT = ("_mean", "_past", "_begun")
_PHASE = 1 / 6
"""Weight of the newest poll: a mean over about two iterations of a few polls."""
_UP, _DOWN = 0.05, 0.01
"""How fast a port's own past follows it upwards and downwards: a high expectile of the past."""
_FULL = 0.8
"""Use from which an uplink counts as full beside its siblings."""
LASTING = 1.0
"""Loss that is more than a stray event: log1p of a minute's worth, averaged over two iterations."""
_LESS = 0.75
"""Share of a port's usual use below which it sends less than it did."""
_STANDING = 1.0
"""A queue e times as deep as usual, and e^2 times as many marks (marks alone, without depths)."""
_SHARE_STEP = 0.05
_USE_STEP = 0.3


class Features:
    """Streaming state per port: two arrays [S,N], and no look back through the window.

    Works row by row: a row of a large fabric fits the cache, all of them do not.
    """

    def __init__(self) -> None:
        """No ports yet."""
        self._mean = np.zeros((len(_SIGNALS), 0), np.float32)
        self._past = np.zeros((len(_SIGNALS), 0), np.float32)
        self._begun = np.zeros((len(_SIGNALS), 0), np.bool_)
        self.values = np.zeros((len(NAMES), 0), np.float32)
        """float32[F,N] of the latest tick; 0 where nothing is known. Written anew each tick."""

    def update(self, window: Window, peers: Peers, frozen: NDArray[np.bool_]) -> None:
        """Take the latest tick. The past of `frozen` bool[N] ports does not learn from it."""
        self._grow(len(frozen))
        rises = {}
        less = np.zeros(len(frozen), np.bool_)
        learning = np.float32(_UP) * ~frozen, np.float32(_DOWN) * ~frozen
        for i, (name, factor) in enumerate(_SIGNALS):
            mean, past = self._mean[i], self._past[i]
            self._move(i, window.now(name), factor)
            over = mean - past
            rises[name] = np.maximum(over, 0)
            if name == "tx_use":
                less = mean < past * np.float32(_LESS)
            past += over * np.where(over > 0, *learning)
        self._judge(rises, less, peers)

    def _move(self, row: int, now: NDArray[np.float32], factor: float) -> None:
        """Move the mean towards the signal; where the signal is unknown, nothing moves."""
        mean, begun = self._mean[row], self._begun[row]
        fresh = now == now  # noqa: PLR0124 - false where NaN, in a single pass
        if factor:
            now = np.log1p(now * np.float32(factor)) if np.fmax.reduce(now, initial=0) > 0 else now
        whole = bool(fresh.all())
        step = (now - mean) * np.float32(_PHASE)
        if not whole:
            step[~fresh] = 0
        mean += step
        first = fresh & ~begun
        if first.any():
            np.copyto(mean, now, where=first)
            np.copyto(self._past[row], now, where=first)
            begun |= first

    def _judge(
        self, rises: dict[str, NDArray[np.float32]], less: NDArray[np.bool_], peers: Peers
    ) -> None:
        """Write how far each port stands out, never below zero."""
        rows = iter(self.values)
        for name in _LEVELS:
            next(rows)[:] = self._mean[_AT[name]]
        for name in _RISES:
            next(rows)[:] = rises[name]
        for name in _PEERED:
            mean, out = self._mean[_AT[name]], next(rows)
            np.maximum(mean - peers.middle(mean), 0, out=out)
            np.copyto(out, rises[name], where=np.isnan(out))
        use, out = self._mean[_AT["tx_use"]], next(rows)
        out[:] = 0
        full = np.flatnonzero(use > _FULL)
        if len(full):
            out[full] = np.fmax(use - peers.others(use), 0)[full]
        marks = rises["ecn"] / 2
        depth = np.where(self._begun[_AT["depth"]], np.minimum(rises["depth"], marks), marks)
        next(rows)[:] = depth * less

    def evident(self) -> NDArray[np.bool_]:
        """bool[N]: the port stands out by something physical, not by how it is used.

        Held back or pressing by a twentieth of the time more than its past and its peers; losing,
        erring or flapping; full while its siblings idle; or with a queue that grew while the port
        sends less, which is how working congestion control hides a slow receiver or a slow link.
        Marks and queues alone are load.
        """
        value = dict(zip(NAMES, self.values, strict=True))
        evident = value["use over siblings"] > _USE_STEP
        evident |= value["depth at less use"] > _STANDING
        for name in _PEERED:
            both = np.minimum(value[f"{name} over own past"], value[f"{name} over peers"])
            evident |= both > _SHARE_STEP
        for name in _LOSSES:
            evident |= value[f"{name} over own past"] > LASTING
        return evident

    def save(self) -> Saved:
        """Means and pasts of every port."""
        saved = Saved()
        saved.attributes(self, _KEPT)
        saved.write("signals", [name for name, _ in _SIGNALS])
        return saved

    @classmethod
    def restored(cls, saved: Saved) -> Features:
        """Go on from there. Raises `ValueError` or `KeyError` where it was of another kind."""
        features = cls()
        if saved.read("signals") != [name for name, _ in _SIGNALS]:
            raise ValueError("the features are of other signals")
        saved.give_back(features, _KEPT)
        return features

    def _grow(self, n: int) -> None:
        for name in ("_mean", "_past", "_begun", "values"):
            old = getattr(self, name)
            if n > old.shape[1]:
                pad = np.zeros((len(old), n - old.shape[1]), old.dtype)
                setattr(self, name, np.concatenate([old, pad], axis=1))
