"""Real and awkward output of InfiniBand tools: right values, and the right behaviour for each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support import samples

from fabricmon.formats.base import BadRecord
from fabricmon.formats.infiniband import ibdumps
from fabricmon.formats.infiniband.ibcounts import Identity, merged
from fabricmon.formats.infiniband.tools import ibnetdiscover
from fabricmon.mappings import infiniband
from fabricmon.model.topology import Role, Technology

if TYPE_CHECKING:
    from fabricmon.model.readings import Column


def load(*parts: str) -> tuple[ibdumps.Dump, list[BadRecord]]:
    """One file of the corpus."""
    bad: list[BadRecord] = []
    path = samples("infiniband", *parts)
    return ibdumps.read(path.read_text("latin-1"), bad.append, path.name), bad


def counters(dump: ibdumps.Dump, *others: ibdumps.Dump) -> dict[tuple[str, str], dict[str, object]]:
    """{(device, port): {counter: value or None where it is not supported}}."""
    fabric = next((d.fabric for d in (dump, *others) if d.fabric is not None), None)
    found: dict[tuple[str, str], dict[str, object]] = {}
    blocks = [block for d in (dump, *others) for block in d.counts]
    for port in merged(blocks, Identity(fabric)):
        values = infiniband.every_field().values(port.groups, port.cap_mask, port.cap_mask2)
        found[port.device, port.port] = {_name(column): value for column, value in values}
    return found


def _name(column: Column) -> str:
    queue = "" if column.queue < 0 else f"[{column.queue}]"
    return f"{column.counter.id}{queue}/{column.bits}"


LEAF = "MF0;leaf-001:MQM8700/U1"


def test_all_ports_of_a_switch_are_read_with_names_from_the_discovery_beside_them() -> None:
    """40 blocks by LID become 40 ports of the named leaf; words and packets are exact."""
    net, bad = load("tools", "ibnetdiscover.txt")
    extended, bad_extended = load("tools", "perfquery_x_lid1_1-40.txt")
    plain, bad_plain = load("tools", "perfquery_l_lid1_1-40.txt")
    assert bad + bad_extended + bad_plain == []
    got = counters(extended, plain, net)
    assert len(got) == 40
    first = got[LEAF, "1"]
    assert first["tx_bytes/64"] == 987654709131
    assert first["rx_packets/64"] == 7105
    assert first["tx_wait_ticks/32"] == 123456789
    assert first["symbol_errors/16"] == 65535
    assert first["tx_discards/16"] == 321


def test_discovery_gives_nodes_links_speeds_and_roles_in_every_form() -> None:
    """Ibnetdiscover plain, -f, -p and iblinkinfo in both forms tell of the same fabric."""
    for name in (
        "ibnetdiscover.txt",
        "ibnetdiscover_f.txt",
        "ibnetdiscover_p.txt",
        "iblinkinfo.txt",
        "iblinkinfo_l.txt",
    ):
        dump, bad = load("tools", name)
        assert bad == []
        assert dump.fabric is not None
        identity = Identity(dump.fabric)
        shape = dump.fabric.topology(identity.labels, lambda *_: 0.0)
        assert len(shape.nodes) == 38, name
        assert len(shape.links) == 64, name
        assert {link.speed_bps for link in shape.links} == {200e9}
        assert Counter(node.role for node in shape.nodes) == {
            Role.HOST: 32,
            Role.LEAF: 4,
            Role.SPINE: 2,
        }
        assert {node.technology for node in shape.nodes} == {Technology.INFINIBAND}


def test_the_gb200_fabric_has_its_switches_adapters_links_and_speeds() -> None:
    """40 switches, 582 adapters (39 of them SHARP units), every cable 4xNDR."""
    dump, bad = load("public", "topograph", "example.out")
    assert bad == []
    assert dump.fabric is not None
    kinds = Counter(node.kind for node in dump.fabric.nodes.values())
    text = samples("infiniband", "public", "topograph", "example.out").read_text("latin-1")
    sharp = sum(
        line.startswith("Ca\t") and "Aggregation Node" in line for line in text.splitlines()
    )
    assert kinds["switch"] == 40
    assert kinds["host"] + kinds["aggregation"] == 582
    assert kinds["aggregation"] == sharp
    identity = Identity(dump.fabric)
    shape = dump.fabric.topology(
        identity.labels, lambda n, p: infiniband.tick_bytes(n.device_id, p.lanes)
    )
    ends = sum(line.startswith("[") for line in text.splitlines())
    assert len(shape.links) == ends // 2
    assert {link.speed_bps for link in shape.links} == {400e9}
    assert len(set(identity.labels.values())) == 622
    hosts = {node.name for node in shape.nodes if node.kind == "host"}
    assert "a08-p1-dgx-04-c01" in hosts
    switch_ticks = {p.tick_bytes for p in shape.ports if "MQM9701" in p.id.device}
    assert switch_ticks == {8.0}


def test_real_captures_give_64_bit_waits_where_the_device_has_them() -> None:
    """An EDR switch counts waits in 64 bits; an adapter whose CapMask2 is 0 does not."""
    dump, bad = load("public", "treydock", "perfquery", "0x506b4b03005c2740.out")
    assert bad == []
    (port,) = counters(dump).values()
    assert port["tx_wait_ticks/64"] == 41864608
    assert port["tx_bytes/64"] == 178791657177235
    dump, _ = load("public", "treydock", "perfquery", "0x7cfe9003003b4b96.out")
    (port,) = counters(dump).values()
    assert port["tx_wait_ticks/64"] is None
    assert port["rx_bytes/64"] == 37225401952885


def test_head_of_queue_discards_come_from_perfquery_with_their_own_name() -> None:
    """Perfquery -D gives 300 drops at the head of the queue."""
    dump, _ = load("tools", "perfquery_opt_D.txt")
    (port,) = counters(dump).values()
    assert port["hoq_discards/16"] == 300


def test_waits_by_lane_are_a_flag_per_vl() -> None:
    """Perfquery --vlxmitcounters names the VL that waits."""
    dump, _ = load("tools", "perfquery_opt_vlxmitcounters.txt")
    (port,) = counters(dump).values()
    assert port["queue_tx_wait_ticks[0]/16"] == 4000
    assert port["queue_tx_wait_ticks[1]/16"] == 0


@pytest.mark.parametrize("name", ["perfquery_badlid.txt", "perfquery_badport.txt"])
def test_a_failed_perfquery_gives_a_reason_and_no_port(name: str) -> None:
    """Nothing is read, and the tool's own reason is reported with file and line."""
    dump, bad = load("tools", name)
    assert dump.counts == []
    assert "failed" in str(bad[0])


