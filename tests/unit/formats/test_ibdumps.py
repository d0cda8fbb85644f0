"""The other texts of InfiniBand tools: ibdiagnet, UFM, iblinkinfo, ibqueryerrors."""

from __future__ import annotations

import pytest

from fabricmon.formats.base import BadRecord
from fabricmon.formats.infiniband import ibdumps
from fabricmon.formats.infiniband.ibcounts import Identity, merged
from fabricmon.formats.infiniband.ibfabric import IbFabric, from_topology
from fabricmon.mappings import infiniband
from fabricmon.model.topology import Link, Node, PortId, Technology, Topology

DB_CSV = """\
# ibdiagnet
START_NODES
NodeDesc, NumPorts,NodeType, SystemImageGUID,NodeGUID,DeviceID
"leaf, the 1st",2,2,0xb8,0xb8,54002
"gpu1 mlx5_0",1,1,0xc1,0xc1,4129
END_NODES
START_PORTS
NodeGuid,PortGuid,PortNum,LID,LinkSpeedActv,LinkWidthActv,PortState
0xb8,0xb8,0,7,0,0,4
0xb8,0xb8,1,0,2048,2,4
0xb8,0xb8,2,0,1,2,1
0xc1,0xc2,1,9,2048,2,4
0xbad
END_PORTS
START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0xb8,1,0xc1,1
END_LINKS
START_TEMP
whatever
END_TEMP
START_PM_INFO
NodeGUID,PortGUID,PortNumber,PortXmitWait,PortXmitWaitExt,PortXmitDataExtended,LinkDownedCounter
0xb8,0xb8,1,4294967295,0x200000000,1000,N/A
0xc1,0xc2,1,5,0xfffffffffffffffe,2000,3
END_PM_INFO
"""
UFM_CSV = """\
timestamp,source_id,Node_GUID,Port_Number,PortXmitDataExtended,PortXmitWaitExtended,Normalized_CBW
1700000000000000,u,0xb8,1,10,20,0.5
1700000030000000,u,0xb8,1,11,NA,0.5
1700000030000000,u,nonsense,1,11,22,0.5
"""
UFM_JSON = """\
[{"timestamp": 1700000000000000, "node_guid": "0xb8", "port_num": 1, "PortXmitWaitExtended": 20,
  "infiniband_CBW": 1.5},
 {"timestamp": 1700000000000000, "port_num": 2}]
"""
LINKINFO = """\
CA: gpu1 mlx5_0:
      0x00000000000000c2      9    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       7    1[  ] "leaf" ( )
Switch: 0x00000000000000b8 leaf:
           7    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       9    1[  ] "gpu1 mlx5_0" ( )
           7    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
           7    ==(
"""  # noqa: E501 - as the tool prints it
ERRORS = """\
Errors for 0xb8 "leaf"
   GUID 0xb8 port 1: [SymbolErrorCounter == 70000] [PortXmitWait == 9]
   GUID 0xb8 port 2: [LinkDownedCounter == 3] [PortXmitData == 12 (48.000B)]
## Summary: 1 nodes checked, 1 bad nodes found
"""


def load(text: str) -> tuple[ibdumps.Dump, list[BadRecord]]:
    """A dump, by looking at it, and what could not be read."""
    bad: list[BadRecord] = []
    return ibdumps.read(text, bad.append, "dump"), bad


def values(dump: ibdumps.Dump) -> dict[tuple[str, str], dict[str, int | None]]:
    """{(device, port): {counter/bits: value}}."""
    return {
        (port.device, port.port): {
            f"{column.counter.id}/{column.bits}": value
            for column, value in infiniband.every_field().values(port.groups)
        }
        for port in merged(dump.counts, Identity(dump.fabric))
    }


def links(fabric: IbFabric | None) -> set[tuple[frozenset[PortId], float]]:
    """Cables and their speeds."""
    assert fabric is not None
    shape = fabric.topology(Identity(fabric).labels, lambda *_: 0.0)
    return {(frozenset((link.a, link.b)), link.speed_bps) for link in shape.links}


CABLE = (frozenset((PortId("gpu1", "mlx5_0/1"), PortId("leaf", "1"))), 400e9)


