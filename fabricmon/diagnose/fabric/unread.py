"""Egress ports that do not show that they are held back, and must be all the same.

On InfiniBand only the port that waits counts its wait, and it may not be read; or it waits no more
than it does in every healthy iteration, and now for something else. What is left is elimination:
the device it belongs to holds others back, none of its other ports is to blame, and the next device
has a port that is full or held back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.shape import Shape

_TIERS = 3
"""Such ports in a row that are followed: as many as a path has on its way down."""


def presumed(
    shape: Shape,
    held: NDArray[np.float32],
    holding: NDArray[np.float32],
    unshown: NDArray[np.bool_],
) -> NDArray[np.float32]:
    """float32[N]: how much each `unshown` port must be held back; 0 for all others.

    held, holding  float32[N] as the graph takes them
    unshown        bool[N]    nobody counts whether the port waits, or it waits as it always does
    """
    out = np.zeros(len(held), np.float32)
    conduit = unshown & (held <= 0) & (shape.beyond >= 0) & ~shape.faces_host & ~shape.host_port
    if not conduit.any() or not (held > 0).any():
        return out
    blame = np.maximum(held, holding)
    known = _most_blamed(shape, blame)[shape.node]
    for _ in range(_TIERS):
        blame[conduit] = np.maximum(blame, _blamed_beyond(shape, blame))[conduit]
    conduit &= blame > known
    waiting = (held > 0) & (shape.beyond >= 0)
    for _ in range(_TIERS):
        waits = np.zeros(len(shape.is_host), np.float32)
        np.maximum.at(waits, shape.beyond[waiting], np.maximum(held, out)[waiting])
        out = np.where(conduit, np.minimum(blame, waits[shape.node]), np.float32(0))
        waiting = (shape.beyond >= 0) & (np.maximum(held, out) > 0)
    return out


def _most_blamed(shape: Shape, blame: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[D]: the largest blame of each device's ports."""
    most = np.zeros(len(shape.is_host), np.float32)
    np.maximum.at(most, shape.node, blame)
    return most


def _blamed_beyond(shape: Shape, blame: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[N]: the largest blame of the next device's ports, the way back left out."""
    most = _most_blamed(shape, blame)
    top = blame >= most[shape.node]
    first = np.full(len(most), -1)
    first[shape.node[top]] = np.flatnonzero(top)
    rest = blame.copy()
    rest[first[first >= 0]] = 0
    second = _most_blamed(shape, rest)
    back = first[shape.beyond] == shape.peer
    return np.where(back, second[shape.beyond], most[shape.beyond])
