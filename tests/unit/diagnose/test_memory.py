"""What is remembered of links that go down."""

from __future__ import annotations

import math

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.model.incident import IncidentKind
from fabricmon.model.topology import PortId

DOWN = PortId("leaf0", "d0")
CABLE = [DOWN, PortId("h0-0", "nic")]


def _flaps(run: Run, times: int, counted_after: int) -> set[IncidentKind]:
    """So many downs of two polls, ten apart, each counted so many polls after the state fell."""
    found: set[IncidentKind] = set()
    for _ in range(times):
        for poll in range(10):
            values = {
                "oper_up": {DOWN: float(poll > 1)},
                "link_downed": {DOWN: float(poll == counted_after)},
            }
            found |= {incident.kind for incident in run.tick(values).open}
    return found


@pytest.mark.parametrize("counted_after", [0, 1, 2])
def test_a_down_counts_once_whenever_the_device_counts_it(counted_after: int) -> None:
    """The state falls and the counter moves, in the same poll or later: that is one break."""
    run = Run(leaf_spine())
    run.ticks(40)
    assert IncidentKind.FLAPPING_LINK not in _flaps(run, 1, counted_after)
    assert IncidentKind.FLAPPING_LINK in _flaps(run, 1, counted_after)


def _silences(run: Run, lost: float, host: str = "h0-0") -> set[IncidentKind]:
    """Three silences of one poll each, at a port whose state and downs nobody tells.

    `lost`: packets that `host` sends again, a second.
    """
    unknown = {
        "oper_up": dict.fromkeys(CABLE, math.nan),
        "link_downed": dict.fromkeys(CABLE, math.nan),
    }
    quiet = {name: dict.fromkeys(CABLE, 0.0) for name in ("tx_use", "rx_use")}
    found: set[IncidentKind] = set()
    for poll in range(24):
        values = unknown | {"retransmits": {PortId(host, "nic"): lost}}
        found |= {i.kind for i in run.tick(values | quiet if poll % 8 == 4 else values).open}
    return found


def test_a_port_that_rests_by_itself_proves_nothing_by_its_silence() -> None:
    """Where something is lost, a silence is a break, unless the port was silent without loss."""
    busy, rests = Run(leaf_spine()), Run(leaf_spine())
    busy.ticks(40)
    rests.ticks(40)
    assert IncidentKind.FLAPPING_LINK in _silences(busy, 50.0)
    assert IncidentKind.FLAPPING_LINK not in _silences(rests, 0.0)
    assert IncidentKind.FLAPPING_LINK not in _silences(rests, 50.0)


def test_what_other_hosts_lose_does_not_make_a_host_that_rests_a_broken_cable() -> None:
    """A host that had something under way when its link broke has to send it again itself."""
    run = Run(leaf_spine())
    run.ticks(40)
    assert IncidentKind.FLAPPING_LINK not in _silences(run, 50.0, "h1-0")


@pytest.mark.parametrize(
    ("ends", "lost", "use", "between", "flaps"),
    [
        (2, 50.0, 0.2, 0.4, True),
        (1, 50.0, 0.2, 0.4, False),
        (2, 0.0, 0.2, 0.4, False),
        (2, 50.0, 0.5, 0.4, False),
        (2, 50.0, 0.2, 0.2, False),
    ],
)
def test_queues_at_both_ends_of_a_cable_show_downs_that_are_shorter_than_a_poll(
    ends: int, lost: float, use: float, between: float, flaps: bool
) -> None:
    """Its directions share nothing but the link; a burst fills one, or carries more than usual.

    A link that sends no faster `between` them is slow in both directions.
    """
    cable = [PortId("leaf0", "u0"), PortId("spine0", "p0")]
    unknown = {name: dict.fromkeys(cable, math.nan) for name in ("oper_up", "link_downed")}
    unknown["retransmits"] = {PortId("h1-0", "nic"): lost}
    halts = {name: dict.fromkeys(cable, use) for name in ("tx_use", "rx_use")}
    halts["queue_depth_bytes"] = dict.fromkeys(cable[:ends], 900_000.0)
    run = Run(leaf_spine())
    run.ticks(40, unknown)
    calm = unknown | {"tx_use": dict.fromkeys(cable, between)}
    found: set[IncidentKind] = set()
    for poll in range(16):
        found |= {i.kind for i in run.tick(unknown | halts if poll % 8 == 4 else calm).open}
    assert (IncidentKind.FLAPPING_LINK in found) is flaps


def test_a_queue_that_left_within_the_poll_is_no_sign_of_a_down() -> None:
    """A slow cable ends a burst in both directions: they were deep, and little is left to send."""
    cable = [PortId("leaf0", "u0"), PortId("spine0", "p0")]
    unknown = {name: dict.fromkeys(cable, math.nan) for name in ("oper_up", "link_downed")}
    unknown["retransmits"] = {PortId("h1-0", "nic"): 50.0}
    ends = {name: dict.fromkeys(cable, 0.2) for name in ("tx_use", "rx_use")}
    ends["queue_depth_peak_bytes"] = dict.fromkeys(cable, 900_000.0)
    run = Run(leaf_spine())
    run.levels["queue_depth_peak_bytes"] = 0.0
    run.ticks(40, unknown)
    for poll in range(16):
        assert not run.tick(unknown | ends if poll % 8 == 4 else unknown).open


def test_a_silence_with_a_full_queue_that_nobody_holds_is_a_break() -> None:
    """Nothing lost and no state told: what waits at a port that may send waits for the link."""
    unknown = {name: dict.fromkeys(CABLE, math.nan) for name in ("oper_up", "link_downed")}
    quiet = unknown | {name: dict.fromkeys(CABLE, 0.0) for name in ("tx_use", "rx_use")}
    for depth, flaps in ((900_000.0, True), (1_000.0, False)):
        run = Run(leaf_spine())
        run.ticks(40, unknown)
        found: set[IncidentKind] = set()
        for poll in range(16):
            silent = quiet | {"queue_depth_bytes": {DOWN: depth}}
            found |= {i.kind for i in run.tick(silent if poll % 8 == 4 else unknown).open}
        assert (IncidentKind.FLAPPING_LINK in found) is flaps
