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

_BOTH = (rename, faster, thin, jobless, lower_unread, upper_unread)
_LOWER = (rename, faster, thin, jobless, lower_unread)
_WHOLE = (rename, faster, thin, jobless)
CASES: dict[str, Sequence[Guise]] = {
    "incast": _BOTH,
    "incast-ib": _LOWER,
    "slow-receiver": _BOTH,
    "slow-receiver-ib": _LOWER,
    "pfc-storm": _BOTH,
    "pfc-deadlock": _BOTH,
    "credit-deadlock-ib": _WHOLE,
    "oversubscription": _LOWER,
    "oversubscription-ib": _WHOLE,
    "path-imbalance": _WHOLE,
    "path-imbalance-ib": _WHOLE,
    "degraded-link": _LOWER,
    "degraded-link-ib": _LOWER,
    "flapping-link": _LOWER,
    "flapping-link-ib": _LOWER,
    "pfc-off": _LOWER,
    "ecn-silent": _LOWER,
    "collective-stall": (rename, faster, lower_unread, upper_unread),
    "collective-stall-ib": (rename, faster, lower_unread, upper_unread),
}
"""A scenario of each kind and technology, and what may be done to it.

On InfiniBand only the waiting end counts the wait, so a port that is not read is known by nothing
else: who waits, or is full, in the lower tier must be read. A straggler needs the jobs, and three
polls an iteration.
"""


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


def test_every_fault_scenario_has_its_kind_tried() -> None:
    """No kind that a scenario shows about the fabric or its hosts is left out."""
    tried = {read(name).kind for name in CASES}
    telemetry = {"telemetry-stale", "counter-reset", "counter-broken", "healthy", "unclassified"}
    assert set(IncidentKind) - telemetry <= tried
