"""Wrong settings of the lossless class where the end that drops is not read."""

from __future__ import annotations

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.model.incident import Incident, Severity
from fabricmon.model.readings import State
from fabricmon.model.topology import Intent, PortId

DEAF, UNREAD = PortId("spine0", "p0"), PortId("leaf0", "u0")
FULL, HOST = PortId("leaf0", "d0"), PortId("h0-0", "nic")
NAN = float("nan")
REFRESH = 100e9 / (65_535 * 512)
"""Pause frames a second that keep a port of 100 Gb/s paused without a break."""


def wrong(run: Run, values: dict[str, dict[PortId, float]], unread: PortId) -> list[Incident]:
    """Misconfigurations that are open after some polls; `unread` counts no drops."""
    more = {**values, "queue_discards": {unread: NAN}}
    found = run.ticks(5, more, states={unread: State.MISSING})
    return [i for i in found.open if i.kind == "lossless-misconfig"]


def fabric(*, paused_before: float = 0.001) -> Run:
    """A fabric in which one port has been paused before, for so much of the time."""
    run = Run(leaf_spine(intent=Intent((3,))))
    run.ticks(20, {"stall": {PortId("spine0", "p1"): paused_before}})
    return run


def test_a_port_that_sends_through_pauses_is_told_without_its_peers_drops() -> None:
    """It is asked to stop all the time, sends on, and never waits."""
    (incident,) = wrong(fabric(), {"rx_pfc_frames": {DEAF: REFRESH}}, UNREAD)
    assert (incident.reason, incident.severity) == ("pfc-one-sided", Severity.MILD)
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == DEAF


@pytest.mark.parametrize(
    ("before", "values"),
    [
        (0.001, {"stall": {DEAF: 0.01}}),
        (0.001, {"tx_use": {DEAF: 0.0}}),
        (0.0, {}),
    ],
    ids=["it waits a little", "it has nothing to send", "its device never counts paused time"],
)
def test_a_port_that_may_have_heeded_them_is_not(
    before: float, values: dict[str, dict[PortId, float]]
) -> None:
    """Stop and go, an idle port, and a counter that stands still prove nothing."""
    run = fabric(paused_before=before)
    assert wrong(run, {"rx_pfc_frames": {DEAF: REFRESH}, **values}, UNREAD) == []


LOST = {"tx_use": {FULL: 0.95}, "rx_use": {HOST: 0.95}, "out_of_sequence": {HOST: 500.0}}


def test_a_switch_that_pauses_nobody_is_told_by_the_host_that_misses_packets() -> None:
    """Behind a full port, over a clean cable: they were dropped there, and nobody was asked."""
    (incident,) = wrong(fabric(), LOST, FULL)
    assert incident.reason == "pfc-off"
    assert incident.cause is not None
    assert (incident.cause.device, incident.cause.port) == ("leaf0", "")


@pytest.mark.parametrize(
    "values",
    [
        {"tx_pfc_frames": {UNREAD: 100.0}},
        {"rx_errors": {HOST: 500.0}},
        {"tx_use": {FULL: 0.5}},
        {"out_of_sequence": {}},
    ],
    ids=["it pauses", "the cable errs", "the port has room", "nothing is missed"],
)
def test_what_else_may_have_lost_them_is_not(values: dict[str, dict[PortId, float]]) -> None:
    """Each part of the signature is needed."""
    assert wrong(fabric(), {**LOST, **values}, FULL) == []
