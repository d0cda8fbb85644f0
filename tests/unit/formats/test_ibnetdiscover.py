"""ibnetdiscover text, plain and -p, and how its nodes are named."""

from __future__ import annotations

from fabricmon.formats.base import BadRecord
from fabricmon.formats.infiniband.ibfabric import IbFabric, IbNode, IbPort, Label, lanes, name_nodes
from fabricmon.formats.infiniband.tools import ibnetdiscover

PLAIN = """\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb8cef603001000c0
switchguid=0xb8cef603001000c0(b8cef603001000c0)
Switch	40 "S-b8cef603001000c0"		# "MF0;leaf-4:MQM8700" enhanced port 0 lid 4 lmc 0
[1]	"H-0c42a10300003000"[1](c42a10300003001) 		# "gpu's "x" [1] #2" lid 31 4xHDR
[2]	"H-0c42a103000

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300003000
caguid=0xc42a10300003000
Ca	1 "H-0c42a10300003000"		# "gpu's "x" [1] #2"
[1](c42a10300003001) 	"S-b8cef603001000c0"[1]		# lid 31 lmc 0 "MF0;leaf-4:MQM8700" lid 4 4xHDR
"""


def read(text: str) -> tuple[IbFabric, list[BadRecord]]:
    """Fabric and bad records."""
    bad: list[BadRecord] = []
    return ibnetdiscover.read(text.splitlines(), bad.append, "net.txt"), bad


def test_nodes_ports_lids_and_speeds_are_read_whatever_the_name() -> None:
    """Quotes, brackets and hashes in a name do not move the fields around it."""
    fabric, bad = read(PLAIN)
    switch, host = fabric.nodes[0xB8CEF603001000C0], fabric.nodes[0x0C42A10300003000]
    assert (switch.kind, switch.lid, switch.port_count, switch.device_id) == (
        "switch",
        4,
        40,
        0xD2F0,
    )
    assert host.description == """gpu's "x" [1] #2"""
    assert switch.ports[1].peer == (host.guid, 1)
    assert switch.ports[1].speed_bps == 200e9
    assert (host.ports[1].lid, host.ports[1].guid) == (31, 0x0C42A10300003001)
    assert [record.line for record in bad] == [7]


def test_a_split_port_without_peer_is_down_not_slow() -> None:
    """`4x SDR` with nothing behind it is the idle default of a port, not its speed."""
    fabric, _ = read(
        "SW    24  1 0x946dae0300000c82 4x SDR                                    'spine-01 '\n"
    )
    port = fabric.nodes[0x946DAE0300000C82].ports[1]
    assert (port.up, port.speed_bps) == (False, 0.0)


def test_pairs_are_cut_at_their_columns_before_their_names() -> None:
    """A name with quotes and dashes does not break a -p line; both ends get the cable."""
    fabric, bad = read(
        "CA     8  1 0x0c42a10300000005 4x HDR - SW     1  2 0xb8cef60300100000 "
        "( 'gpu's, node #2 (x) - y' - 'leaf' )\n"
    )
    assert not bad
    assert fabric.nodes[0xB8CEF60300100000].ports[2].peer == (0x0C42A10300000005, 1)
    assert fabric.nodes[0x0C42A10300000005].description == "gpu's, node #2 (x) - y"


def test_silent_paths_on_stderr_are_kept() -> None:
    """A node that did not answer is known by its direct route."""
    fabric, _ = read(
        "src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,13,9,15 Attr 0x11:0) "
        "bad status 110; Connection timed out\n"
    )
    assert fabric.unreachable == ["0,1,13,9,15"]


def test_what_is_written_is_read_back() -> None:
    """The plain writer and the reader agree on nodes, ports, LIDs and speeds."""
    fabric, _ = read(PLAIN)
    again, bad = read("\n".join(ibnetdiscover.write(fabric)))
    assert not bad
    assert again.nodes == fabric.nodes


def test_names_tell_host_and_adapter_and_clashes_get_the_guid() -> None:
    """`host HCA-1` is one host's adapter; equal names are told apart by their GUID."""
    nodes = [
        IbNode(0x1, "host", "gpu1 mlx5_0"),
        IbNode(0x2, "host", "gpu1 HCA-2"),
        IbNode(0xABCDEF, "host", "MT25408 ConnectX Mellanox Technologies"),
        IbNode(0x123456, "host", "MT25408 ConnectX Mellanox Technologies"),
        IbNode(0x5, "switch", " leaf 1 "),
    ]
    labels = name_nodes(nodes)
    assert labels[1].port(1) == "mlx5_0/1"
    assert labels[2] == Label("gpu1", "HCA-2")
    assert labels[0xABCDEF].device == "MT25408 ConnectX Mellanox Technologies@abcdef"
    assert labels[5] == Label("leaf 1")
    assert name_nodes(nodes, names={5: "spine"})[5] == Label("spine")


def test_a_known_label_survives_a_renaming() -> None:
    """A label once given stays; a newcomer that wants it gets the GUID appended."""
    known = {1: Label("leaf-1")}
    labels = name_nodes([IbNode(1, "switch", "new"), IbNode(2, "switch", "leaf-1")], known)
    assert labels == {1: Label("leaf-1"), 2: Label("leaf-1@000002")}


def test_widths_and_unknown_speeds() -> None:
    """Every width counts its lanes; what is not known stays unknown."""
    assert [lanes(w) for w in ("1x", "2X", "4x", "8x", "12x", "???", "")] == [1, 2, 4, 8, 12, 0, 0]
    assert IbPort(1, width="4x", speed="???", up=True).speed_bps == 0.0
    assert IbPort(1, width="2x", speed="NDR", up=True).speed_bps == 200e9
    assert IbPort(1, width="4x", speed="XDR", up=True).speed_bps == 800e9
