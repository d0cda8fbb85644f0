"""Traces of a packet-level simulator that is not ours: right kind, right cable, silent twins."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from support import guises, rules_only, samples
from support.guises import faster, jobless, lower_unread, rename, thin

from fabricmon import app
from fabricmon.formats.interchange import LABELS, TOPOLOGY, Label, read_labels
from fabricmon.model.topology import PortId
from fabricmon.record import open_source
from fabricmon.runtime.offline import drive

if TYPE_CHECKING:
    from support.guises import Guise

    from fabricmon.model.incident import Incident
    from fabricmon.model.stream import Item

FAULTS = ("ls32_incast_s1", "ls32_nic_storm_s1", "ls32_link_loss_s1", "ls32_ecn_late_s1")
TWIN_POLLS = 160
"""The first polls of every trace are those of the healthy twin."""


@lru_cache(maxsize=1)
def _items(name: str) -> tuple[Item, ...]:
    context = app.make_context(quiet=True)
    return tuple(open_source([samples("labelled", name)], report=context.report).items())


def _product(name: str) -> list[Incident]:
    """Every incident of the whole product, worst first."""
    pipeline = app.make_pipeline("labelled", app.make_context(quiet=True))
    return list(drive(_items(name), pipeline).worst_first())


def _label(name: str) -> Label:
    (label,) = read_labels(samples("labelled", name, LABELS).read_bytes())
    return label


def _right_places(name: str) -> set[PortId]:
    """The labelled causes, their devices, and the other ends of their cables."""
    links = json.loads(samples("labelled", name, TOPOLOGY).read_text())["links"]
    causes = {(cause.device, cause.port) for cause in _label(name).causes}
    ends = [(tuple(link["a"]), tuple(link["b"])) for link in links]
    right = causes | {b for a, b in ends if a in causes} | {a for a, b in ends if b in causes}
    return {PortId(*place) for place in right}


def _is_right(found: Incident, label: Label, places: set[PortId]) -> bool:
    assert found.cause is not None
    where = PortId(found.cause.device, found.cause.port)
    whole = {PortId(place.device, "") for place in places if not place.port}
    at = where in places or PortId(where.device, "") in whole or not where.port
    devices = {place.device for place in places}
    return found.kind in {label.kind, *label.accept} and at and where.device in devices


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["ls32_healthy_s1", "ls32_benign_shift_s1"])
def test_healthy_traces_are_silent(name: str) -> None:
    """Neither the healthy twin nor a change of the workload opens anything."""
    assert _product(name) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_the_one_incident_of_its_trace(name: str) -> None:
    """Of the labelled kind, at its place, in time; nothing in the polls of the twin."""
    label = _label(name)
    (found,) = _product(name)
    assert _is_right(found, label, _right_places(name))
    twin_ends = _items(name)[-1].time_ns - (320 - TWIN_POLLS) * 10**9  # type: ignore[union-attr]
    assert twin_ends < found.started_ns
    assert label.start_ns <= found.started_ns <= label.end_ns


@pytest.mark.timeout(600)
@pytest.mark.parametrize("guise", [rename, faster, thin, jobless, lower_unread])
@pytest.mark.parametrize("name", FAULTS)
def test_kind_and_cause_stay(name: str, guise: Guise) -> None:
    """The same trace under another guise is the same fault at the same place."""
    places = _right_places(name)
    if guise is rename:
        places = {guises.other_port(place) for place in places}
    found = rules_only.incidents(guise(_items(name)), app.make_context(quiet=True))
    assert found, f"{guise.__name__} hides it"
    assert _is_right(found[0], _label(name), places)
