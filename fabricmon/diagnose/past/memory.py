"""What has to be remembered of each port besides its levels: onset, latches, breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.diagnose.fabric.plateau import STANDS, as_read
from fabricmon.model.ports import Saved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

RECENT = 36
"""Polls over which breaks of a link are counted."""
_BRIEF = 3
"""Polls that a link may be down and still has bounced; for longer is somebody's work."""
_RESTS = 10 * RECENT
"""Polls for which a port that rested by itself may do so again: it proves nothing of its link."""
STILL = 1e-4
"""Share of its link up to which a port sends nothing."""
_FRAMES = np.float32(20_000)
"""Bytes: a queue of a few frames is on its way, not stuck."""
_NEAR = 4
"""Polls in which a link that was down for less than one of them shows what it can do."""
_FAST = 0.7
"""Share of what it reached before: more than a link that lost half its lanes can."""
_LOSS_POLLS = 6
_CATCH_UP = 1.4
"""Times the usual traffic in the poll after a silence: the cache of the poll before came late."""
_NEVER = np.iinfo(np.int64).max
_KEPT = (
    "onset",
    "latched",
    "trouble",
    "_up",
    "_broken",
    "_silent",
    "_since_fall",
    "_uncounted",
    "_bounced",
    "_rested",
    "_stood",
    "_halted",
)


def _grown(array: NDArray[Any], n: int, fill: float) -> NDArray[Any]:
    """The array with room for N ports in its last axis."""
    more = n - array.shape[-1]
    if more <= 0:
        return array
    pad = np.full((*array.shape[:-1], more), fill, array.dtype)
    return np.concatenate([array, pad], axis=-1)


