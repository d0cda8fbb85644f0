"""How far a confidence can be believed."""

from __future__ import annotations

from dataclasses import replace

from fabricmon.evaluate import Band, Observed, Run, reliability
from fabricmon.formats.interchange import Label
from fabricmon.model.topology import Link, PortId, Topology

A, B, C = PortId("leaf0", "d0"), PortId("h0", "nic"), PortId("leaf1", "d0")
FAULT = Label("incast", 100, 140, (A,), (), accept=("slow-receiver",))
ALARM = Observed("incast", 102, 102, 130, (A,), confidence=0.85)


def bands(*alarms: Observed) -> list[Band]:
    """The bands of one run of 1000 polls of a nanosecond."""
    cables = Topology(links=(Link(A, B, 1e11),))
    return reliability([Run("run", alarms, (FAULT,), cables, 1e-9, 0, 1000, 2)])


def test_incidents_fall_into_bands_by_what_they_were_told_with() -> None:
    """Right ones and wrong ones of a band are counted together, each with its own confidence."""
    wrong = replace(ALARM, causes=(C,), confidence=0.81)
    (band,) = bands(ALARM, replace(ALARM, causes=(B,)), wrong)
    assert (band.low, band.high, band.count) == (0.8, 0.9, 3)
    assert abs(band.told - (0.85 + 0.85 + 0.81) / 3) < 1e-9
    assert abs(band.right - 2 / 3) < 1e-9


def test_right_is_the_cause_and_the_kind_at_the_time() -> None:
    """An accepted kind is right, another kind or another time is not; telemetry is left out."""
    assert bands(replace(ALARM, kind="slow-receiver"))[0].right == 1.0
    assert bands(replace(ALARM, kind="pfc-storm"))[0].right == 0.0
    assert bands(replace(ALARM, opened_ns=149, end_ns=150))[0].right == 0.0
    assert bands(replace(ALARM, telemetry=True)) == []
