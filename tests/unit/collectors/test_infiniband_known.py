"""What is kept of a subnet from sweep to sweep, and how fast it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fabricmon.api import Target
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.collectors.infiniband.collector import read_node_names
from fabricmon.collectors.infiniband.known import KnownFabric, place_of
from fabricmon.collectors.infiniband.native.counters import Outcome
from fabricmon.collectors.infiniband.native.pump import Pump
from fabricmon.collectors.infiniband.ways import NativeWay
from fabricmon.errors import ConfigError, Reason
from fabricmon.formats.infiniband.ibfabric import IbFabric
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.testing import ManualClock

LEAF, HOST, SPINE = 0xB1, 0xC1, 0xB2
Config = InfinibandCollector.Config


def swept(*, without: tuple[int, ...] = (), **names: str) -> IbFabric:
    """A leaf with a host on port 1 and a spine on port 2, as a sweep sees them."""
    fabric = IbFabric(root=HOST)
    for guid, kind, name in (
        (LEAF, "switch", "leaf"),
        (HOST, "host", names.get("host", "gpu1 mlx5_0")),
        (SPINE, "switch", "spine"),
    ):
        if guid not in without:
            node = fabric.node(guid, kind)
            node.description, node.port_count = name, 2
            node.device_id = 0xD2F2 if kind == "switch" else 0x1021
    fabric.connect((LEAF, 1), (HOST, 1))
    fabric.connect((LEAF, 2), (SPINE, 1))
    for node in fabric.nodes.values():
        for port in node.ports.values():
            port.width, port.speed = "4x", "NDR"
    fabric.give_lids()
    return fabric


def make(context: Context, names: dict[int, str] | None = None, **config: object) -> KnownFabric:
    """Nothing known yet."""
    return KnownFabric("subnet", Config(**config), context, names or {})


def test_a_node_that_is_not_seen_is_kept_and_counted_until_it_is_forgotten(
    context: Context,
) -> None:
    """Five complete sweeps without it, then it is gone; meanwhile it is not asked."""
    known = make(context)
    known.adopt(swept())
    for _ in range(4):
        known.adopt(swept(without=(SPINE,)))
        assert SPINE in known.fabric.nodes
        assert known.silent_ports() == 2
        assert SPINE not in {node.guid for node, _ in known.asked()}
    known.adopt(swept(without=(SPINE,)))
    assert SPINE not in known.fabric.nodes
    assert known.silent_ports() == 0


def test_a_partial_sweep_forgets_nobody(context: Context) -> None:
    """While paths do not answer, what is missing may only be unreachable."""
    known = make(context)
    known.adopt(swept())
    for _ in range(20):
        partial = swept(without=(SPINE,))
        partial.unreachable.append("0,1,2")
        known.adopt(partial)
    assert SPINE in known.fabric.nodes


def test_the_port_towards_a_silent_node_is_not_told_to_be_down(context: Context) -> None:
    """Its state is unknown: the neighbour did not answer, which is no statement about the link."""
    known = make(context)
    partial = swept(without=(SPINE,))
    partial.nodes[LEAF].ports[2].peer = None
    partial.nodes[LEAF].ports[2].up = None
    partial.unreachable.append("0,1,2")
    known.adopt(partial)
    assert place_of(partial, "0,1,2", known.identity.labels) == "behind leaf[2]"
    assert place_of(partial, "0,9,9,9", known.identity.labels) == "at direct route 0,9,9,9"
    leaf = known.fabric.nodes[LEAF]
    assert known.levels(leaf, 2) == []
    assert {c.counter.id: v for c, v in known.levels(leaf, 1)}["oper_up"] == 1.0


def test_a_renamed_node_keeps_its_label_and_a_booting_host_gets_its_name_once(
    context: Context,
) -> None:
    """A series survives a renaming; the adapter's generic name is not worth keeping."""
    known = make(context)
    known.adopt(swept(host="MT4129 ConnectX7   Mellanox Technologies"))
    assert known.label(HOST).device == "MT4129 ConnectX7 Mellanox Technologies"
    known.adopt(swept(host="gpu1 mlx5_0"))
    assert known.label(HOST) == ("gpu1", "mlx5_0")
    known.adopt(swept(host="other mlx5_9"))
    assert known.label(HOST) == ("gpu1", "mlx5_0")


def test_the_operators_names_win(context: Context) -> None:
    """A node-name-map by GUID goes before node descriptions."""
    known = make(context, {LEAF: "rack-7", HOST: "node-1 mlx5_3"})
    known.adopt(swept())
    assert known.label(LEAF).device == "rack-7"
    assert known.label(HOST) == ("node-1", "mlx5_3")


