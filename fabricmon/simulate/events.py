"""What can happen in a scenario: faults, harmless changes, and trouble with the reading itself.

Each class is one value of `do:`; its fields are what the file may say, and its methods turn the
knobs of the fabric (`touch`), add traffic (`wishes`), change jobs (`habits`) or how counters are
read (`reading`). The engine knows none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from fabricmon.errors import FabricmonError
from fabricmon.settings import Duration, Settings
from fabricmon.simulate.workload.traffic import Wish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.workload.jobs import Habit

_FOREVER = 1e15

_STORM = 0.02
"""A receiver that takes less than this share leaves congestion control nothing to work with."""

_LEAK = 0.002
"""Share of packets under pressure that a buffer without headroom loses."""


@dataclass(slots=True)
class Reading:
    """How targets are read now; ports (E) and devices by name."""

    silent: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    reset: set[str] = field(default_factory=set)
    stuck_at_top: set[int] = field(default_factory=set)
    skew_s: dict[str, float] = field(default_factory=dict)


class EventConfig(Settings):
    """When."""

    at: Duration
    lasts: Duration | None = Field(None, description="until the end where left out")

    @property
    def until(self) -> float:
        """Second at which it is over."""
        return self.at + self.lasts if self.lasts is not None else _FOREVER

    def changes(self, end: float) -> list[float]:
        """Seconds at which something changes, up to `end`."""
        return [t for t in (self.at, self.until) if t < end]

    def active(self, second: float) -> bool:
        """Whether it is in force."""
        return self.at - 1e-9 <= second < self.until - 1e-9

    def touch(self, wiring: Wiring, conditions: Conditions, second: float) -> None:
        """Turn the knobs."""

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """Traffic it adds while active."""
        del wiring
        return []

    def habits(self, jobs: Mapping[str, Habit]) -> None:
        """How it changes jobs while active."""

    def reading(self, reading: Reading, wiring: Wiring) -> None:
        """How it changes the reading of counters while active."""


class Incast(EventConfig):
    """Many hosts send to one, beside what they do otherwise."""

    do: Literal["incast"]
    to: str
    senders: int | list[str] = Field(8, description="how many, spread over other leaves, or which")
    intensity: float = Field(0.9, gt=0, le=1)
    uncontrolled: float = Field(
        0.6, ge=0, le=1, description="share of the time congestion control has not converged"
    )

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """A flow from each sender that never runs dry."""
        to = wiring.card(self.to)
        cards = senders_of(wiring, self.senders, to)
        amount = np.full(len(cards), self.intensity)
        into = np.full(len(cards), to, np.int32)
        return [_backlog(cards, into, amount, self.uncontrolled)]


def _backlog(
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    share: NDArray[np.float64],
    uncontrolled: float,
    path: NDArray[np.int32] | None = None,
) -> Wish:
    """Flows that never run dry and wait for nobody."""
    return Wish(
        start, end, share, coupled=False, uncontrolled=uncontrolled, backlog=True, path=path
    )


def senders_of(wiring: Wiring, senders: int | list[str], to: int) -> NDArray[np.int32]:
    """int32[]: cards of the named hosts, or of that many spread evenly over other leaves."""
    if isinstance(senders, list):
        return np.array([wiring.card(name) for name in senders], np.int32)
    cards = wiring.cards
    other = cards[wiring.target[cards] != wiring.target[to]]
    if len(other) < senders:
        other = cards[cards != to]
    if not len(other):
        raise FabricmonError("an incast needs other hosts")
    pick = np.linspace(0, len(other) - 1, min(senders, len(other))).round().astype(int)
    return np.unique(other[pick])


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
            since %= self.period
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


class Load(EventConfig):
    """Extra traffic between two sets of hosts, in pairs."""

    do: Literal["load"]
    sources: list[str] = Field(description="hosts, or a switch for all its hosts")
    sinks: list[str]
    intensity: float = Field(0.5, gt=0, le=1)
    uncontrolled: float = Field(0.02, ge=0, le=1)

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """Each source sends to one sink; sinks repeat where there are fewer."""
        start, end = cards_of(wiring, self.sources), cards_of(wiring, self.sinks)
        end = np.resize(end, len(start))
        keep = start != end
        share = np.full(int(keep.sum()), self.intensity)
        return [_backlog(start[keep], end[keep], share, self.uncontrolled)]


def cards_of(wiring: Wiring, names: list[str]) -> NDArray[np.int32]:
    """int32[]: the cards of hosts, and of all hosts of a switch."""
    found: list[NDArray[np.int32]] = []
    for name in names:
        node = wiring.device(name)
        side = wiring.source if wiring.tier[node] == 0 else wiring.target
        found.append(wiring.cards[side[wiring.cards] == node])
    return np.concatenate(found)


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


class Loop(EventConfig):
    """Routes that bounce between leaves and spines in a circle, under load: a deadlock."""

    do: Literal["loop"]
    through: list[str] = Field(min_length=4, description="leaf, spine, leaf, spine, ...")
    senders: int = Field(4, ge=1, description="flows that enter at each leaf")

    def wishes(self, wiring: Wiring) -> list[Wish]:
        """From every leaf of the circle once around it, to another host of the same leaf."""
        circle = [wiring.device(name) for name in self.through]
        n = len(circle)
        hops = [_link(wiring, circle[i], circle[(i + 1) % n]) for i in range(n)]
        paths: list[list[int]] = []
        for i, node in enumerate(circle):
            if wiring.tier[node] != 1:
                continue
            cards = wiring.cards[wiring.target[wiring.cards] == node]
            for k in range(min(self.senders, len(cards))):
                out = int(cards[(k + 1) % len(cards)]) ^ 1
                around = [hops[(i + j) % n] for j in range(n)]
                paths.append([int(cards[k]), *around, out])
        path = np.array(paths, np.int32)
        share = np.full(len(path), 0.9)
        return [_backlog(path[:, 0], path[:, -1] ^ 1, share, 1.0, path)]


def _link(wiring: Wiring, a: int, b: int) -> int:
    found = np.flatnonzero((wiring.source == a) & (wiring.target == b))
    if not len(found):
        names = wiring.topology.nodes
        raise FabricmonError(f"no link from {names[a].name!r} to {names[b].name!r}")
    return int(found[0])


class Straggler(EventConfig):
    """One rank of a job computes longer than the others, which wait for it."""

    do: Literal["straggler"]
    job: str
    host: str
    late: Duration

    def habits(self, jobs: Mapping[str, Habit]) -> None:
        """The job waits for its slowest rank."""
        jobs[self.job].late = max(jobs[self.job].late, self.late)
        jobs[self.job].late_host = self.host


class JobChange(EventConfig):
    """A job that stops, or works differently."""

    do: Literal["job"]
    job: str
    running: bool = True
    compute: float = Field(1.0, gt=0, description="factor on its compute time")
    volume: float = Field(1.0, gt=0, description="factor on what it communicates")

    def habits(self, jobs: Mapping[str, Habit]) -> None:
        """Change the job."""
        habit = jobs[self.job]
        habit.running = habit.running and self.running
        habit.compute *= self.compute
        habit.volume *= self.volume


class Collector(EventConfig):
    """Trouble with the reading: the fabric is well."""

    do: Literal["silent", "stale", "reset", "saturated", "skew"]
    device: str
    seconds: float = Field(30.0, description="skew: how far the device's clock is off")

    def changes(self, end: float) -> list[float]:
        """A reset happens once."""
        return [self.at] if self.do == "reset" and self.at < end else super().changes(end)

    def reading(self, reading: Reading, wiring: Wiring) -> None:
        """Tell the reader."""
        match self.do:
            case "silent":
                reading.silent.add(self.device)
            case "stale":
                reading.stale.add(self.device)
            case "reset":
                reading.reset.add(self.device)
            case "saturated":
                reading.stuck_at_top.update(int(p) for p in wiring.of_device(self.device))
            case "skew":
                reading.skew_s[self.device] = self.seconds


AnyEvent = Annotated[
    Incast
    | SlowReceiver
    | Degrade
    | LinkDown
    | Pin
    | Load
    | Pfc
    | Ecn
    | Priority
    | GlobalPause
    | Loop
    | Straggler
    | JobChange
    | Collector,
    Field(discriminator="do"),
]
"""Whatever a scenario may list under `events`."""
