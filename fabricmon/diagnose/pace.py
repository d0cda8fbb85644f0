"""The pace of jobs: how much they communicate, and which host sends last."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

KEPT = 96
"""Polls kept per job."""
SPANS = (4, 8, 16)
"""Polls over which traffic is compared: any of them may cover a whole iteration."""


@dataclass(slots=True, eq=False)
class Beat:
    """The recent polls of one job: use float32[H] of its network cards, latest last.

    rows int[H] are the cards' rows; `usual` is kept per span: what the mean has been.
    """

    rows: NDArray[np.intp]
    sent: deque[NDArray[np.float32]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def matrix(self, last: int) -> NDArray[np.float32]:
        """float32[<=last,H]: what each card sent, share of its link, oldest first."""
        held = list(self.sent)[-last:]
        return np.array(held, np.float32).reshape(len(held), len(self.rows))


class Pace:
    """One per fabric; jobs come and go with the topology."""

    def __init__(self) -> None:
        """No job yet."""
        self._shape: object = None
        self.beats: dict[str, Beat] = {}

    def update(self, view: FabricView) -> None:
        """Take this tick of every job."""
        shape = view.shape
        if shape is not self._shape:
            self._shape = shape
            self._adopt(view)
        sent = view.sent_now
        for beat in self.beats.values():
            beat.sent.append(sent[beat.rows])

    def _adopt(self, view: FabricView) -> None:
        """Find the cards of each job; a job whose cards changed starts anew."""
        shape = view.shape
        card = shape.host_port | shape.faces_host
        beats: dict[str, Beat] = {}
        for number, job in enumerate(shape.jobs):
            rows = np.flatnonzero(card & (shape.job == number))
            own = rows[shape.host_port[rows]]
            peers = shape.peer[rows[shape.faces_host[rows]]]
            cards = np.union1d(own, peers[peers >= 0]).astype(np.intp)
            old = self.beats.get(job.name)
            same = old is not None and np.array_equal(old.rows, cards)
            beats[job.name] = old if same and old is not None else Beat(cards)
        self.beats = beats
