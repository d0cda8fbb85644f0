"""What must not change the verdict: names, order, speeds, poll length, jobs, one end of a link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.rules_only import incidents

from fabricmon.model.incident import IncidentKind
from fabricmon.model.readings import PortSet, ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Link, PortId, Topology
from fabricmon.simulate import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fabricmon.api import Context
    from fabricmon.model.incident import Incident
    from fabricmon.model.stream import Item

    Change = Callable[[Iterable[Item]], Iterator[Item]]

SCENARIOS = ("incast", "slow-receiver-ib")


def worst(items: Iterable[Item], context: Context) -> Incident:
    """The first incident in the product's order. Rules alone: the forest is not asked."""
    return min(incidents(items, context), key=lambda incident: incident.sort_key())


def _renamed(name: str) -> str:
    """A name that tells nothing: the digits of its bytes."""
    return "n" + name.encode().hex()[::-1]


def _port(port: PortId) -> PortId:
    return PortId(_renamed(port.device), _renamed(port.port))


def rename(items: Iterable[Item]) -> Iterator[Item]:
    """Other names for all devices and ports, and all lists reversed."""
    sets: dict[int, tuple[PortSet, PortSet]] = {}
    for item in items:
        if isinstance(item, Topology):
            yield replace(
                item,
                nodes=tuple(replace(n, name=_renamed(n.name), guid="") for n in item.nodes[::-1]),
                links=tuple(replace(k, a=_port(k.b), b=_port(k.a)) for k in item.links[::-1]),
                ports=tuple(replace(p, id=_port(p.id)) for p in item.ports[::-1]),
                jobs=tuple(
                    replace(j, hosts=tuple(map(_renamed, j.hosts[::-1]))) for j in item.jobs
                ),
            )
        elif isinstance(item, ReadingBatch):
            old = item.ports
            if id(old) not in sets:
                names = (
                    tuple(map(_renamed, old.device[::-1])),
                    tuple(map(_renamed, old.port[::-1])),
                )
                sets[id(old)] = (old, PortSet(*names))
            yield replace(
                item,
                ports=sets[id(old)][1],
                values=item.values[:, ::-1].copy(),
                state=item.state[:, ::-1].copy(),
                time_ns=item.time_ns[::-1].copy(),
                gauges=item.gauges[:, ::-1].copy(),
            )
        else:
            yield item


def faster(items: Iterable[Item]) -> Iterator[Item]:
    """Four times the speed: speeds, bytes, packets and depths grow alike; shares of time do not."""
    grow = ("bytes", "packets", "discards", "errors", "frames", "wait_ticks", "sent", "handled")
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
            factor = [4 if c.counter.id.endswith(grow) else 1 for c in item.columns]
            levels = [
                4.0 if c.counter.id.endswith(("speed_bps", "bytes")) else 1.0
                for c in item.gauge_columns
            ]
            yield replace(
                item,
                values=item.values * np.array(factor, np.uint64)[:, None],
                gauges=item.gauges * np.array(levels)[:, None],
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


def one_ended(items: Iterable[Item]) -> Iterator[Item]:
    """Of every cable only one end is read: the hosts', and the higher tier's, are not."""
    links: tuple[Link, ...] = ()
    for item in items:
        if isinstance(item, Topology):
            links = item.links
        elif isinstance(item, ReadingBatch):
            hidden = {link.a for link in links if not link.a.device.startswith("spine")}
            names = zip(item.ports.device, item.ports.port, strict=True)
            gone = np.array([PortId(*name) in hidden for name in names])
            yield replace(
                item,
                state=np.where(gone, np.uint8(State.MISSING), item.state),
                gauges=np.where(gone, np.nan, item.gauges),
            )
            continue
        yield item


@pytest.mark.parametrize("change", [rename, faster, thin, jobless, one_ended])
@pytest.mark.parametrize("name", SCENARIOS)
def test_kind_and_cause_stay(name: str, change: Change, context: Context) -> None:
    """The same fault under another guise is the same fault, at the same cable."""
    simulation = load(name, duration=160)
    (expected,) = simulation.scenario.expect
    found = worst(change(simulation.items()), context)
    assert found.kind in {expected.kind, *map(IncidentKind, expected.accept)}
    ends = set()
    for cause in expected.causes:
        device, _, port = cause.partition("/")
        ends.add(PortId(device, port))
    ends |= {k.b for k in simulation.topology.links if k.a in ends} | {
        k.a for k in simulation.topology.links if k.b in ends
    }
    if change is rename:
        ends = {_port(end) for end in ends}
    assert found.cause is not None
    assert PortId(found.cause.device, found.cause.port) in ends
