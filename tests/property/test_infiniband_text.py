"""Whatever stands in a dump, a reader gives what it can and complaints, and never breaks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.formats.base import BadRecord
from fabricmon.formats.infiniband import ibdumps
from fabricmon.formats.infiniband.ibfabric import IbNode, name_nodes
from fabricmon.formats.infiniband.ibtext import PortCounts
from fabricmon.formats.infiniband.tools import perfquery

_SHARDS = st.sampled_from(
    [
        "# Port counters: Lid 1 port 2 (CapMask: 0x1300)",
        "# Port extended counters: Lid 99999999 port 300",
        "PortXmitWait:..............",
        'Switch\t40 "S-b8cef603001000c0"\t\t# "a" enhanced port 0 lid 4 lmc 0',
        '[1]\t"H-0c42a10300003000"[1](c42a10300003001) \t\t# "x" lid 31 4xHDR',
        "CA    38  1 0x0c42a1030000301d 4x HDR - SW     4  8 0xb8cef603001000c0 ( 'a' - 'b' )",
        'Errors for 0xb8 "x"',
        "   GUID 0xb8 port 1: [SymbolErrorCounter == 3] [",
        "   GUID 0x0 port 1: [SymbolErrorCounter == 3]",
        "## Summary: 1",
        "Switch: 0xb8 x:",
        '           4    1[  ] ==( 4X      53.125 Gbps Active/  LinkUp)==>      31    1[  ] "g" (',
        "START_NODES",
        "START_PM_INFO",
        "NodeGUID,PortGUID,PortNumber,PortXmitWaitExt",
        "0x1,0x1,1,0x10",
        "END_PM_INFO",
        "Port=1 Lid=0x0001 GUID=0xb8 Device=54000 Port Name=a/P1",
        "port_xmit_wait=0xffffffffffffffffff",
        "node_guid,port_num,timestamp",
        '{"node_guid": "0x1", "port_num": 1, "x": [1]}',
        '"',
    ]
)
_LINES = st.lists(st.one_of(_SHARDS, st.text(max_size=60)), max_size=30)
_KINDS = st.sampled_from(
    [
        "perfquery",
        "ibnetdiscover",
        "ibqueryerrors",
        "iblinkinfo",
        "ibdiagnet db_csv",
        "ibdiagnet pm",
        "UFM telemetry",
    ]
)


@given(_LINES, _KINDS)
def test_no_text_breaks_a_reader(lines: list[str], kind: str) -> None:
    """Shuffled, cut and foreign lines give records and complaints."""
    bad: list[BadRecord] = []
    dump = ibdumps.read("\n".join(lines), bad.append, "x", kind)
    assert all(isinstance(record, BadRecord) for record in bad)
    for counts in dump.counts:
        assert all(v is None or 0 <= v < 1 << 64 for v in counts.values.values())


_NAMES = st.text(st.characters(codec="ascii", categories=("L",)), min_size=1, max_size=12).filter(
    lambda name: "Select" not in name
)


@given(
    st.lists(
        st.builds(
            PortCounts,
            st.sampled_from(["PortCounters", "PortCountersExtended", "PortXmitDiscardDetails"]),
            st.integers(0, 254),
            lid=st.integers(1, 0xBFFF),
            values=st.dictionaries(_NAMES, st.integers(0, (1 << 64) - 1), min_size=1),
        ),
        max_size=5,
    )
)
def test_perfquery_text_is_read_back(blocks: list[PortCounts]) -> None:
    """What the writer prints, the reader takes in, value for value."""
    bad: list[BadRecord] = []
    again = list(perfquery.read(perfquery.write(blocks), bad.append))
    assert bad == []
    for old, new in zip(blocks, again, strict=True):
        assert (old.group, old.port, old.lid, old.values) == (
            new.group,
            new.port,
            new.lid,
            new.values,
        )


@given(
    st.lists(st.tuples(st.integers(1, 1 << 40), st.sampled_from("ab")), unique_by=lambda t: t[0])
)
def test_no_two_nodes_share_a_label(nodes: list[tuple[int, str]]) -> None:
    """Equal names are told apart, unless their GUIDs end alike too."""
    labels = name_nodes([IbNode(guid, "switch", name) for guid, name in nodes])
    tails = {(name, guid & 0xFFFFFF) for guid, name in nodes}
    assert len(set(labels.values())) >= len(tails) if len(nodes) > 1 else True
