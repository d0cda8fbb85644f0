"""Cables, ports, hosts and switches that are worn, slow or set wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from fabricmon.settings import Duration
from fabricmon.simulate.events.base import EventConfig

if TYPE_CHECKING:
    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.fabric.wiring import Wiring

_STORM = 0.02
"""A receiver that takes less than this share leaves congestion control nothing to work with."""

_LEAK = 0.002
"""Share of packets under pressure that a buffer without headroom loses."""


class SlowReceiver(EventConfig):
    """A host takes less than its link carries. Near zero it is a pause storm."""

    do: Literal["slow-receiver"]
    host: str
    rail: int = 0
    takes: float = Field(0.2, ge=0, le=1, description="share of its link")
    pauses: float = Field(
        1.0, ge=0, le=1, description="how much it pauses; 0: congestion control alone slows senders"
    )
    rough: float = Field(
        0.2, ge=0, le=1, description="share of time it stops for longer than senders can adapt to"
    )

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """The switch port towards it is limited from the far end."""
        del second
        into = wiring.card(self.host, self.rail) ^ 1
        conditions.takes[into] = min(conditions.takes[into], max(self.takes, 1e-4))
        conditions.shows[into] = self.pauses
        conditions.rough[into] = max(self.rough, 1 - self.takes / _STORM) * self.pauses


class Degrade(EventConfig):
    """A cable that loses packets or runs at less than its speed."""

    do: Literal["degrade"]
    link: str = Field(description="device/port of either end")
    speed: float = Field(1.0, gt=0, le=1, description="share of its speed, both ways")
    loss: float = Field(0.0, ge=0, lt=1, description="probability that a packet is damaged")
    both_ways: bool = True
    shown: bool = Field(default=True, description="whether the port admits its lower speed")

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Both directions of the cable, or only what leaves the named port."""
        del second
        out = wiring.port(self.link)
        factor = conditions.speed if self.shown else conditions.hidden
        factor[[out, out ^ 1]] *= self.speed
        conditions.loss[[out, out ^ 1] if self.both_ways else [out]] = self.loss


class LinkDown(EventConfig):
    """A cable goes down and stays so; with `period` it comes back and goes again."""

    do: Literal["link-down"]
    link: str
    period: Duration | None = Field(None, description="flapping: seconds from down to down")
    down: Duration = Field(2.0, description="flapping: seconds it is down each time")
    announced: bool = Field(
        default=False, description="taken down by hand: no link-down event is counted"
    )

    def changes(self, end: float) -> list[float]:
        """Every time it goes down or up."""
        base = super().changes(end)
        if self.period is None:
            return base if self.announced else sorted({*base, min(self.at + 1.0, self.until)})
        starts = np.arange(self.at, min(self.until, end), self.period)
        moments = np.concatenate([starts, starts + self.down])
        return sorted({*base, *(float(t) for t in moments if t < min(self.until, end))})

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Down, if this is such a moment."""
        since = second - self.at
        span = self.down if self.period is not None else 1.0
        if self.period is not None:
            since = (since + 1e-6) % self.period  # a moment may be a hair before the full period
            if since >= self.down - 1e-6:
                return
        ends = np.array([wiring.port(self.link), wiring.port(self.link) ^ 1])
        conditions.up[ends] = False
        if not self.announced and since < span - 1e-6:
            conditions.downs[ends] = 1 / span


class Pin(EventConfig):
    """A switch sends everything upwards by one of its uplinks: hashing or routing gone wrong."""

    do: Literal["pin"]
    uplink: str
    share: float = Field(1.0, gt=0, le=1, description="share of its flows upwards")

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Remember the uplink for the planner."""
        del second
        port = wiring.port(self.uplink)
        conditions.pins[int(wiring.source[port])] = (port, self.share)


class OneCard(EventConfig):
    """A host sends everything by one of its cards: a rail or plane that carries it all."""

    do: Literal["one-card"]
    hosts: list[str]
    card: int = Field(0, ge=0, description="rail or plane, counted from 0")

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Remember the card for the planner."""
        del second
        for host in self.hosts:
            wiring.card(host, self.card)
            conditions.cards[wiring.device(host)] = self.card


class Pfc(EventConfig):
    """Flow control set wrong: a device that sends no pauses, or a port that ignores them."""

    do: Literal["pfc"]
    device: str = Field("", description="never pauses its neighbours")
    port: str = Field("", description="ignores the pauses it gets")
    headroom: str = Field("", description="a port whose far end has too little headroom")

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Mute the device, deafen the port."""
        del second
        if self.device:
            conditions.mute[wiring.device(self.device)] = True
        if self.port:
            conditions.deaf[wiring.port(self.port)] = True
        if self.headroom:
            conditions.leak[wiring.port(self.headroom)] = _LEAK


class Ecn(EventConfig):
    """A switch that marks late (thresholds too high) or not at all."""

    do: Literal["ecn"]
    device: str
    marking: float = Field(0.0, ge=0, lt=1, description="0 never; below 1: that well")

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Set how well it marks."""
        del second
        conditions.marking[wiring.device(self.device)] = self.marking


class Priority(EventConfig):
    """A host whose traffic lands in a queue that is not lossless."""

    do: Literal["priority"]
    host: str

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Mark the host."""
        del second
        conditions.priority[wiring.device(self.host)] = False


class GlobalPause(EventConfig):
    """A port that speaks 802.3x pause instead of PFC."""

    do: Literal["global-pause"]
    port: str

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Both ends of the cable agree on it."""
        del second
        port = wiring.port(self.port)
        conditions.coarse[[port, port ^ 1]] = True