def test_ports_without_errors_are_absent_from_ibqueryerrors_not_zero() -> None:
    """Two of 273 ports are printed: two are read, and the sum over all ports is none of them."""
    dump, bad = load("tools", "ibqueryerrors.txt")
    assert bad == []
    got = counters(dump, load("tools", "ibnetdiscover.txt")[0])
    assert set(got) == {(LEAF, "1"), (LEAF, "9")}
    assert got[LEAF, "1"]["symbol_errors/16"] == 65535
    assert got[LEAF, "9"]["link_downed/8"] == 255


def test_all_traffic_of_a_sweep_is_read_from_ibqueryerrors() -> None:
    """--counters prints every port, with and without 0x-padded GUIDs."""
    dump, bad = load("tools", "ibqueryerrors_counters.txt")
    assert bad == []
    got = counters(dump, load("tools", "ibnetdiscover.txt")[0])
    assert got["gpu0032", "mlx5_0/1"]["tx_bytes/64"] == 5472
    assert len(got) == 278


@pytest.mark.parametrize("name", ["ibqueryerrors_details.txt", "ibqueryerrors_guilbaults.txt"])
def test_names_of_ibqueryerrors_details_are_never_believed(name: str) -> None:
    """The 300 that the tool prints as PortDLIDMappingErrors feeds no counter at all."""
    dump, _ = load("tools", name)
    for port in counters(dump).values():
        assert 300 not in port.values()


