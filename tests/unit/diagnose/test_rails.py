"""Rails and planes of hosts whose counters are set by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from support.fabrics import Run

from fabricmon.model.incident import Incident, IncidentKind, Verdict
from fabricmon.model.topology import Job, Link, Node, PortFacts, PortId, Role, Topology

HOSTS, CARDS = 6, 4


def card(host: int, number: int) -> PortId:
    """A card of a host."""
    return PortId(f"h{host}", f"nic{number}")


def several(kind: str, *, job: bool = True) -> Topology:
    """Every host has a card on each of four switches, which are its rails or planes."""
    hosts = [Node(f"h{h}", "host", Role.HOST) for h in range(HOSTS)]
    leaves = [Node(f"leaf{n}", "switch", Role.LEAF) for n in range(CARDS)]
    pairs = list(product(range(HOSTS), range(CARDS)))
    links = [Link(card(h, n), PortId(f"leaf{n}", f"d{h}"), 100e9) for h, n in pairs]
    facts = [PortFacts(card(h, n), **{kind: f"{kind}{n}"}) for h, n in pairs]
    jobs = (Job("j", tuple(f"h{h}" for h in range(HOSTS))),) if job else ()
    return Topology((*hosts, *leaves), tuple(links), tuple(facts), jobs)


def told(kind: str, hosts: range, use: tuple[float, ...], *, job: bool = True) -> list[Incident]:
    """What is open after these hosts have sent so by their cards for a while."""
    run = Run(several(kind, job=job))
    run.ticks(40)
    shares = {card(h, n): use[n] for h in hosts for n in range(CARDS)}
    arrive = {PortId(f"leaf{n}", f"d{h}"): use[n] for h in hosts for n in range(CARDS)}
    return list(run.ticks(12, {"tx_use": shares, "rx_use": arrive}).open)


@pytest.mark.parametrize("job", [True, False])
@pytest.mark.parametrize("kind", ["rail", "plane"])
def test_a_host_that_sends_all_by_one_card_is_an_imbalance(kind: str, *, job: bool) -> None:
    """It is the host's doing, its full card is the cause, and evidence shows the empty ones."""
    (incident,) = told(kind, range(2, 3), (0.0, 0.95, 0.0, 0.0), job=job)
    assert (incident.kind, incident.reason) == (IncidentKind.PATH_IMBALANCE, kind)
    assert incident.verdict is Verdict.HOST
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == card(2, 1)
    shown = {(e.device, e.port): e.value for e in incident.evidence if e.counter == "tx_use"}
    assert shown == {card(2, n): pytest.approx(0.95 * (n == 1)) for n in range(CARDS)}


def test_a_job_may_send_by_one_rail() -> None:
    """Where most hosts of a job prefer a rail, that is how the job sends: its healthy twin."""
    assert told("rail", range(1, HOSTS), (0.95, 0.0, 0.0, 0.0)) == []


def test_a_plane_that_all_hosts_fill_is_the_fabrics() -> None:
    """Planes are used evenly by design: one that takes the traffic of all is one incident."""
    (incident,) = told("plane", range(HOSTS), (0.95, 0.1, 0.1, 0.1))
    assert (incident.reason, incident.verdict) == ("plane", Verdict.FABRIC)
    assert incident.cause is not None
    assert incident.cause.port == "nic0"


@pytest.mark.parametrize("use", [(0.9, 0.9, 0.9, 0.9), (0.1, 0.1, 0.1, 0.1), (0.43, 0.1, 0.1, 0.1)])
@pytest.mark.parametrize("kind", ["rail", "plane"])
def test_load_that_fills_no_card_or_all_of_them_is_none(kind: str, use: tuple[float, ...]) -> None:
    """More or less of everything, and a preference that leaves room, harm nobody."""
    assert told(kind, range(2, 3), use) == []


def test_what_a_broken_card_carried_goes_by_the_others() -> None:
    """A host whose card is down fills the rest: that is a broken link and no imbalance."""
    run = Run(several("plane"))
    run.ticks(40)
    use = {card(2, n): 0.95 * (n > 0) for n in range(CARDS)}
    down = {"oper_up": {card(2, 0): 0.0}, "tx_use": use}
    found = run.ticks(12, down).open
    assert all(i.kind is not IncidentKind.PATH_IMBALANCE for i in found)


def test_what_a_slow_card_leaves_to_the_others_is_no_imbalance() -> None:
    """An adapter moves packets away from a plane that runs at a quarter of its speed."""
    topology = several("plane")
    worn = replace(topology.ports[2 * CARDS + 3], speed_bps=25e9, nominal_bps=100e9)
    run = Run(topology.merged(Topology(ports=(worn,))))
    run.ticks(40)
    found = run.ticks(12, {"tx_use": {card(2, n): 0.1 + 0.85 * (n == 0) for n in range(CARDS)}})
    assert all(i.kind is not IncidentKind.PATH_IMBALANCE for i in found.open)
    assert found.open


def test_a_host_that_is_not_read_is_seen_by_its_switches() -> None:
    """What their ports receive is what its cards send."""
    run = Run(several("rail"))
    nan = float("nan")
    names = ("tx_use", "rx_use", "stall", "press")
    blind = {name: {card(2, n): nan for n in range(CARDS)} for name in names}
    run.ticks(40, blind)
    arrive = {PortId(f"leaf{n}", "d2"): 0.95 * (n == 3) for n in range(CARDS)}
    blind["rx_use"] |= arrive
    (incident,) = run.ticks(12, blind).open
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == card(2, 3)
