"""Cycles of links that wait for each other.

A cycle of *possible* dependencies is harmless. Only when every link of it is held back by the next
one, with its buffers full, does nothing move any more, and then it stays so until somebody resets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.flows import Network
    from fabricmon.simulate.engine.pressure import Pressed

_WAITS = 0.985


def waiting_cycles(network: Network, pressed: Pressed) -> NDArray[np.bool_]:
    """bool[E]: links that wait, through other waiting links, for themselves."""
    stuck = np.zeros(network.n_links, np.bool_)
    if not network.cyclic:
        return stuck
    inner = network.pair_ingress < network.n_links
    waits = inner & (pressed.ratio < _WAITS)
    ingress, egress = network.pair_ingress[waits], network.pair_link[waits]
    held = pressed.slow < _WAITS
    while True:
        alive = held[ingress] & held[egress]
        ahead, behind = np.zeros_like(held), np.zeros_like(held)
        ahead[ingress[alive]] = True
        behind[egress[alive]] = True
        rest = held & ahead & behind
        if (rest == held).all():
            return rest
        held = rest