def test_odd_names_move_no_field() -> None:
    """Quotes, dashes, commas and blanks in names leave GUIDs and ports where they are."""
    plain, bad = load("tools", "oddnames_ibnetdiscover.txt")
    pairs, bad_pairs = load("tools", "oddnames_ibnetdiscover_p.txt")
    assert bad + bad_pairs == []
    assert plain.fabric is not None
    assert pairs.fabric is not None
    node = plain.fabric.nodes[0x0C42A10300000004]
    assert node.description == "gpu's, node #2 (x) - y"
    assert pairs.fabric.nodes[0x0C42A10300000005].description == node.description
    names = Identity(plain.fabric).labels.values()
    assert len(set(names)) == 38
    twins = [name.device for name in names if name.device.startswith("MT25408")]
    assert sorted(name[-7:] for name in twins) == ["@00000c", "@000018"]


def test_a_silent_adapter_costs_itself_and_its_path_is_told() -> None:
    """37 of 38 nodes are there; the path of the missing one leads to the port it hangs on."""
    dump, bad = load("tools", "fail_hca_silent_ibnetdiscover.txt")
    assert bad == []
    assert dump.fabric is not None
    assert len(dump.fabric.nodes) == 37
    assert dump.fabric.unreachable == ["0,1,9,5,3"]


def test_a_dead_leaf_leaves_the_others() -> None:
    """With one leaf down its hosts are gone, and the ports towards it are down, not slow."""
    dump, bad = load("tools", "fail_leaf2_down_ibnetdiscover_p.txt")
    assert bad == []
    assert dump.fabric is not None
    assert len(dump.fabric.nodes) == 29
    down = [p for n in dump.fabric.nodes.values() for p in n.ports.values() if p.up is False]
    assert {p.speed_bps for p in down} == {0.0}


def test_another_exporters_page_feeds_what_it_names_rightly() -> None:
    """Words become bytes by scale, waits are ticks, and its mislabelled 300 lands nowhere."""
    dump, bad = load("tools", "guilbaults_exporter_metrics_from_ibsim.prom")
    assert bad == []
    got = counters(dump)
    assert got[LEAF, "1"]["tx_wait_ticks/64"] == 123456789
    assert got[LEAF, "1"]["tx_bytes/64"] == 987654707475
    assert all(300 not in port.values() for port in got.values())


# Public bug reports, by the number of their minimal input.


def test_01_a_sweep_that_times_out_tells_the_silent_paths() -> None:
    """Stderr alone is two silent nodes, not an error and not a zero."""
    dump, bad = load("awkward", "01_sweep_timeout_stderr.txt")
    assert bad == []
    assert dump.fabric is not None
    assert dump.fabric.unreachable == ["0,1,13,9,15", "0,1,13,5,14"]


def test_03_no_bad_nodes_is_a_good_sweep_that_says_nothing_of_its_ports() -> None:
    """A report with its summary and no port: no values, no complaint."""
    dump, bad = load("awkward", "03_ibqueryerrors_no_bad_nodes.txt")
    assert (dump.counts, bad) == ([], [])


def test_04_identity_is_taken_from_the_guid_line_alone() -> None:
    """A heading without a GUID loses nothing."""
    dump, _ = load("awkward", "04_ibqueryerrors_ca_header.txt")
    ((device, port), values) = next(iter(counters(dump).items()))
    assert (device, port) == ("node0002", "HCA-1/1")
    assert values["tx_wait_ticks/32"] == 12097916
    assert dump.counts[0].guid == 0xC42A10300000042


def test_05_unknown_counters_cost_nothing_and_are_known_to_be_unknown() -> None:
    """A name of a newer tool is kept in the tool's words and can be counted."""
    dump, _ = load("awkward", "05_unknown_counter_names.txt")
    (values,) = counters(dump).values()
    assert values == {"rx_errors/16": 2, "tx_wait_ticks/32": 5}
    assert dump.counts[0].values["PortBrandNewErrors"] == 2
    assert not infiniband.every_field().knows("PortBrandNewErrors")