def _stands(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: more than ever stands in the queue of a port that nobody asks to stop."""
    past = np.fmax(np.nan_to_num(view.levels.high("depth")), _FRAMES)
    asked = (view.stall_now > 0) | (np.nan_to_num(view.window.now("rx_pause")) > 0)
    depth = as_read(view.frame, view.window.now("depth"))  # what has left is no sign
    stands: NDArray[np.bool_] = (depth > past) & ~asked
    return stands


def _halts(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: more than ever stands at both ends of a cable that carries less than usual.

    Its two directions share nothing but the link: neither end is asked to stop, and yet both wait.
    Before and after it sends about as fast as ever: one that no longer does is slow, not down.
    """
    use = view.window.past("tx_use", _NEAR)
    fast = np.fmax.reduce(use) >= _FAST * view.levels.high("tx_use_poll")
    one = (_stands(view) & (use[-1] < view.usual_use) & fast).astype(np.float32)
    halts: NDArray[np.bool_] = (one > 0) & (view.shape.at_peer(one, 0.0) > 0)
    return halts


def _loses(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: something was lost or sent again of late that a break of this link may explain.

    A link between switches explains it wherever it is. That of a host that counts what it sends
    again explains only what is lost there: a host with nothing under way rests.
    """
    shape, lost = view.shape, np.zeros(view.frame.n_ports, np.bool_)
    for name in ("resent", "drops", "errors"):
        lost |= (np.nan_to_num(view.window.past(name, _LOSS_POLLS)) > 0).any(axis=0)
    host = np.where(shape.host_port, shape.node, np.where(shape.faces_host, shape.beyond, -1))
    devices = len(shape.is_host)
    counts = np.bincount(shape.node, np.isfinite(view.window.now("resent")), devices) > 0
    own = np.bincount(shape.node, lost, devices) > 0
    here = own[host] | lost | (shape.at_peer(lost.astype(np.float32), 0.0) > 0)
    loses: NDArray[np.bool_] = np.where((host >= 0) & counts[host], here, lost.any())
    return loses


class Memory:
    """One per fabric.

    onset    int64[N]  tick at which the port began to be held back, a huge number if it is not
    latched  bool[N]   paused, then silent: with frame counters only, a pause that never ended
    trouble  int64[N]  latest tick at which the port was held back, lost, erred, had a queue that
                       stood as never before, or carried what its rail's or plane's others used
                       to; a huge negative number if there was none
    """

    def __init__(self) -> None:
        """Empty."""
        self.onset = np.zeros(0, np.int64)
        self.latched = np.zeros(0, np.bool_)
        self.trouble = np.zeros(0, np.int64)
        self._up = np.zeros(0, np.float32)
        self._broken = np.zeros((RECENT, 0), np.bool_)
        self._silent = np.zeros(0, np.bool_)
        self._since_fall = np.zeros(0, np.int8)  # polls down, 0 for up or too long
        self._uncounted = np.zeros(0, np.bool_)
        self._bounced = np.zeros((RECENT, 0), np.bool_)
        self._stood = np.zeros(0, np.bool_)
        self._halted = np.zeros(0, np.bool_)
        self._rested = np.zeros(0, np.int64)
        """Latest tick at which a silence ended in which nothing was lost anywhere."""

    def save(self) -> Saved:
        """All of it."""
        saved = Saved()
        saved.attributes(self, _KEPT)
        return saved

    @classmethod
    def restored(cls, saved: Saved) -> Memory:
        """Go on from there. Raises `KeyError` or `ValueError` where it was of another kind."""
        memory = cls()
        saved.give_back(memory, _KEPT)
        return memory

    def before(self, view: FabricView) -> None:
        """Take what this tick shows of links and silence; rules have not run yet."""
        n = view.frame.n_ports
        self.onset = _grown(self.onset, n, _NEVER)
        self.latched = _grown(self.latched, n, 0)
        self.trouble = _grown(self.trouble, n, -_NEVER)
        self._up = _grown(self._up, n, np.nan)
        self._broken = _grown(self._broken, n, 0)
        self._silent = _grown(self._silent, n, 0)
        self._since_fall = _grown(self._since_fall, n, 0)
        self._uncounted = _grown(self._uncounted, n, 0)
        self._bounced = _grown(self._bounced, n, 0)
        self._rested = _grown(self._rested, n, -_NEVER)
        self._stood = _grown(self._stood, n, 0)
        self._halted = _grown(self._halted, n, 0)
        self._latch(view)
        self._count_breaks(view)

    def after(self, view: FabricView) -> None:
        """Note since when each port is held back, and where there is trouble."""
        held = view.held > 0
        self.onset = np.where(held, np.minimum(self.onset, view.window.ticks), _NEVER)
        bad = held | (view.queue >= STANDS) | (view.marks >= STANDS)
        for name in ("errors", "drops"):
            bad |= np.nan_to_num(view.levels.now(name)) > 0
        again = np.nan_to_num(view.levels.now("resent"))  # it was lost, wherever that was
        sent = np.nan_to_num(view.frame.rate_of("tx_packets"))
        past = np.nan_to_num(view.levels.high("resent"))
        bad |= again > np.fmax(view.config.loss * sent, 2 * past)
        for one in view.uneven:
            bad[one.full] = True
        self.trouble[bad] = view.window.ticks

    def _latch(self, view: FabricView) -> None:
        """Silence that is no rest: after a surge of pauses, or with a queue that cannot leave."""
        sent = view.window.now("tx_use")
        surge = np.nan_to_num(view.window.past("rx_pause", 3))
        past = np.nan_to_num(view.levels.high("rx_pause"))
        told = (surge > 3 * past + 10).any(axis=0)
        was_used = (np.nan_to_num(view.usual_use) > 0.02) | (surge > 3 * past + 10).all(axis=0)
        silent = sent <= STILL
        estimated = view.frame.ratios.estimated
        told = told | self._stuck(view)
        up = view.frame.gauges.get("oper_up")
        carries = ~(up < 0.5) if up is not None else np.True_  # what is down sends nothing anyway
        self.latched = silent & was_used & estimated & carries & (self.latched | told)

    @staticmethod
    def _stuck(view: FabricView) -> NDArray[np.bool_]:
        """bool[N]: two polls without a byte sent, and more than ever stands in the queue."""
        past = np.fmax(np.nan_to_num(view.levels.high("depth")), _FRAMES)
        stands = np.all(view.window.past("depth", 2) > past, axis=0)
        stuck: NDArray[np.bool_] = stands & np.all(view.window.past("tx_use", 2) <= STILL, axis=0)
        return stuck

    def _count_breaks(self, view: FabricView) -> None:
        """A break: a down was counted, the state fell, or a silence of both directions ended.

        A device that renews its counters late looks silent too, but then it catches up: what it
        had not told comes on top; a link that was down has nothing to tell afterwards. And a job
        may rest: only a silence in which something was lost, or waits at the port, is a break.
        A down that is shorter than a poll shows as a poll in which both directions wait.
        """
        up = view.frame.gauges.get("oper_up", np.full(view.frame.n_ports, np.nan, np.float32))
        downs = view.frame.rate_of("link_downed")
        counted, fell = np.nan_to_num(downs) > 0, (up < 0.5) & (self._up > 0.5)
        broke = (counted & ~self._uncounted) | fell  # some count a down when it is over
        self._uncounted = (self._uncounted | fell) & ~counted
        told = ~np.isnan(downs) | ~np.isnan(up)
        self._up = np.where(np.isnan(up), self._up, up)
        down = up < 0.5
        back = (counted | (self._since_fall > 0)) & ~down
        longer = (self._since_fall > 0) & (self._since_fall < _BRIEF)
        since = np.where(longer, self._since_fall + 1, 0) + (broke & down)
        self._since_fall = np.where(down, since, 0).astype(np.int8)
        told |= view.shape.at_peer(told.astype(np.float32), 0.0) > 0
        quiet = self._quiet(view)
        silent = self._alone_silent(view, quiet) & ~told
        ended = self._silent & ~silent & ~self._catches_up(view)
        broke |= self._stood & ~quiet & ~told
        halts = _halts(view) & ~quiet & ~told
        loses = _loses(view)
        broke |= loses & ended & (self._rested < view.window.ticks - _RESTS)
        broke |= loses & halts & ~self._halted
        if not loses.any():
            self._rested[ended & ~self._stood] = view.window.ticks
        self._stood = quiet & (self._stood | _stands(view))
        self._silent, self._halted = silent, halts
        self._broken[view.window.ticks % RECENT] = broke
        self._bounced[view.window.ticks % RECENT] = back

    @staticmethod
    def _catches_up(view: FabricView) -> NDArray[np.bool_]:
        """bool[N]: this poll tells clearly more than one poll's usual traffic.

        More than usual, more than the link can carry, or usual traffic over a longer time.
        """
        frame, usual = view.frame, np.nan_to_num(view.usual_use)
        polls = frame.elapsed_s / np.float32(frame.interval_s)
        told = view.window.now("tx_use") * polls
        more: NDArray[np.bool_] = np.isnan(told) | (told > _CATCH_UP * usual)
        return more

    @staticmethod
    def _quiet(view: FabricView) -> NDArray[np.bool_]:
        """bool[N]: nothing either way on a link that is used."""
        now = view.window.now
        none = (now("tx_use") <= STILL) & (now("rx_use") <= STILL)
        quiet: NDArray[np.bool_] = none & (np.nan_to_num(view.usual_use) > 0.05)
        return quiet

    @staticmethod
    def _alone_silent(view: FabricView, none: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[N]: the `none` that say nothing while ports like them carry on."""
        now = view.window.now
        if not none.any():
            return none
        group = view.shape.alike
        use, usual = np.nan_to_num(now("tx_use")), np.nan_to_num(view.usual_use)
        others = np.bincount(group, use, group.max() + 1) - 0.0
        expected = np.bincount(group, usual, group.max() + 1)
        size = np.bincount(group, minlength=group.max() + 1)
        carry_on = (others > 0.4 * expected) & (size >= 3)
        silent: NDArray[np.bool_] = none & carry_on[group]
        return silent

    def breaks(self) -> NDArray[np.int64]:
        """int64[N]: breaks among the recent polls."""
        count: NDArray[np.int64] = self._broken.sum(axis=0)
        return count

    def when(self, row: int, ticks: int) -> list[int]:
        """How many polls ago the port's recent breaks were, the oldest first; `ticks` is now."""
        ago = (ticks - np.flatnonzero(self._broken[:, row])) % RECENT
        return [int(polls) for polls in sorted(ago, reverse=True)]

    def bounced(self) -> NDArray[np.bool_]:
        """bool[N]: told of a down in one of the recent polls, and up again soon."""
        return np.asarray(self._bounced.any(axis=0))
