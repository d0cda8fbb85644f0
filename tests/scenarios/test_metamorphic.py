"""What must not change the verdict: names, order, speeds, poll length, jobs, one end of a link."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from support import guises
from support.guises import faster, jobless, lower_unread, rename, thin, upper_unread
from support.rules_only import incidents

from fabricmon.model.incident import IncidentKind
from fabricmon.model.topology import PortId, Topology
from fabricmon.simulate import load
from fabricmon.simulate.scenario import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.guises import Guise

    from fabricmon.api import Context
    from fabricmon.model.incident import Incident
    from fabricmon.model.stream import Item
    from fabricmon.simulate import Scenario

_WHOLE = (rename, faster, thin, jobless)
_UPPER = (*_WHOLE, upper_unread)
_LOWER = (*_WHOLE, lower_unread)
_BOTH = (*_WHOLE, lower_unread, upper_unread)
_IN_TIME = (rename, faster, lower_unread, upper_unread)
"""A straggler needs the jobs, and three polls an iteration."""
CASES: dict[str, Sequence[Guise]] = {
    "incast": _BOTH,
    "incast-ib": _BOTH,
    "slow-receiver": _BOTH,
    "slow-receiver-ib": _LOWER,
    "pfc-storm": _BOTH,
    "pfc-deadlock": _BOTH,
    "credit-deadlock-ib": _BOTH,
    "oversubscription": _BOTH,
    "oversubscription-ib": _UPPER,
    "path-imbalance": _BOTH,
    "path-imbalance-ib": _BOTH,
    "rail-imbalance": _BOTH,
    "plane-imbalance-ib": _BOTH,
    "degraded-link": _BOTH,
    "degraded-link-ib": _BOTH,
    "flapping-link": _BOTH,
    "flapping-link-ib": _BOTH,
    "pfc-off": _BOTH,
    "pfc-one-sided": _BOTH,
    "lossless-drops": _UPPER,
    "ecn-silent": _LOWER,
    "ecn-late": _LOWER,
    "global-pause": _BOTH,
    "wrong-priority": _UPPER,
    "collective-stall": _IN_TIME,
    "collective-stall-ib": _IN_TIME,
}
"""Every kind, technology and `reason`, and what may be done to it; the rest is in `BLIND`."""
_TRIGGER = IncidentKind.INCAST, PortId("leaf0", "Ethernet4")
"""Under which the wrong setting shows: right, and all that can be known."""
BLIND: dict[tuple[str, Guise], tuple[IncidentKind, PortId] | None] = {
    # the drops are counted where they happen, and the sender pauses as it is asked to
    ("lossless-drops", lower_unread): _TRIGGER,
    # marks are counted where they are made; the host counts those of every hop together
    ("ecn-silent", upper_unread): _TRIGGER,
    ("ecn-late", upper_unread): _TRIGGER,
    # a switch counts the classes it sends, not those it receives: only the host tells them apart
    ("wrong-priority", lower_unread): _TRIGGER,
    # only the hosts know that they wait for the full uplinks: without them it is load
    ("oversubscription-ib", lower_unread): None,
    # only the port towards the host counts that it waits; the host's own use is that of its job
    ("slow-receiver-ib", upper_unread): None,
}
"""What nobody can know with that end of every cable unread, why, and what is told instead."""


@lru_cache(maxsize=1)
def _played(name: str) -> tuple[Scenario, Topology, tuple[Item, ...]]:
    """A scenario as two targets, which is the same to read and less to do."""
    scenario = read(name)
    collector = scenario.config.collector.model_copy(update={"per_device": False})
    config = scenario.config.model_copy(update={"collector": collector})
    simulation = load(replace(scenario, config=config))
    return scenario, simulation.topology, tuple(simulation.items())


def _cables(causes: Sequence[str], topology: Topology) -> set[PortId]:
    """Both ends of the cables of these ports, `device/port`, or whole devices."""
    named = {PortId(*cause.partition("/")[::2]) for cause in causes}
    ends = [(link.a, link.b) for link in topology.links]
    return named | {b for a, b in ends if a in named} | {a for a, b in ends if b in named}


def _worst(name: str, guise: Guise, context: Context) -> Incident:
    """The first incident in the product's order. Rules alone: the forest is not asked."""
    found = incidents(guise(_played(name)[2]), context)
    assert found, f"{guise.__name__} hides {name}"
    return found[0]


@pytest.mark.parametrize(
    ("name", "guise"),
    [(name, guise) for name, several in CASES.items() for guise in several],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_kind_and_cause_stay(name: str, guise: Guise, context: Context) -> None:
    """The same fault under another guise is the same fault, at the same cable or device."""
    scenario, topology, _ = _played(name)
    (expected,) = scenario.expect
    found = _worst(name, guise, context)
    assert found.kind in {expected.kind, *expected.accept}
    right = _cables(expected.causes, topology)
    if guise is rename:
        right = {guises.other_port(port) for port in right}
    assert found.cause is not None
    assert PortId(found.cause.device, found.cause.port) in right


@pytest.mark.parametrize(("name", "guise"), BLIND, ids=lambda v: getattr(v, "__name__", v))
def test_what_cannot_be_known_is_not_made_up(name: str, guise: Guise, context: Context) -> None:
    """What is seen of the fault is told, at the place where it is seen, or nothing for sure."""
    told = BLIND[name, guise]
    sure = [i for i in incidents(guise(_played(name)[2]), context) if i.confidence >= 0.5]
    if told is None:
        assert not sure
        return
    kind, place = told
    assert sure[0].kind is kind
    assert sure[0].cause is not None
    assert PortId(sure[0].cause.device, sure[0].cause.port) == place


def test_every_fault_has_every_guise_tried() -> None:
    """No end of a cable is left out without its reason, but for where only time or jobs tell."""
    tried = {(name, guise) for name, several in CASES.items() for guise in several}
    wanted = {(n, g) for n in CASES for g in (_IN_TIME if "collective" in n else _BOTH)}
    assert wanted == tried | set(BLIND)
    assert not tried & set(BLIND)


def test_every_fault_scenario_has_its_kind_tried() -> None:
    """No kind that a scenario shows about the fabric or its hosts is left out."""
    tried = {read(name).kind for name in CASES}
    telemetry = {"telemetry-stale", "counter-reset", "counter-broken", "healthy", "unclassified"}
    assert set(IncidentKind) - telemetry <= tried
