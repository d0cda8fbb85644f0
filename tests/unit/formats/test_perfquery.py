"""perfquery text, both ways."""

from __future__ import annotations

from fabricmon.formats.base import BadRecord
from fabricmon.formats.infiniband.ibtext import PortCounts
from fabricmon.formats.infiniband.tools import perfquery

EXTENDED = """\
ibwarn: [28005] mad_rpc: _do_madrpc failed; dport (Lid 999)
# Port extended counters: Lid 10 port 1 (CapMask: 0x5300 CapMask2: 0x0000002)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................987654709131
CounterSelect2:..................0x00000000
PortXmitWait:....................41864608
"""


def read(text: str) -> tuple[list[PortCounts], list[BadRecord]]:
    """Blocks and bad records."""
    bad: list[BadRecord] = []
    return list(perfquery.read(text.splitlines(), bad.append, "q.txt")), bad


def test_a_block_carries_lid_port_and_capabilities() -> None:
    """The header gives LID, port and both masks; selectors are no counts; stderr is noise."""
    (block,), bad = read(EXTENDED)
    assert not bad
    assert (block.group, block.lid, block.port) == ("PortCountersExtended", 10, 1)
    assert (block.cap_mask, block.cap_mask2) == (0x5300, 2)
    assert block.values == {"PortXmitData": 987654709131, "PortXmitWait": 41864608}


def test_the_sum_over_all_ports_is_no_port() -> None:
    """Port 255 is what AllPortSelect prints and never becomes a port."""
    blocks, _ = read("# Port counters: Lid 1 port 255 (CapMask: 0x1300)\nPortXmitWait:..7\n")
    assert blocks == []


def test_a_bad_value_costs_only_itself_and_names_its_line() -> None:
    """A garbled count is reported with file and line; its neighbours are read."""
    text = EXTENDED.replace("987654709131", "98765zz")
    (block,), bad = read(text)
    assert block.values == {"PortXmitWait": 41864608}
    assert str(bad[0]).startswith("q.txt:5: PortXmitData is not a count")


def test_bare_values_without_header_are_split_where_a_name_comes_again() -> None:
    """Samplers that print names and values only still give one block per attribute."""
    text = (
        "PortSelect: 3\nPortXmitWait: 1\nPortXmitData: 2\nPortXmitData: 9\nPortUnicastXmitPkts: 4"
    )
    blocks, _ = read(text)
    assert [b.group for b in blocks] == ["PortCounters", "PortCountersExtended"]
    assert blocks[0].port == 3
    assert blocks[1].values["PortXmitData"] == 9


def test_what_is_written_is_read_back() -> None:
    """Writer and reader agree on groups, masks and values."""
    blocks = [
        PortCounts("PortCounters", 4, lid=7, cap_mask=0x1300, values={"PortXmitWait": 5}),
        PortCounts(
            "PortCountersExtended",
            4,
            lid=7,
            cap_mask=0x5300,
            cap_mask2=2,
            values={"PortXmitData": 1 << 63},
        ),
    ]
    again, bad = read("\n".join(perfquery.write(blocks)))
    assert not bad
    for old, new in zip(blocks, again, strict=True):
        new.line = old.line
        assert new == old


def test_the_reason_for_giving_up_is_found_on_stderr() -> None:
    """Perfquery's last words are what a person needs to see."""
    noise = "ibwarn: [1] mad_rpc: x failed; dport (Lid 9)\nperfquery: iberror: failed: query\n"
    assert perfquery.failure(noise) == "query"
    assert perfquery.failure("") == ""
