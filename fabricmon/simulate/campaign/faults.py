"""Dice for faults: one function per kind, each giving the events and the truth about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.topology import PortId
from fabricmon.simulate.events import (
    AnyEvent,
    Degrade,
    Ecn,
    GlobalPause,
    Incast,
    LinkDown,
    Load,
    Loop,
    Pfc,
    Pin,
    Priority,
    SlowReceiver,
    Straggler,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.scenario import TrafficConfig


@dataclass(slots=True)
class Scene:
    """What a fault is drawn for. `stalled` tells which ports some events hold back."""

    rng: np.random.Generator
    wiring: Wiring
    traffic: TrafficConfig
    placed: dict[str, tuple[str, ...]]
    at: float
    lasts: float
    poll: float
    stalled: Callable[[Sequence[AnyEvent]], NDArray[np.float64]]
    taken: set[int] = field(default_factory=set)
    """Leaves (nodes) that another fault has."""

    @property
    def when(self) -> dict[str, float]:
        """Fields of an event that lasts as long as the fault."""
        return {"at": self.at, "lasts": self.lasts}

    def leaf(self) -> int:
        """A leaf nobody has taken yet."""
        leaves = [int(v) for v in np.unique(self.wiring.target[self.wiring.cards])]
        free = [v for v in leaves if v not in self.taken] or leaves
        chosen = free[int(self.rng.integers(len(free)))]
        self.taken.add(chosen)
        return chosen

    def host(self, *, working: bool = True) -> str:
        """A host of a free leaf; `working`: one that a job runs on."""
        wiring = self.wiring
        busy = {h for hosts in self.placed.values() for h in hosts} if working else None
        for _ in range(20):
            leaf = self.leaf()
            cards = wiring.cards[wiring.target[wiring.cards] == leaf]
            names = [wiring.topology.nodes[int(wiring.source[c])].name for c in cards]
            good = [n for n in names if busy is None or n in busy]
            if good:
                return good[int(self.rng.integers(len(good)))]
        raise ValueError("no host works")

    def uplink(self) -> int:
        """An uplink of a free leaf that carries traffic now."""
        wiring, leaf = self.wiring, self.leaf()
        up = np.flatnonzero((wiring.source == leaf) & (wiring.tier[wiring.target] > 1))
        return int(self.rng.choice(up))

    def name(self, port: int) -> str:
        """`device/port`."""
        return "/".join(self.wiring.ports[port])


@dataclass(frozen=True, slots=True)
class Fault:
    """Events and what a diagnosis should say. Empty `causes`: none can be named."""

    kind: str
    events: tuple[AnyEvent, ...]
    causes: tuple[PortId, ...]
    reason: str = ""
    accept: tuple[str, ...] = ()
    trigger: str = ""


def _incast_event(scene: Scene) -> Incast:
    rng = scene.rng
    host = scene.host(working=False)
    senders = int(rng.integers(4, max(6, len(scene.wiring.cards) // 2)))
    return Incast(
        do="incast",
        to=host,
        senders=min(senders, 16),
        intensity=float(rng.uniform(0.5, 0.9)),
        uncontrolled=float(rng.uniform(0.3, 0.9)),
        **scene.when,
    )


def _incast(scene: Scene) -> Fault:
    event = _incast_event(scene)
    return Fault("incast", (event,), (_into(scene.wiring, event.to),))


def _into(wiring: Wiring, host: str) -> PortId:
    """The switch port towards a host."""
    return wiring.ports[wiring.card(host) ^ 1]


def _slow_receiver(scene: Scene) -> Fault:
    host = scene.host()
    hidden = not scene.wiring.infiniband and scene.rng.random() < 0.25
    event = SlowReceiver(
        do="slow-receiver",
        host=host,
        takes=float(scene.rng.uniform(0.06, 0.45)),
        pauses=float(scene.rng.uniform(0.0, 0.1)) if hidden else 1.0,
        rough=float(scene.rng.uniform(0.0, 0.5)),
        **scene.when,
    )
    accept = ("degraded-link",) if hidden else ()
    return Fault("slow-receiver", (event,), (_into(scene.wiring, host),), accept=accept)


def _storm(scene: Scene) -> Fault:
    host = scene.host()
    event = SlowReceiver(
        do="slow-receiver", host=host, takes=float(scene.rng.uniform(0.0, 0.004)), **scene.when
    )
    return Fault("pfc-storm", (event,), (_into(scene.wiring, host),), accept=("slow-receiver",))


def _deadlock(scene: Scene) -> Fault:
    wiring, rng = scene.wiring, scene.rng
    names = [n.name for n in wiring.topology.nodes]
    leaf = scene.leaf()
    spines = [int(v) for v in rng.permutation(_above(wiring, leaf))[:2]]
    shared = set(_below(wiring, spines[0])) & set(_below(wiring, spines[1])) - {leaf}
    other = int(rng.choice(sorted(shared)))
    through = [names[v] for v in (leaf, spines[0], other, spines[1])]
    event = Loop(
        do="loop",
        through=through,
        senders=int(rng.integers(3, 7)),
        refresh=float(rng.choice([0.0, 0.3, 1.0])),
        **scene.when,
    )
    path = event.wishes(wiring)[0].path
    assert path is not None, "a loop brings its own paths"
    cycle = {int(e) for e in path[0] if e >= 0 and wiring.tier[wiring.source[e]] > 0}
    ports = tuple(wiring.ports[e] for e in sorted(cycle) if wiring.tier[wiring.target[e]] > 0)
    return Fault("pfc-deadlock", (event,), ports)


def _above(wiring: Wiring, leaf: int) -> list[int]:
    """Switches a leaf has uplinks to."""
    up = (wiring.source == leaf) & (wiring.tier[wiring.target] > 1)
    return sorted({int(v) for v in wiring.target[up]})


def _below(wiring: Wiring, spine: int) -> list[int]:
    """Leaves of a spine."""
    down = (wiring.source == spine) & (wiring.tier[wiring.target] == 1)
    return sorted({int(v) for v in wiring.target[down]})


def _nodes(wiring: Wiring, tier: int) -> list[int]:
    return [int(v) for v in np.flatnonzero(wiring.tier == tier)]


def _oversubscription(scene: Scene) -> Fault:
    wiring, names = scene.wiring, [n.name for n in scene.wiring.topology.nodes]
    leaf = scene.leaf()
    others = [names[v] for v in _nodes(wiring, 1) if v != leaf]
    event = Load(
        do="load",
        sources=[names[leaf]],
        sinks=others,
        intensity=float(scene.rng.uniform(0.75, 0.95)),
        uncontrolled=float(scene.rng.uniform(0.2, 0.8)),
        **scene.when,
    )
    return Fault("oversubscription", (event,), (PortId(names[leaf], ""),))


def _imbalance(scene: Scene) -> Fault:
    port = scene.uplink()
    share = float(scene.rng.uniform(0.75, 1.0))
    event = Pin(do="pin", uplink=scene.name(port), share=share, **scene.when)
    return Fault("path-imbalance", (event,), (scene.wiring.ports[port],))


def _degraded(scene: Scene) -> Fault:
    rng = scene.rng
    port = scene.uplink() if rng.random() < 0.7 else scene.wiring.card(scene.host()) ^ 1
    link = scene.name(port)
    if rng.random() < 0.6:
        loss = float(10 ** rng.uniform(-5, -2.7))
        both = bool(rng.random() < 0.7)
        event = Degrade(do="degrade", link=link, loss=loss, both_ways=both, **scene.when)
    else:
        speed, shown = float(rng.choice([0.25, 0.5])), bool(rng.random() < 0.6)
        event = Degrade(do="degrade", link=link, speed=speed, shown=shown, **scene.when)
    hidden = event.loss == 0 and not event.shown
    accept = (
        ("slow-receiver",) if hidden and scene.wiring.tier[scene.wiring.target[port]] == 0 else ()
    )
    return Fault("degraded-link", (event,), (scene.wiring.ports[port],), accept=accept)


def _flapping(scene: Scene) -> Fault:
    rng = scene.rng
    port = scene.uplink() if rng.random() < 0.6 else scene.wiring.card(scene.host()) ^ 1
    down = float(rng.uniform(0.5, 2.5))
    period = max(down * 2, float(rng.uniform(2.0, 6.0)) * max(scene.poll, 1.0))
    event = LinkDown(do="link-down", link=scene.name(port), period=period, down=down, **scene.when)
    return Fault("flapping-link", (event,), (scene.wiring.ports[port],))


def _straggler(scene: Scene) -> Fault:
    jobs = {j.name: j for j in scene.traffic.jobs}
    name = str(scene.rng.choice(sorted(jobs)))
    job = jobs[name]
    host = str(scene.rng.choice(scene.placed[name]))
    iteration = job.compute + job.communicate
    late = float(scene.rng.uniform(0.7, 2.0)) * iteration
    event = Straggler(do="straggler", job=name, host=host, late=late, **scene.when)
    visible = scene.poll <= (iteration + late) / 3
    causes = (scene.wiring.ports[scene.wiring.card(host)],) if visible else ()
    return Fault("collective-stall", (event,), causes)


def _misconfig(scene: Scene) -> Fault:
    choices = [
        _one_sided,
        _pfc_off,
        _ecn_silent,
        _ecn_late,
        _drops,
        _global_pause,
        _wrong_priority,
    ]
    return choices[int(scene.rng.integers(len(choices)))](scene)


def _pressed_port(scene: Scene, incast: Incast) -> int:
    """A port between switches that an incast holds back most of all, or nearly so."""
    wiring = scene.wiring
    stall = scene.stalled([incast])
    inner = (wiring.tier[wiring.source] > 0) & (wiring.tier[wiring.target] > 0)
    stall = np.where(inner, stall, 0.0)
    pressed = np.flatnonzero(stall > 0.5 * stall.max())
    return int(scene.rng.choice(pressed)) if stall.any() else int(np.flatnonzero(inner)[0])


def _one_sided(scene: Scene) -> Fault:
    incast = _incast_event(scene)
    port = _pressed_port(scene, incast)
    event = Pfc(do="pfc", port=scene.name(port), **scene.when)
    causes = (scene.wiring.ports[port],)
    return _set_wrong("pfc-one-sided", (event, incast), causes)


def _drops(scene: Scene) -> Fault:
    incast = _incast_event(scene)
    port = _pressed_port(scene, incast)
    event = Pfc(do="pfc", headroom=scene.name(port), **scene.when)
    return _set_wrong("lossless-drops", (event, incast), (scene.wiring.ports[port ^ 1],))


def _set_wrong(
    reason: str, events: tuple[AnyEvent, ...], causes: tuple[PortId, ...], trigger: str = "incast"
) -> Fault:
    return Fault("lossless-misconfig", events, causes, reason, trigger=trigger)


def _root_device(scene: Scene, incast: Incast) -> str:
    return _into(scene.wiring, incast.to).device


def _pfc_off(scene: Scene) -> Fault:
    incast = _incast_event(scene)
    device = _root_device(scene, incast)
    event = Pfc(do="pfc", device=device, **scene.when)
    return _set_wrong("pfc-off", (event, incast), (PortId(device, ""),))


def _ecn_silent(scene: Scene) -> Fault:
    incast = _incast_event(scene)
    device = _root_device(scene, incast)
    event = Ecn(do="ecn", device=device, **scene.when)
    return _set_wrong("ecn-silent", (event, incast), (PortId(device, ""),))


def _ecn_late(scene: Scene) -> Fault:
    incast = _incast_event(scene)
    device = _root_device(scene, incast)
    marking = float(scene.rng.uniform(0.1, 0.4))
    event = Ecn(do="ecn", device=device, marking=marking, **scene.when)
    return _set_wrong("ecn-late", (event, incast), (PortId(device, ""),))


def _global_pause(scene: Scene) -> Fault:
    slow = _slow_receiver(scene)
    port = slow.causes[0]
    event = GlobalPause(do="global-pause", port="/".join(port), **scene.when)
    loud = slow.events[0].model_copy(update={"pauses": 1.0})
    return _set_wrong("global-pause", (event, loud), (port,), "slow-receiver")


def _wrong_priority(scene: Scene) -> Fault:
    incast = _incast_event(scene)
    wiring = scene.wiring
    to = wiring.card(incast.to)
    cards = wiring.cards[wiring.target[wiring.cards] != wiring.target[to]]
    names = [wiring.topology.nodes[int(wiring.source[c])].name for c in cards]
    senders = [str(n) for n in scene.rng.permutation(names)[: max(4, len(names) // 4)]]
    incast = incast.model_copy(update={"senders": senders})
    event = Priority(do="priority", host=senders[0], **scene.when)
    causes = (wiring.ports[wiring.card(senders[0])],)
    return _set_wrong("wrong-priority", (event, incast), causes)


DRAW: dict[str, Callable[[Scene], Fault]] = {
    "incast": _incast,
    "slow-receiver": _slow_receiver,
    "pfc-storm": _storm,
    "pfc-deadlock": _deadlock,
    "oversubscription": _oversubscription,
    "path-imbalance": _imbalance,
    "degraded-link": _degraded,
    "flapping-link": _flapping,
    "lossless-misconfig": _misconfig,
    "collective-stall": _straggler,
}
"""By kind."""
