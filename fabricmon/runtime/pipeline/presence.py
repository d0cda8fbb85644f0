"""Which ports are there: those that the targets that answered name.

A port is gone when every answer of its target leaves it out, at once; silence of the target is no
such answer. N is the size of the port table, which grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Presence:
    """The rows that each target named last, and those that none names any more."""

    def __init__(self) -> None:
        """Nothing heard yet."""
        self._rows: dict[str, NDArray[np.int32]] = {}
        self._heard: dict[str, list[NDArray[np.int32]]] = {}  # since the last tick
        self._gone = np.zeros(0, np.bool_)

    def hear(self, target: str, rows: NDArray[np.int32], *, partial: bool) -> None:
        """An answer of `target` named these rows, int32[M]; -1 stands for a port that has none.

        A `partial` one tells what changed: the target's other ports are still there.
        """
        rows = rows[rows >= 0]
        if partial:
            rows = np.union1d(rows, self._rows.get(target, rows))
        self._heard.setdefault(target, []).append(rows)

    def settle(self, ports: int) -> NDArray[np.bool_]:
        """bool[N], N = `ports`: those that are there, after all that was heard until now."""
        missing = ports - len(self._gone)
        if missing > 0:
            self._gone = np.concatenate([self._gone, np.zeros(missing, np.bool_)])
        for target, heard in self._heard.items():
            now = heard[0] if len(heard) == 1 else np.unique(np.concatenate(heard))
            before = self._rows.get(target)
            if before is not now:
                if before is not None:
                    self._gone[before] = True
                self._rows[target] = now
            self._gone[now] = False
        self._heard.clear()
        return ~self._gone[:ports]

    def forget(self, target: str) -> None:
        """The target is asked no more: what only it named is gone."""
        rows = self._rows.pop(target, None)
        if rows is not None:
            kept = list(self._rows.values())
            self._gone[np.setdiff1d(rows, np.concatenate(kept)) if kept else rows] = True

    def only(self, rows: NDArray[np.intp]) -> None:
        """Only these rows, intp[M], are left in the table, as 0, 1, 2 ..."""
        place = np.full(len(self._gone), -1, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        self._gone = self._gone[rows]
        for target, old in self._rows.items():
            new = place[old]
            self._rows[target] = new[new >= 0]
