"""Whom a port is compared with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.windows import star

from fabricmon.detect.peers import Peers
from fabricmon.model.ports import PortTable
from fabricmon.model.topology import Job, Link, Node, PortFacts, PortId, Role, Topology


def _peers(topology: Topology) -> tuple[Peers, PortTable]:
    table = PortTable()
    table.adopt(topology)
    peers = Peers()
    peers.follow(table, topology)
    return peers, table


def test_hosts_and_switch_ports_are_apart() -> None:
    """Roles are never compared with each other."""
    peers, table = _peers(star(10))
    hosts = [i for i, p in enumerate(table.ids) if p.device != "leaf"]
    leaf = [i for i, p in enumerate(table.ids) if p.device == "leaf"]
    assert len(set(peers.group[hosts])) == len(set(peers.group[leaf])) == 1
    assert peers.group[hosts[0]] != peers.group[leaf[0]]


def test_small_groups_have_no_peers() -> None:
    """Seven ports say nothing about the eighth."""
    peers, _ = _peers(star(7))
    assert (peers.group == -1).all()
    assert np.isnan(peers.middle(np.zeros(14, np.float32))).all()


def test_ports_of_one_job_are_peers() -> None:
    """A job of eight hosts is compared with itself, the rest with the rest."""
    base = star(20)
    job = Job("j", tuple(f"h{i}" for i in range(8)))
    peers, table = _peers(Topology(base.nodes, base.links, jobs=(job,)))
    mine = peers.group[[i for i, p in enumerate(table.ids) if p.device in job.hosts]]
    other = [i for i, p in enumerate(table.ids) if p.device.startswith("h")]
    rest = peers.group[[i for i in other if table.ids[i].device not in job.hosts]]
    assert len(set(mine)) == 1
    assert set(mine).isdisjoint(rest)


@given(st.lists(st.floats(0, 1, width=32), min_size=9, max_size=40))
def test_the_middle_is_the_median(shares: list[float]) -> None:
    """From the histogram the median comes out to a tenth of its value."""
    peers, table = _peers(star(len(shares)))
    hosts = np.array([i for i, p in enumerate(table.ids) if p.device != "leaf"])
    value = np.full(len(table), np.nan, np.float32)
    value[hosts] = shares
    middle = peers.middle(value)[hosts[0]]
    true = np.sort(value[hosts])[(len(shares) + 1) // 2 - 1]
    assert middle == pytest.approx(true, rel=0.12, abs=1.5e-3)


def test_siblings_are_the_other_ways_up() -> None:
    """Two uplinks of a switch are siblings; the mean of the others leaves oneself out."""
    base = star(2)
    spines = tuple(Node(f"s{i}", "switch", Role.SPINE) for i in range(3))
    ups = tuple(Link(PortId("leaf", f"u{i}"), PortId(f"s{i}", "e0")) for i in range(3))
    peers, table = _peers(Topology((*base.nodes, *spines), (*base.links, *ups)))
    rows = [table.row(PortId("leaf", f"u{i}")) for i in range(3)]
    use = np.zeros(len(table), np.float32)
    use[rows] = [0.9, 0.1, 0.3]
    assert peers.others(use)[rows].tolist() == pytest.approx([0.2, 0.6, 0.5])
    assert np.isnan(peers.others(use)[table.row(PortId("h0", "eth0"))])


def test_rails_of_a_host_are_siblings() -> None:
    """Its cards that have a rail are compared with each other, not with those of other hosts."""
    base = star(2)
    second = Link(PortId("h0", "eth1"), PortId("leaf", "r1"))
    cards = [PortId("h0", "eth0"), PortId("h0", "eth1")]
    facts = tuple(PortFacts(port, rail=f"rail{i}") for i, port in enumerate(cards))
    peers, table = _peers(Topology(base.nodes, (*base.links, second), facts))
    use = np.zeros(len(table), np.float32)
    rows = [table.row(port) for port in cards]
    use[rows] = [0.9, 0.1]
    assert peers.others(use)[rows].tolist() == pytest.approx([0.1, 0.9])
    assert np.isnan(peers.others(use)[table.row(PortId("h1", "eth0"))])
