"""Which ports must be held back although nobody counts their waiting."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabrics import leaf_spine

from fabricmon.diagnose.fabric.shape import Shape
from fabricmon.diagnose.fabric.unread import presumed
from fabricmon.model.ports import PortTable
from fabricmon.model.topology import PortId, Technology

HELD, FULL = PortId("leaf1", "u0"), PortId("leaf0", "d0")
CONDUIT = PortId("spine0", "p0")


def given(
    held: dict[PortId, float], holding: dict[PortId, float], unread: list[PortId]
) -> dict[PortId, float]:
    """What is presumed, of the ports of a fabric of three leaves, where it is anything."""
    topology = leaf_spine(technology=Technology.INFINIBAND)
    table = PortTable()
    table.adopt(topology)

    def filled(values: dict[PortId, float]) -> np.ndarray:
        out = np.zeros(len(table), np.float32)
        for port, value in values.items():
            out[table.row(port)] = value
        return out

    blind = filled(dict.fromkeys(unread, 1.0)) > 0
    found = presumed(Shape(table, topology), filled(held), filled(holding), blind)
    return {table.ids[row]: float(found[row]) for row in np.flatnonzero(found)}


SPINES = [PortId("spine0", f"p{n}") for n in range(3)]


def test_pressure_passes_through_the_port_that_leads_to_a_full_one() -> None:
    """Of three unread ports of the spine only one leads on to something that holds back."""
    assert given({HELD: 0.6}, {FULL: 1.0}, SPINES) == {CONDUIT: pytest.approx(0.6)}


def test_nothing_is_presumed_where_a_port_that_is_read_explains_it() -> None:
    """The spine's own full port is reason enough."""
    read = SPINES[2]
    assert given({HELD: 0.6}, {FULL: 0.9, read: 1.0}, SPINES[:2]) == {}


def test_the_way_back_explains_nothing() -> None:
    """A port is not held back by the port at the other end of its own cable."""
    assert given({HELD: 0.6}, {}, SPINES) == {}


@pytest.mark.parametrize("unread", [[], SPINES[1:]])
def test_ports_that_are_read_or_lead_elsewhere_are_left_alone(unread: list[PortId]) -> None:
    """Only what is unread, and leads to what holds back, is presumed."""
    assert given({HELD: 0.6}, {FULL: 1.0}, unread) == {}


def test_nobody_waits_and_nothing_is_presumed() -> None:
    """A full port alone holds nobody back."""
    assert given({}, {FULL: 1.0}, SPINES) == {}
