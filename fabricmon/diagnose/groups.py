"""Groups of parallel ways: which are full, and whether evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.ports import PortRole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_IDLE = 0.7
"""A sibling that carries less than this share of the fullest one has room."""
_RISE = 0.15
"""How much more than usual a full way must carry."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Parallel ways of one device.

    rows    int[M]  all of them; `full` int[F] the full ones, fullest first
    even    whether all of them are full
    """

    device: int
    rows: NDArray[np.intp]
    full: NDArray[np.intp]
    even: bool


def full_groups(view: FabricView) -> list[Group]:
    """Groups in which a way is newly full and something waits for it or stands in its queue."""
    shape = view.shape
    full = (shape.parallel >= 0) & (view.use >= view.config.busy) & (view.held <= 0)
    full &= view.use - np.nan_to_num(view.usual_use) >= _RISE
    full &= view.waited_for
    found = []
    for number in np.unique(shape.parallel[full]):
        rows = np.flatnonzero(shape.parallel == number)
        use = view.use[rows]
        known = rows[np.isfinite(use)]
        if len(known) < 2:
            continue
        fullest = float(np.nanmax(use))
        idle = view.use[known] < _IDLE * fullest
        ordered = rows[full[rows]]
        ordered = ordered[np.argsort(-view.use[ordered], kind="stable")]
        up = shape.role[rows[0]] == PortRole.UP
        device = int(shape.node[rows[0]] if up else shape.beyond[rows[0]])
        found.append(Group(device, known, ordered, not idle.any()))
    return found