def test_a_db_csv_gives_shape_and_counters_by_its_headers() -> None:
    """Sections in any order and spelling; 64-bit columns win; a broken row names its line."""
    dump, bad = load(DB_CSV)
    assert dump.kind == "ibdiagnet db_csv"
    ((cable, speed),) = links(dump.fabric)
    assert cable == {PortId("gpu1", "mlx5_0/1"), PortId("leaf, the 1st", "1")}
    assert speed == 400e9
    assert dump.fabric is not None
    assert dump.fabric.nodes[0xB8].lid == 7
    assert dump.fabric.nodes[0xB8].ports[2].up is False
    got = values(dump)
    assert got["leaf, the 1st", "1"] == {"tx_wait_ticks/64": 1 << 33, "tx_bytes/64": 1000}
    # The sentinel is no count: the 32-bit field is.
    assert got["gpu1", "mlx5_0/1"] == {
        "tx_wait_ticks/32": 5,
        "tx_bytes/64": 2000,
        "link_downed/8": 3,
    }
    assert [record.line for record in bad] == [13]


def test_ufm_rows_carry_their_own_time() -> None:
    """Microseconds become nanoseconds; NA is missing; a row without a GUID costs only itself."""
    dump, bad = load(UFM_CSV)
    assert dump.times == [1_700_000_000_000_000_000, 1_700_000_030_000_000_000]
    assert dump.counts[0].values == {"portxmitdataextended": 10, "portxmitwaitextended": 20}
    assert dump.counts[1].values == {"portxmitdataextended": 11}
    assert [record.line for record in bad] == [4]


def test_ufm_json_is_read_alike() -> None:
    """An array of samples; ratios are no counters; a sample without a node is reported."""
    dump, bad = load(UFM_JSON)
    (counts,) = dump.counts
    assert (counts.guid, counts.port, counts.values) == (0xB8, 1, {"portxmitwaitextended": 20})
    assert len(bad) == 1
    wrapped, _ = load('{"samples": ' + UFM_JSON + "}")
    assert [c.values for c in wrapped.counts] == [counts.values]


def test_iblinkinfo_finds_peers_by_lid() -> None:
    """The form by node names peers by LID alone; a line that breaks off costs itself."""
    dump, bad = load(LINKINFO)
    assert links(dump.fabric) == {CABLE}
    assert [record.line for record in bad] == [6]


def test_one_value_too_large_for_16_bits_shows_that_errors_are_counted_in_64() -> None:
    """Ibqueryerrors does not say how wide its counters are; a report may show it."""
    dump, bad = load(ERRORS)
    assert bad == []
    got = values(dump)
    assert got["leaf", "1"] == {"symbol_errors/64": 70000, "tx_wait_ticks/64": 9}
    assert got["leaf", "2"] == {"link_downed/64": 3, "tx_bytes/64": 12}
    narrow, _ = load(ERRORS.replace("70000", "65535"))
    assert values(narrow)["leaf", "1"]["symbol_errors/16"] == 65535


def test_what_is_none_of_these_is_refused() -> None:
    """A foreign text is not guessed at."""
    with pytest.raises(ValueError, match="no output of an InfiniBand tool"):
        ibdumps.read("hello\n", lambda _: None, "x")


def test_an_adapter_under_its_port_guid_is_the_same_node() -> None:
    """Plain and -p output of one fabric make one fabric, not two."""
    by_node, by_port = IbFabric(), IbFabric()
    for fabric, host in ((by_node, 0xC1), (by_port, 0xC2)):
        fabric.node(0xB8, "switch").description = "leaf"
        fabric.node(host, "host").description = "gpu1 mlx5_0"
        fabric.connect((0xB8, 1), (host, 1))
        fabric.nodes[host].ports[1].guid = 0xC2
        for node in fabric.nodes.values():
            node.ports[1].width, node.ports[1].speed = "4x", "NDR"
    assert links(by_node.joined(by_port)) == {CABLE}
    assert links(by_port.joined(by_node)) == {CABLE}


def test_a_topology_becomes_a_subnet_and_back() -> None:
    """Adapters of one host are nodes of their own; names, cables and speeds come back."""
    ib = Technology.INFINIBAND
    shape = Topology(
        (Node("gpu1", "host", technology=ib), Node("leaf", "switch", technology=ib)),
        (
            Link(PortId("gpu1", "mlx5_0/1"), PortId("leaf", "1"), 400e9),
            Link(PortId("gpu1", "mlx5_1/1"), PortId("leaf", "2"), 800e9),
        ),
    )
    fabric = from_topology(shape)
    assert len(fabric.nodes) == 3
    assert links(fabric) == {(frozenset((link.a, link.b)), link.speed_bps) for link in shape.links}
    lids = [node.lid_of(1) for node in fabric.nodes.values()]
    assert sorted(lids) == [1, 2, 3]
