"""Converged congestion control: every flow has its max-min fair share, and nothing is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.flows import Network

_ROUNDS = 60
_TIE = 1 + 1e-9


def fair_shares(
    network: Network, demand: NDArray[np.float64], capacity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64[F]: max-min rates by progressive filling.

    All links that are the tightest of every flow they carry are filled in the same round, so a
    few rounds do for a whole fabric.
    """
    rate = np.zeros(len(demand))
    active = demand > 0
    if not active.any():
        return rate
    room = capacity.astype(np.float64, copy=True)
    for _ in range(_ROUNDS):
        hop_on = active[network.hop_flow]
        links = network.hop_link[hop_on]
        count = np.bincount(links, minlength=network.n_links)
        share = np.where(count > 0, np.maximum(room, 0.0) / np.maximum(count, 1), np.inf)
        limit = np.minimum.reduceat(share[network.hop_link], network.first)
        limit = np.minimum(limit, demand)
        loosest = np.full(network.n_links, np.inf)
        np.minimum.at(loosest, links, limit[network.hop_flow[hop_on]])
        tight = (count > 0) & (loosest * _TIE >= share)
        through = np.maximum.reduceat(tight[network.hop_link], network.first)
        done = active & (through | (limit >= demand))
        rate[done] = limit[done]
        active &= ~done
        if not active.any():
            return rate
        room -= np.bincount(
            network.hop_link, np.where(done, rate, 0.0)[network.hop_flow], network.n_links
        )
    rate[active] = limit[active]
    return rate
