"""The port table: stable rows, peers and roles from the topology, a ceiling."""

from __future__ import annotations

import numpy as np

from fabricmon.model.ports import NO_PEER, PortRole, PortTable
from fabricmon.model.readings import PortSet
from fabricmon.model.topology import Link, Node, PortFacts, PortId, Role, Technology, Topology


def _topology() -> Topology:
    return Topology(
        (
            Node("h", "host", Role.HOST, Technology.INFINIBAND),
            Node("l", "switch", Role.LEAF, Technology.INFINIBAND),
            Node("s", "switch", Role.SPINE, Technology.INFINIBAND),
        ),
        (
            Link(PortId("h", "1"), PortId("l", "1"), 4e11),
            Link(PortId("l", "2"), PortId("s", "1"), 8e11),
        ),
        (PortFacts(PortId("l", "1"), tick_bytes=8, lanes=4, rail="r1"),),
    )


class TestRows:
    def test_rows_are_dense_and_stay(self) -> None:
        """The same names give the same rows, however often and in which set they come."""
        table = PortTable()
        first = table.rows(PortSet(("a", "a"), ("1", "2")))
        again = table.rows(PortSet(("a", "b"), ("2", "1")))
        assert ([0, 1], [1, 2]) == (first.tolist(), again.tolist())
        assert 3 == len(table)

    def test_growth_keeps_what_was_there(self) -> None:
        """Beyond the first 64 rows arrays are replaced; facts stay."""
        table = PortTable()
        table.adopt(_topology())
        table.rows(PortSet(("x",) * 500, tuple(map(str, range(500)))))
        row = table.row(PortId("l", "1"))
        assert row is not None
        assert (8.0, 4) == (table.tick_bytes[row], table.lanes[row])

    def test_a_full_table_refuses_and_counts(self) -> None:
        """A device that invents ports cannot fill the memory."""
        table = PortTable(limit=2)
        rows = table.rows(PortSet(("a",) * 4, ("1", "2", "3", "4")))
        assert [0, 1, -1, -1] == rows.tolist()
        assert (2, 2) == (len(table), table.refused)


class TestAdopt:
    def test_peers_roles_and_technology(self) -> None:
        """What a port faces follows from the tiers of both ends."""
        table = PortTable()
        table.adopt(_topology())
        role = {str(port): PortRole(int(table.role[i])) for i, port in enumerate(table.ids)}
        expected = {
            "h[1]": PortRole.HOST, "l[1]": PortRole.DOWN, "l[2]": PortRole.UP,
            "s[1]": PortRole.ACROSS,
        }  # fmt: skip
        assert expected == role
        assert table.infiniband.all()
        peers = {str(table.ids[i]): int(p) for i, p in enumerate(table.peer)}
        assert table.row(PortId("l", "1")) == peers["h[1]"]

    def test_a_cable_that_is_gone_leaves_no_peer(self) -> None:
        """Peers are those of the newest topology only."""
        table = PortTable()
        table.adopt(_topology())
        table.adopt(Topology(_topology().nodes, _topology().links[:1]))
        row = table.row(PortId("s", "1"))
        assert row is not None
        assert NO_PEER == table.peer[row]

    def test_read_speeds_win_over_the_link_s(self) -> None:
        """A link negotiated down shows what it runs at; zero and NaN teach nothing."""
        table = PortTable()
        table.adopt(_topology())
        rows = table.rows(PortSet(("h", "l"), ("1", "1")))
        table.set_speed(rows, np.array([1e11, np.nan]))
        assert [1e11, 4e11] == table.speed_bps[rows].tolist()


def test_another_rounding_of_a_speed_is_no_change() -> None:
    """Whoever keeps something per `version` would start anew at every poll."""
    table = PortTable()
    rows = table.rows(PortSet(("leaf1",), ("swp1",)))
    table.set_speed(rows, np.array([1e11]))
    known = table.version
    table.set_speed(rows, np.array([1e11 * (1 + 1e-9)]))
    assert table.version == known
    table.set_speed(rows, np.array([5e10]))
    assert table.version > known
