"""Shapes, wiring and ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.errors import ConfigError, FabricmonError
from fabricmon.formats import interchange
from fabricmon.model.topology import Technology, Topology
from fabricmon.simulate.fabric.imported import read_topology
from fabricmon.simulate.fabric.routing import PAD, Router
from fabricmon.simulate.fabric.shapes import fat_tree, leaf_spine, rails
from fabricmon.simulate.fabric.wiring import Wiring, wire

if TYPE_CHECKING:
    from pathlib import Path

ROCE, IB = Technology.ROCE, Technology.INFINIBAND


@pytest.fixture
def tree() -> Wiring:
    """A fat tree of 16 hosts."""
    return wire(fat_tree(IB, k=4, speed_bps=200e9, uplink_bps=200e9))


def test_the_other_end_of_a_port_is_its_neighbour_index(tree: Wiring) -> None:
    """`e ^ 1` is the far end of the same cable."""
    for link in tree.topology.links:
        assert tree.index[link.a] ^ 1 == tree.index[link.b]


def test_fat_tree_paths_are_shortest_and_connected(tree: Wiring) -> None:
    """Two, four or six links; each begins where the one before ended."""
    start = np.repeat(tree.cards, 15)
    end = np.concatenate([np.delete(tree.cards, i) for i in range(16)])
    path, flow = Router(tree).paths(start, end)
    assert len(flow) == 240
    lengths = (path != PAD).sum(axis=1)
    assert sorted(set(lengths.tolist())) == [2, 4, 6]
    for row in path:
        hops = row[row != PAD]
        assert (tree.target[hops[:-1]] == tree.source[hops[1:]]).all()


@pytest.mark.parametrize("shift", [1, 4, 5, 8])
def test_a_permutation_has_no_collisions_on_static_routes(shift: int) -> None:
    """A ring over a non-blocking leaf-spine puts at most one flow on each uplink."""
    fabric = wire(
        leaf_spine(IB, leaves=4, spines=4, hosts_per_leaf=4, speed_bps=1e11, uplink_bps=1e11)
    )
    path, _ = Router(fabric).paths(fabric.cards, np.roll(fabric.cards, shift))
    links, counts = np.unique(path[path != PAD], return_counts=True)
    assert counts.max() == 1
    assert len(links) > 16


def test_hashing_collides_and_spreading_splits() -> None:
    """ECMP puts several flows on one uplink; adaptive routing uses all of them for one flow."""
    fabric = wire(
        leaf_spine(ROCE, leaves=2, spines=4, hosts_per_leaf=8, speed_bps=1e11, uplink_bps=2e11)
    )
    start, end = fabric.cards[:8], fabric.cards[8:]
    hashed, _ = Router(fabric).paths(start, end, mode="ecmp", salt=5)
    _, counts = np.unique(hashed[:, 1], return_counts=True)
    assert counts.max() > 2
    spread, flow = Router(fabric).paths(start[:1], end[:1], mode="adaptive", ways=4)
    assert flow.tolist() == [0, 0, 0, 0]
    assert len(np.unique(spread[:, 1])) == 4


def test_ways_avoid_what_is_down() -> None:
    """Traffic moves to the other uplinks; a host whose only cable is down has no way."""
    fabric = wire(
        leaf_spine(ROCE, leaves=2, spines=2, hosts_per_leaf=2, speed_bps=1e11, uplink_bps=1e11)
    )
    up = np.ones(len(fabric), np.bool_)
    dead = fabric.port("leaf0/Ethernet3")
    up[[dead, dead ^ 1]] = False
    path, flow = Router(fabric, up).paths(fabric.cards[:2], fabric.cards[2:])
    assert len(flow) == 2
    assert dead not in path
    up[[fabric.cards[0], fabric.cards[0] ^ 1]] = False
    assert len(Router(fabric, up).paths(fabric.cards[:2], fabric.cards[2:])[1]) == 1


def test_a_drained_uplink_moves_only_its_own_flows() -> None:
    """What went another way before still does: a drain does not reshuffle the fabric."""
    fabric = wire(
        leaf_spine(ROCE, leaves=3, spines=4, hosts_per_leaf=8, speed_bps=1e11, uplink_bps=4e11)
    )
    start, end = fabric.cards, np.roll(fabric.cards, 8)
    before, _ = Router(fabric).paths(start, end)
    dead = fabric.port("leaf0/Ethernet10")
    up = np.ones(len(fabric), np.bool_)
    up[[dead, dead ^ 1]] = False
    after, _ = Router(fabric, up).paths(start, end)
    used = ((before == dead) | (before == dead ^ 1)).any(axis=1)
    assert used.any()
    assert (before[~used] == after[~used]).all()
    assert not np.isin(after, [dead, dead ^ 1]).any()


def test_rails_give_every_host_a_card_on_every_rail() -> None:
    """Card r of each host goes to a leaf of rail r, and says so."""
    topology = rails(
        ROCE, hosts=4, rails=8, hosts_per_leaf=4, spines=2, speed_bps=4e11, uplink_bps=8e11
    )
    fabric = wire(topology)
    assert len(fabric.cards) == 32
    assert fabric.topology.nodes[fabric.target[fabric.card("host2", 5)]].name == "leaf5"
    facts = {f.id: f.rail for f in topology.ports}
    assert facts[fabric.ports[fabric.card("host2", 5)]] == "rail5"
    with pytest.raises(FabricmonError, match="no network card 8"):
        fabric.card("host2", 8)


def test_infiniband_names_and_ticks() -> None:
    """Switch ports are numbers, adapters `mlx5_N/1`, ticks those of a Quantum switch."""
    topology = leaf_spine(IB, leaves=1, spines=1, hosts_per_leaf=1, speed_bps=4e11, uplink_bps=4e11)
    assert str(topology.links[0].a) == "host0[mlx5_0/1]"
    assert str(topology.links[0].b) == "leaf0[1]"
    assert {f.tick_bytes for f in topology.ports} == {8.0}
    assert all(node.guid for node in topology.nodes)


def test_a_fabric_from_a_file(tmp_path: Path, tree: Wiring) -> None:
    """An interchange topology comes back as it was; a broken one names its file."""
    path = tmp_path / "topology.json"
    path.write_bytes(interchange.write_topology(tree.topology))
    assert len(wire(read_topology(path))) == len(tree)
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"topology\.json"):
        read_topology(path)
    with pytest.raises(ConfigError, match="No such file"):
        read_topology(tmp_path / "nothing.json")


def test_a_topology_without_links_cannot_be_simulated() -> None:
    """One clear message."""
    with pytest.raises(FabricmonError, match="needs hosts and links"):
        wire(Topology())


DISCOVERED = """\
#
# Topology file: generated on Mon Nov 30 02:00:00 2026
#
vendid=0x2c9
devid=0xd2f2
sysimgguid=0x100000
switchguid=0x100000(100000)
Switch\t4 "S-0000000000100000"\t\t# "top" enhanced port 0 lid 1 lmc 0
[1]\t"H-0000000000200000"[1](200001) \t\t# "alpha" lid 2 4xNDR
[2]\t"H-0000000000300000"[1](300001) \t\t# "beta" lid 3 4xNDR

vendid=0x2c9
devid=0x1021
sysimgguid=0x200000
caguid=0x200000
Ca\t1 "H-0000000000200000"\t\t# "alpha"
[1](200001) \t"S-0000000000100000"[1]\t\t# lid 2 lmc 0 "top" lid 1 4xNDR

vendid=0x2c9
devid=0x1021
sysimgguid=0x300000
caguid=0x300000
Ca\t1 "H-0000000000300000"\t\t# "beta"
[1](300001) \t"S-0000000000100000"[2]\t\t# lid 3 lmc 0 "top" lid 1 4xNDR
"""


def test_a_fabric_from_a_saved_discovery(tmp_path: Path) -> None:
    """What `ibnetdiscover` printed becomes a fabric with its speeds and a known tick."""
    path = tmp_path / "fabric.txt"
    path.write_text(DISCOVERED)
    topology = read_topology(path)
    fabric = wire(topology)
    assert len(fabric.cards) == 2
    assert fabric.infiniband
    assert set(fabric.capacity.tolist()) == {400e9}
    assert {f.tick_bytes for f in topology.ports} == {8.0}