def test_07_a_split_port_without_peer_is_down_and_an_aggregation_node_is_no_host() -> None:
    """`4x SDR` and nothing behind it has no speed; blanks in names are trimmed for display."""
    dump, _ = load("awkward", "07_split_port_sdr_nopeer.txt")
    assert dump.fabric is not None
    nodes = dump.fabric.nodes
    assert nodes[0x946DAE0300000C82].ports[1].speed_bps == 0.0
    assert nodes[0x946DAE0300000BFE].kind == "aggregation"
    labels = Identity(dump.fabric).labels
    assert labels[0x946DAE030000EC1A].device == "pod1-spine-03"
    assert nodes[0x946DAE030000EC1A].description == " pod1-spine-03 "


def test_08_a_host_without_infiniband_port_is_told_so() -> None:
    """The failure names the likely cause: the port's link layer is Ethernet."""
    _, bad = load("awkward", "08_roce_only_host_stderr.txt")
    assert "no usable InfiniBand port" in str(bad[0])


def test_13_capability_decides_between_missing_and_zero() -> None:
    """With CapMask2 0x2 the zeros are zeros; selectors are no counters."""
    dump, _ = load("awkward", "13_perfquery_x_capmask2.txt")
    (values,) = counters(dump).values()
    assert values["tx_wait_ticks/64"] == 0
    assert "CounterSelect2" not in dump.counts[0].values


def test_14_full_32_bit_counters_are_at_the_top_of_their_width() -> None:
    """Every value equals the maximum of the column it lands in, which is saturation."""
    dump, _ = load("awkward", "14_saturated_32bit.txt")
    (port,) = merged(dump.counts, Identity())
    for column, value in infiniband.every_field().values(port.groups, port.cap_mask):
        assert column.saturates
        assert value == (1 << column.bits) - 1


def test_17_a_sweep_without_summary_failed_whatever_the_exit_status() -> None:
    """The reason is the tool's own line."""
    dump, bad = load("awkward", "17_sa_failure_rc0.txt")
    assert dump.counts == []
    assert "Query SA failed" in str(bad[0])


def test_18_mislabelled_details_are_left_out() -> None:
    """The right counters of the same line are kept."""
    dump, _ = load("awkward", "18_details_mislabelled.txt")
    (values,) = counters(dump).values()
    assert values == {"tx_discards/16": 321, "tx_wait_ticks/32": 123456789}


def test_19_the_row_of_all_ports_is_no_port() -> None:
    """`port ALL` is dropped, port 1 is kept."""
    dump, _ = load("awkward", "19_all_ports_row.txt")
    assert [block.port for block in dump.counts] == [1]


def test_20_blanks_missing_cells_and_sentinels_of_a_db_csv() -> None:
    """Hex is hex, `N/A` and the sentinel are missing, and both ports are there."""
    dump, bad = load("awkward", "20_db_csv_leading_space_na.txt")
    assert bad == []
    first, second = dump.counts
    assert (first.guid, first.values) == (1, {"portxmitwaitext": 0x10})
    assert (second.guid, second.values) == (2, {})


def test_21_hex_and_na_of_a_pm_file() -> None:
    """The 64-bit wait wins over the full 32-bit one; `NA` is missing."""
    dump, bad = load("awkward", "21_ibdiagnet2_pm_hex.txt")
    assert bad == []
    (values,) = counters(dump).values()
    assert values == {"link_downed/8": 1, "tx_wait_ticks/64": 0x200000000}
    assert (dump.counts[0].device_id, dump.counts[0].name) == (54000, "leaf-001")


def test_the_plain_form_written_again_is_the_same_fabric() -> None:
    """What our writer makes of the GB200 fabric reads back node for node, port for port."""
    dump, _ = load("public", "topograph", "example.out")
    assert dump.fabric is not None
    bad: list[BadRecord] = []
    again = ibnetdiscover.read(ibnetdiscover.write(dump.fabric), bad.append)
    assert bad == []
    assert again.nodes == dump.fabric.nodes