def test_the_tick_comes_from_the_device_id_then_the_device_then_the_operator(
    context: Context,
) -> None:
    """Quantum-2 is listed; an adapter is unknown until it tells, or the config does."""
    known = make(context)
    known.adopt(swept())
    leaf, host = known.fabric.nodes[LEAF], known.fabric.nodes[HOST]
    assert known.tick_of(leaf, leaf.ports[1]) == 8.0
    assert known.tick_of(host, host.ports[1]) == 0.0
    known.learn_tick(HOST, 31)
    assert known.tick_of(host, host.ports[1]) == 128.0
    configured = make(context, tick_bytes=16)
    assert configured.tick_of(host, host.ports[1]) == 16.0


def test_a_plane_is_written_on_every_port(context: Context) -> None:
    """Where several subnets make one fabric, each target says which plane it is."""
    known = make(context, plane="plane-2")
    known.adopt(swept())
    assert {port.plane for port in known.topology().ports} == {"plane-2"}


def test_a_targets_options_go_before_the_collectors(context: Context) -> None:
    """Several subnets of one fabric differ in their plane; a mistake names its target and key."""
    planes = [Target("pod", name, "any", options={"plane": name}) for name in ("p1", "p2")]
    collector = InfinibandCollector(Config(window=7), planes, context)
    assert {c.plane for c in collector._configs.values()} == {"p1", "p2"}
    assert {c.window for c in collector._configs.values()} == {7}
    wrong = Target("pod", "p3", "any", options={"windows": 1})
    with pytest.raises(ConfigError, match=r"options\.windows: target p3: "):
        InfinibandCollector(Config(), [wrong], context)


def test_hosts_are_left_out_where_they_are_not_wanted(context: Context) -> None:
    """With `host_ports: false` only switches are asked."""
    known = make(context, host_ports=False)
    known.adopt(swept())
    assert {node.guid for node, _ in known.asked()} == {LEAF, SPINE}


@pytest.mark.parametrize("lid", [0, 0xFFFF])
def test_ports_that_no_subnet_manager_has_configured_are_not_asked(
    lid: int, context: Context
) -> None:
    """LID 0 and 0xFFFF name nobody."""
    known = make(context)
    fabric = swept()
    fabric.nodes[LEAF].lid = lid
    known.adopt(fabric)
    assert LEAF not in {node.guid for node, _ in known.asked()}


def test_asking_slows_down_while_management_packets_are_dropped(context: Context) -> None:
    """The window halves at each rise of the drops, and widens again when they stop."""
    config = Config(window=256)
    target = Target("pod", "subnet", "any")
    way = NativeWay(make(context), Pump("", config), target, context, config)
    windows = []
    for dropped in (100, 100, 130, 160, 160, 160):
        way._pace(Outcome(dropped=dropped))
        windows.append(way._window)
    assert windows == [256, 256, 128, 64, 81, 102]
    slowed = context.report.metrics.events.labels(Event.POLLING_SLOWED.label)
    assert slowed._value.get() == 2


async def test_a_node_that_stays_silent_is_not_looked_for_in_haste_for_ever(
    context: Context, clock: ManualClock
) -> None:
    """Five early sweeps after a change, then the common pace; a new loss begins anew."""
    config = Config(rediscover=1000)
    way = NativeWay(make(context), Pump("", config), Target("pod", "x", "any"), context, config)
    way.known.adopt(swept())
    way._sweep_due = 1000.0
    early = []
    for lost in [1] * 8 + [2] * 8:
        await clock.advance(1)
        way._hurry(Outcome(lost={Reason.TIMEOUT: lost}, read=9, moved=True))
        assert way._sweep_due is not None
        early.append(way._sweep_due < clock.monotonic())
        way._sweep_due = clock.monotonic() + 1000
    assert early == [True] * 5 + [False] * 3 + [True] * 5 + [False] * 3


def test_a_node_name_map_is_read_and_its_mistakes_name_their_line(tmp_path: Path) -> None:
    """GUIDs in hex, names in quotes, comments; anything else is an error with file and line."""
    path = tmp_path / "names"
    path.write_text('# switches\n0xb1 "rack-7"\nb2\t"spine"\n')
    assert read_node_names(path) == {LEAF: "rack-7", SPINE: "spine"}
    path.write_text('0xb1 "rack-7"\nnonsense\n')
    with pytest.raises(ConfigError, match=r"names:2: expected 0xGUID"):
        read_node_names(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_node_names(tmp_path / "absent")
