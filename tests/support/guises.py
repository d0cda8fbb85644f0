"""The same stream under another guise: names, order, speeds, poll length, jobs, ends of links.

A guise is a function from items to items that leaves the physics as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fabricmon.model.readings import PortSet, ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import PortId, Role, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.model.stream import Item
    from fabricmon.model.topology import Link

    Guise = Callable[[Iterable[Item]], Iterator[Item]]

T = TypeVar("T")

_GROWS = ("bytes", "packets", "discards", "errors", "frames", "wait_ticks", "sent", "handled")
"""How the ids of counters end that a four times faster link moves four times as much."""
_TIER = {Role.HOST: 0, Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3}


def other_name(name: str) -> str:
    """A name that tells nothing and sorts otherwise: the digits of its bytes, backwards."""
    return "n" + name.encode().hex()[::-1]


def other_port(port: PortId) -> PortId:
    """The same port under its other name; of a whole device where it has no port."""
    return PortId(other_name(port.device), other_name(port.port) if port.port else "")


def _shuffled(things: Sequence[T]) -> tuple[T, ...]:
    order = np.random.default_rng(len(things)).permutation(len(things))
    return tuple(things[int(i)] for i in order)


def rename(items: Iterable[Item]) -> Iterator[Item]:
    """Other names for all devices, ports and GUIDs, and every list in another order."""
    sets: dict[int, tuple[PortSet, PortSet]] = {}
    for item in items:
        if isinstance(item, Topology):
            nodes = (
                replace(n, name=other_name(n.name), guid=other_name(n.guid)) for n in item.nodes
            )
            links = (replace(k, a=other_port(k.b), b=other_port(k.a)) for k in item.links)
            jobs = (replace(j, hosts=_shuffled([*map(other_name, j.hosts)])) for j in item.jobs)
            yield replace(
                item,
                nodes=_shuffled([*nodes]),
                links=_shuffled([*links]),
                ports=_shuffled([replace(p, id=other_port(p.id)) for p in item.ports]),
                jobs=_shuffled([*jobs]),
            )
        elif isinstance(item, ReadingBatch):
            yield _renamed_batch(item, sets)
        else:
            yield item


def _renamed_batch(batch: ReadingBatch, sets: dict[int, tuple[PortSet, PortSet]]) -> ReadingBatch:
    old = batch.ports
    order = np.random.default_rng(len(old)).permutation(len(old))
    if id(old) not in sets:
        names = [other_port(PortId(old.device[i], old.port[i])) for i in order]
        sets[id(old)] = old, PortSet(tuple(n.device for n in names), tuple(n.port for n in names))
    return replace(
        batch,
        target=other_name(batch.target),
        ports=sets[id(old)][1],
        values=batch.values[:, order],
        state=batch.state[:, order],
        time_ns=batch.time_ns[order],
        gauges=batch.gauges[:, order] if batch.gauges.size else batch.gauges,
    )


def faster(items: Iterable[Item]) -> Iterator[Item]:
    """Four times the speed: speeds, bytes, packets and depths grow alike; shares of time do not."""
    for item in items:
        if isinstance(item, Topology):
            yield replace(
                item,
                links=tuple(replace(k, speed_bps=4 * k.speed_bps) for k in item.links),
                ports=tuple(
                    replace(p, speed_bps=4 * p.speed_bps, nominal_bps=4 * p.nominal_bps)
                    for p in item.ports
                ),
            )
        elif isinstance(item, ReadingBatch):
            grow = [4 if c.counter.id.endswith(_GROWS) else 1 for c in item.columns]
            levels = [
                4.0 if c.counter.id.endswith(("speed_bps", "bytes")) else 1.0
                for c in item.gauge_columns
            ]
            yield replace(
                item,
                values=item.values * np.array(grow, np.uint64)[:, None],
                gauges=item.gauges * np.array(levels)[:, None] if levels else item.gauges,
            )
        else:
            yield item


def thin(items: Iterable[Item]) -> Iterator[Item]:
    """Every third poll only."""
    poll = 0
    for item in items:
        if isinstance(item, Topology):
            yield item
            continue
        if poll % 3 == 2:
            yield replace(item, interval_s=3 * item.interval_s) if isinstance(item, Tick) else item
        poll += isinstance(item, Tick)


def jobless(items: Iterable[Item]) -> Iterator[Item]:
    """Nobody knows what runs where."""
    for item in items:
        yield replace(item, jobs=()) if isinstance(item, Topology) else item


def lower_unread(items: Iterable[Item]) -> Iterator[Item]:
    """Of every cable only the end in the higher tier is read: hosts are not."""
    return _one_ended(items, lambda link, tier: _ends(link, tier)[0])


def upper_unread(items: Iterable[Item]) -> Iterator[Item]:
    """Of every cable only the end in the lower tier is read."""
    return _one_ended(items, lambda link, tier: _ends(link, tier)[1])


def _ends(link: Link, tier: dict[str, int]) -> tuple[PortId, PortId]:
    """The ends of a cable, the lower tier's first."""
    lower, upper = sorted((link.a, link.b), key=lambda end: tier[end.device])
    return lower, upper


def _one_ended(
    items: Iterable[Item], hides: Callable[[Link, dict[str, int]], PortId]
) -> Iterator[Item]:
    hidden: set[PortId] = set()
    masks: dict[int, tuple[PortSet, NDArray[np.bool_]]] = {}
    for item in items:
        if isinstance(item, Topology):
            whole = item.with_inferred_roles()
            tier = {n.name: 0 if n.kind == "host" else _TIER.get(n.role, 1) for n in whole.nodes}
            hidden = {hides(link, tier) for link in item.links}
        elif isinstance(item, ReadingBatch):
            if id(item.ports) not in masks:
                names = zip(item.ports.device, item.ports.port, strict=True)
                gone = np.array([PortId(*name) in hidden for name in names])
                masks[id(item.ports)] = item.ports, gone
            gone = masks[id(item.ports)][1]
            yield replace(
                item,
                state=np.where(gone, np.uint8(State.MISSING), item.state),
                gauges=np.where(gone, np.nan, item.gauges) if item.gauges.size else item.gauges,
            )
            continue
        yield item
