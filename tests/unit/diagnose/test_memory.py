"""What is remembered of links that go down."""

from __future__ import annotations

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.model.incident import IncidentKind
from fabricmon.model.topology import PortId

DOWN = PortId("leaf0", "d0")


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
