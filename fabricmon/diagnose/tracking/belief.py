"""From votes to a confidence one can believe: the share of incidents told so that were right."""

from __future__ import annotations

import numpy as np

_VOTES = (0.0, 0.5, 0.7, 0.8, 0.9, 1.0)
_RIGHT = (0.0, 0.3, 0.6, 0.9, 0.98, 0.99)
"""Measured over incidents of random episodes (`fabricmon.simulate.campaign`), with seeds that
nothing is judged on; `make bench NAME=detect` prints how it holds on seeds that are."""


def believed(sure: float, share: float) -> float:
    """0..1: what is made of rules that are this `sure` of a kind with this `share` of the votes."""
    votes = sure * (0.5 + 0.5 * share)
    return float(np.interp(votes, _VOTES, _RIGHT))
