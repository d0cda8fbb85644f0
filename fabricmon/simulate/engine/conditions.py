"""What is set, worn or broken in a fabric: the knobs that events turn.

Events change nothing else, and the engine reads nothing else, so that no scenario needs a special
case in the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.fabric.wiring import Wiring


@dataclass(slots=True, eq=False)
class Conditions:
    """Per directed link (E) or node (V); the neutral value is a healthy fabric.

    speed    float64[E]  share of the nominal speed the link runs at
    hidden   float64[E]  share of the speed that is left where the port does not admit to be slow
    takes    float64[E]  share of the link that its far end can take
    shows    float64[E]  share of that limit which the far end enforces by pausing
    rough    float64[E]  share of time the far end stops for longer than senders adapt to
    loss     float64[E]  probability that a packet is damaged
    up       bool[E]     the link carries traffic
    leak     float64[E]  share of what arrives under pressure that finds no headroom
    deaf     bool[E]     the egress ignores pauses it receives
    mute     bool[V]     the node never sends pauses
    marking  float64[V]  1 marks in time, 0 never, between: late
    priority bool[V]     False: the host sends in a queue that is not lossless
    coarse   bool[E]     the port speaks global pause instead of PFC
    stuck    bool[E]     latched in a deadlock
    downs    float64[E]  link-down events per second
    """

    speed: NDArray[np.float64]
    hidden: NDArray[np.float64]
    takes: NDArray[np.float64]
    shows: NDArray[np.float64]
    rough: NDArray[np.float64]
    loss: NDArray[np.float64]
    up: NDArray[np.bool_]
    leak: NDArray[np.float64]
    deaf: NDArray[np.bool_]
    mute: NDArray[np.bool_]
    marking: NDArray[np.float64]
    priority: NDArray[np.bool_]
    coarse: NDArray[np.bool_]
    stuck: NDArray[np.bool_]
    downs: NDArray[np.float64]
    refresh: float = 0.0
    """How regularly links in a deadlock renew their pauses: 0 never, 1 in time."""
    pins: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Switch node -> the uplink (directed link) that takes this share of its flows upwards."""
    cards: dict[int, int] = field(default_factory=dict)
    """Host node -> which of its cards sends all that it sends."""


def healthy(wiring: Wiring) -> Conditions:
    """Everything as it should be."""
    e, v = len(wiring), len(wiring.tier)
    return Conditions(
        speed=np.ones(e),
        hidden=np.ones(e),
        takes=np.ones(e),
        shows=np.ones(e),
        rough=np.zeros(e),
        loss=np.zeros(e),
        up=np.ones(e, np.bool_),
        leak=np.zeros(e),
        deaf=np.zeros(e, np.bool_),
        mute=np.zeros(v, np.bool_),
        marking=np.ones(v),
        priority=np.ones(v, np.bool_),
        coarse=np.zeros(e, np.bool_),
        stuck=np.zeros(e, np.bool_),
        downs=np.zeros(e),
    )
