"""A link that gets worse is named before it loses anything."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.model.incident import IncidentKind, Severity
from fabricmon.model.topology import PortId

LINK = PortId("leaf0", "u0")
HEALTHY = {"rx_power_dbm": -1.0, "pre_fec_ber": 2e-6}


def seasoned() -> Run:
    """A fabric whose light and error rates have wavered a little for a minute."""
    run, noise = Run(leaf_spine()), np.random.default_rng(4)
    for _ in range(60):
        run.levels = {
            "rx_power_dbm": -1.0 + noise.normal(0, 0.2),
            "pre_fec_ber": 2e-6 * 10 ** noise.normal(0, 0.15),
        }
        assert not run.tick().open
    run.levels = HEALTHY
    return run


@pytest.mark.parametrize(
    ("signal", "worse"),
    [
        ("rx_power_dbm", [-1.0 - 0.15 * k for k in range(40)]),
        ("pre_fec_ber", [2e-6 * 10 ** (0.06 * k) for k in range(40)]),
    ],
)
def test_a_rising_trend_is_a_degraded_link_before_any_loss(signal: str, worse: list[float]) -> None:
    """Power that falls, or errors before correction that rise: one mild incident at that port."""
    run = seasoned()
    found = [run.tick({signal: {LINK: value}}).open for value in worse]
    (incident,) = found[-1]
    assert (incident.kind, incident.reason) == (IncidentKind.DEGRADED_LINK, "fading")
    assert incident.severity is Severity.MILD
    assert (incident.cause.device, incident.cause.port) == tuple(LINK)
    first = next(evidence for evidence in incident.evidence if evidence.counter == signal)
    assert first.value == pytest.approx(worse[-1], rel=1.0)
    assert "before" in first.expected
    opened = next(k for k, open_ in enumerate(found) if open_)
    assert 5 < opened < 39


def test_loss_says_it_better() -> None:
    """Once packets are lost on the link, that is the finding; the trend adds no second one."""
    run = seasoned()
    for k in range(40):
        run.tick({"rx_power_dbm": {LINK: -1.0 - 0.15 * k}})
    losing = {"rx_power_dbm": {LINK: -7.0}, "rx_errors": {LINK: 5e5}}
    (incident,) = run.ticks(6, losing).open
    assert incident.severity is Severity.MODERATE


def test_what_was_always_so_is_no_trend() -> None:
    """A port with little light from the start, a step that is over at once, and what is missing."""
    run = Run(leaf_spine())
    run.levels = dict(HEALTHY)
    weak = {"rx_power_dbm": {LINK: -9.0}, "pre_fec_ber": {LINK: 1e-4}}
    assert not run.ticks(60, weak).open
    run = seasoned()
    for value in (-8.0, np.nan, -8.0, -1.0, np.nan, -1.0):
        run.tick({"rx_power_dbm": {LINK: value}})
    assert not run.ticks(20).open
