"""Which way flows go: shortest paths over any topology, chosen as switches choose.

* `static`: by destination (what InfiniBand's fat-tree routing and well-planned ECMP give; a
  permutation such as a ring then has no collisions on equal-speed tiers),
* `ecmp`: by a hash of the flow, so that flows collide,
* `adaptive`: each flow is spread evenly over several ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import FabricmonError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.fabric.wiring import Wiring

PAD = -1
_FAR = np.int16(10_000)
_MAX_HOPS = 12


def _mix(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[]: well-spread, repeatable hash of small integers, 0 <= h < 2^31."""
    h = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return (h >> np.uint64(33)).astype(np.int64)


class Router:
    """Paths over one wiring, with some links out of use."""

    def __init__(self, wiring: Wiring, up: NDArray[np.bool_] | None = None) -> None:
        """`up[E]` says which directed links carry traffic; all by default."""
        self._wiring = wiring
        self._up = np.ones(len(wiring), np.bool_) if up is None else up
        self._build_neighbours()
        tops = np.unique(wiring.target[wiring.cards])
        self._column = np.full(len(wiring.tier), -1, np.int32)
        self._column[tops] = np.arange(len(tops))
        self._planned = self._distances(tops, self._inner)
        alive = self._inner[self._up[self._inner]]
        same = len(alive) == len(self._inner)
        self._distance = self._planned if same else self._distances(tops, alive)
        self._place = self._places()

    def _build_neighbours(self) -> None:
        """out[V, D]: directed links between switches that leave each node, padded with PAD."""
        wiring = self._wiring
        tier = wiring.tier
        inner = (tier[wiring.source] > 0) & (tier[wiring.target] > 0)
        links = np.flatnonzero(inner)
        links = links[np.lexsort((links, wiring.source[links]))]
        owner = wiring.source[links]
        degree = np.bincount(owner, minlength=len(tier))
        slot = np.arange(len(links)) - (np.cumsum(degree) - degree)[owner]
        self._out = np.full((len(tier), max(1, int(degree.max(initial=0)))), PAD, np.int32)
        self._out[owner, slot] = links
        self._inner = links

    def _distances(self, tops: NDArray[np.int32], links: NDArray[np.intp]) -> NDArray[np.int16]:
        """int16[V, L]: hops over `links` from each switch to each one that has hosts."""
        wiring = self._wiring
        distance = np.full((len(wiring.tier), len(tops)), _FAR, np.int16)
        distance[tops, np.arange(len(tops))] = 0
        source, target = wiring.source[links], wiring.target[links]
        starts = np.flatnonzero(np.r_[True, source[1:] != source[:-1]]) if len(source) else source
        for _ in range(_MAX_HOPS):
            if not len(source):
                break
            best = np.minimum.reduceat(distance[target], starts, axis=0) + np.int16(1)
            old = distance[source[starts]]
            if (best >= old).all():
                break
            distance[source[starts]] = np.minimum(old, best)
        return distance

    def _places(self) -> NDArray[np.int64]:
        """int64[E]: for the last link of a path, the number of its host on its own switch."""
        wiring = self._wiring
        place = np.zeros(len(wiring), np.int64)
        order = wiring.cards[np.argsort(wiring.target[wiring.cards], kind="stable")]
        owner = wiring.target[order]
        count = np.bincount(owner, minlength=len(wiring.tier))
        place[order ^ 1] = np.arange(len(order)) - (np.cumsum(count) - count)[owner]
        return place

    def paths(
        self,
        start: NDArray[np.int32],
        end: NDArray[np.int32],
        *,
        mode: str = "static",
        ways: int = 4,
        salt: int = 0,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Paths from cards `start[F]` to cards `end[F]`.

        Gives `path` int32[F*, H] (directed links, PAD at the end) and `flow` int64[F*], the index
        of the flow each path belongs to: several under `adaptive`, none where no way is left.
        """
        flow = np.arange(len(start), dtype=np.int64)
        split = np.zeros(len(start), np.int64)
        if mode == "adaptive":
            flow = np.repeat(flow, ways)
            split = np.tile(np.arange(ways, dtype=np.int64), len(start))
        first, last = start[flow], end[flow] ^ 1
        usable = self._up[first] & self._up[last]
        key = self._keys(mode, flow, last, split, salt)
        path, arrived = self._walk(first, last, key, mode)
        good = usable & arrived
        return path[good], flow[good]

    def onward(self, node: int, last: int) -> list[int]:
        """The links from switch `node` to the end of `last`, a link into a host."""
        wiring = self._wiring
        column = self._column[wiring.source[last]]
        way: list[int] = []
        while node != wiring.source[last]:
            out = self._out[node]
            ahead = self._distance[wiring.target[out], column]
            good = out[(out != PAD) & (ahead < self._distance[node, column])]
            if not len(good):
                return []
            way.append(int(good[self._place[last] % len(good)]))
            node = int(wiring.target[way[-1]])
        return [*way, int(last)]

    def _keys(
        self,
        mode: str,
        flow: NDArray[np.int64],
        last: NDArray[np.int32],
        split: NDArray[np.int64],
        salt: int,
    ) -> NDArray[np.int64]:
        if mode == "static":
            return self._place[last]
        if mode == "ecmp":
            return _mix(flow * 7919 + last * 104_729 + salt * 15_485_863)
        if mode == "adaptive":
            return self._place[last] + split
        raise FabricmonError(f"{mode!r} is not a way to route: static, ecmp or adaptive")

    def _walk(
        self,
        first: NDArray[np.int32],
        last: NDArray[np.int32],
        key: NDArray[np.int64],
        mode: str,
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        wiring = self._wiring
        here = wiring.target[first]
        column = self._column[wiring.source[last]]
        hops = [first]
        rest = key.copy()
        arrived = here == wiring.source[last]
        for step in range(_MAX_HOPS):
            walking = ~arrived
            if not walking.any():
                break
            out = self._out[here]
            ways = self._closer(self._planned, here, out, column)
            live = self._closer(self._distance, here, out, column) & self._up[out]
            walking &= live.any(axis=1)
            pick = _nth(ways, rest)
            width = np.maximum(ways.sum(axis=1), 1)
            rest = _mix(rest + step * 31 + 1) if mode == "ecmp" else rest // width + column
            rows = np.arange(len(out))
            moved = ~live[rows, pick]  # only what the dead way carried goes elsewhere
            pick = np.where(moved, _nth(live, rest), pick)
            step_link = np.where(walking, out[rows, pick], PAD).astype(np.int32)
            hops.append(step_link)
            here = np.where(walking, wiring.target[step_link], here)
            arrived |= walking & (here == wiring.source[last])
            if not walking.any():
                break
        return _close(hops, last, arrived), arrived

    def _closer(
        self,
        distance: NDArray[np.int16],
        here: NDArray[np.int32],
        out: NDArray[np.int32],
        column: NDArray[np.int32],
    ) -> NDArray[np.bool_]:
        """bool[F,D]: which links out of `here` lead one hop nearer."""
        ahead = distance[self._wiring.target[out], column[:, None]]
        nearer: NDArray[np.bool_] = (out != PAD) & (ahead == distance[here, column][:, None] - 1)
        return nearer


def _nth(choices: NDArray[np.bool_], key: NDArray[np.int64]) -> NDArray[np.intp]:
    """intp[F]: position of the `key`-th true of each row, counted round and round."""
    count = np.maximum(choices.sum(axis=1), 1)
    rank = np.cumsum(choices, axis=1) - 1
    return (choices & (rank == (key % count)[:, None])).argmax(axis=1)


def _close(
    hops: list[NDArray[np.int32]], last: NDArray[np.int32], arrived: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """int32[F,H]: the hops with the last link right after the final one."""
    path = np.full((len(last), len(hops) + 1), PAD, np.int32)
    path[:, : len(hops)] = np.stack(hops, axis=1)
    length = (path != PAD).sum(axis=1)
    path[np.arange(len(last)), length] = np.where(arrived, last, PAD)
    return path
