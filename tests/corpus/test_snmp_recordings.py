"""Every SNMP recording through its mapping: values that stand in the recording, by hand.

The table below holds facts read off the recordings: port, counter, queue, value, and the object or
objects (added) it came from. The recordings themselves are not part of this repository.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from support import SAMPLES, samples

from fabricmon.collectors.snmp import lldp
from fabricmon.collectors.snmp.ports import PortIndex
from fabricmon.formats.snmp.ber import parse_oid
from fabricmon.formats.snmp.snmprec import read_snmprec
from fabricmon.mappings.snmp import Profile, SnmpMappings
from fabricmon.mappings.snmp_build import build
from fabricmon.mappings.snmp_grid import Grid, lacking
from fabricmon.mappings.snmp_walk import Walk, port_names
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from fabricmon.model.readings import ReadingBatch

# recording, mapping, ports -> (port, counter, queue, value, objects)
EXPECTED: dict[tuple[str, str, int], list[tuple[str, str, int, int, list[str]]]] = {
    ("librenms/arista_eos", "arista", 52): [
        ("Ethernet7", "rx_bytes", -1, 1001927180762, ["1.3.6.1.2.1.31.1.1.1.6.7"]),
        ("Ethernet7", "tx_bytes", -1, 1259122137016, ["1.3.6.1.2.1.31.1.1.1.10.7"]),
        (
            "Ethernet7",
            "rx_packets",
            -1,
            763477119,
            ["1.3.6.1.2.1.31.1.1.1.7.7", "1.3.6.1.2.1.31.1.1.1.8.7", "1.3.6.1.2.1.31.1.1.1.9.7"],
        ),
        (
            "Ethernet7",
            "tx_packets",
            -1,
            865626686,
            ["1.3.6.1.2.1.31.1.1.1.11.7", "1.3.6.1.2.1.31.1.1.1.12.7", "1.3.6.1.2.1.31.1.1.1.13.7"],
        ),
        ("Ethernet6", "tx_discards", -1, 1, ["1.3.6.1.2.1.2.2.1.19.6"]),
    ],
    ("librenms/arista_eos_7280r", "arista", 54): [
        ("Ethernet28", "rx_pfc_frames", 3, 0, ["1.3.6.1.4.1.30065.3.11.1.1.1.4.28.3"]),
        ("Ethernet28", "tx_pfc_frames", 3, 0, ["1.3.6.1.4.1.30065.3.11.1.1.1.3.28.3"]),
        ("Ethernet51/1", "queue_tx_bytes", 0, 1633528, ["1.3.6.1.4.1.30065.3.6.1.2.1.5.51001.0.0"]),
        ("Ethernet28", "queue_discards", 3, 0, ["1.3.6.1.4.1.30065.3.6.1.2.1.6.28.3.0"]),
    ],
    ("librenms/cumulus_bgp", "cumulus", 64): [
        ("swp21", "rx_bytes", -1, 2050763190418, ["1.3.6.1.2.1.31.1.1.1.6.24"]),
        ("swp21", "tx_bytes", -1, 2468193728952, ["1.3.6.1.2.1.31.1.1.1.10.24"]),
        ("swp33", "rx_pfc_frames", 3, 0, ["1.3.6.1.4.1.40310.2.2.3.1.10.36"]),
        ("swp33", "tx_pfc_frames", 3, 0, ["1.3.6.1.4.1.40310.2.2.3.1.11.36"]),
    ],
    ("librenms/dell-sonic", "sonic", 54): [
        ("Eth1/25", "rx_bytes", -1, 2410291, ["1.3.6.1.2.1.31.1.1.1.6.25"]),
        ("Eth1/25", "tx_bytes", -1, 624136049, ["1.3.6.1.2.1.31.1.1.1.10.25"]),
        ("Eth1/26", "rx_discards", -1, 3, ["1.3.6.1.2.1.2.2.1.13.26"]),
        ("Eth1/26", "tx_discards", -1, 570, ["1.3.6.1.2.1.2.2.1.19.26"]),
    ],
    ("librenms/edgecos_dcs203", "sonic", 56): [
        ("Eth18/1(Port18)", "rx_bytes", -1, 492866922896, ["1.3.6.1.2.1.31.1.1.1.6.18"]),
        ("Eth18/1(Port18)", "tx_bytes", -1, 771940340400, ["1.3.6.1.2.1.31.1.1.1.10.18"]),
        ("Eth30/2(Port26)", "rx_discards", -1, 73582, ["1.3.6.1.2.1.2.2.1.13.26"]),
        ("Eth18/1(Port18)", "tx_discards", -1, 1071911796, ["1.3.6.1.2.1.2.2.1.19.18"]),
        ("Eth44/4(Port47)", "rx_errors", -1, 2, ["1.3.6.1.2.1.2.2.1.14.47"]),
    ],
    ("librenms/nxos_n9k-c93180yc-fx3", "nxos", 54): [
        ("Ethernet1/54", "rx_bytes", -1, 12070657919, ["1.3.6.1.2.1.31.1.1.1.6.436234752"]),
        ("Ethernet1/54", "tx_bytes", -1, 11993670791, ["1.3.6.1.2.1.31.1.1.1.10.436234752"]),
    ],
    ("librenms/nxos_n3k-3064pq", "nxos", 52): [
        ("Ethernet1/15", "rx_bytes", -1, 19110, ["1.3.6.1.2.1.31.1.1.1.6.436264960"]),
        ("Ethernet1/15", "tx_bytes", -1, 27173, ["1.3.6.1.2.1.31.1.1.1.10.436264960"]),
        ("Ethernet1/5", "tx_discards", -1, 5461, ["1.3.6.1.2.1.2.2.1.19.436224000"]),
        ("Ethernet1/5", "rx_errors", -1, 36, ["1.3.6.1.2.1.2.2.1.14.436224000"]),
    ],
    ("librenms/junos_qfx5100", "junos", 11): [
        ("xe-0/0/3", "rx_bytes", -1, 201389, ["1.3.6.1.2.1.31.1.1.1.6.522"]),
        ("xe-0/0/3", "tx_bytes", -1, 917260319, ["1.3.6.1.2.1.31.1.1.1.10.522"]),
    ],
    ("librenms/vrp_ce12804-withvrf", "huawei", 96): [
        ("10GE1/4/0/23", "rx_bytes", -1, 603167670, ["1.3.6.1.2.1.31.1.1.1.6.114"]),
        ("10GE1/4/0/23", "tx_bytes", -1, 610454310, ["1.3.6.1.2.1.31.1.1.1.10.114"]),
    ],
    ("librenms/comware", "h3c", 208): [
        ("GigabitEthernet2/0/46", "rx_bytes", -1, 46048453907, ["1.3.6.1.2.1.31.1.1.1.6.113"]),
        ("GigabitEthernet2/0/46", "tx_bytes", -1, 808097069726, ["1.3.6.1.2.1.31.1.1.1.10.113"]),
        ("Ten-GigabitEthernet8/0/9", "rx_errors", -1, 19, ["1.3.6.1.2.1.2.2.1.14.44"]),
    ],
    ("librenms/dnos_z9100-on", "dell_os9", 49): [
        (
            "TenGigabitEthernet 1/2/3",
            "rx_bytes",
            -1,
            651674494743,
            ["1.3.6.1.2.1.31.1.1.1.6.2097924"],
        ),
        (
            "TenGigabitEthernet 1/2/3",
            "tx_bytes",
            -1,
            81421126067906,
            ["1.3.6.1.2.1.31.1.1.1.10.2097924"],
        ),
    ],
    ("librenms/dell-os10", "dell_os10", 30): [
        ("ethernet1/1/29", "rx_bytes", -1, 9602, ["1.3.6.1.2.1.31.1.1.1.6.41"]),
        ("ethernet1/1/29", "tx_bytes", -1, 80888, ["1.3.6.1.2.1.31.1.1.1.10.41"]),
    ],
    ("librenms/sm-os_80hdx", "generic", 10): [
        ("Slot0/9", "rx_bytes", -1, 11468370, ["1.3.6.1.2.1.31.1.1.1.6.1"]),
        ("Slot0/9", "tx_bytes", -1, 1988719, ["1.3.6.1.2.1.31.1.1.1.10.1"]),
        ("Slot0/9", "rx_discards", -1, 122740, ["1.3.6.1.2.1.2.2.1.13.1"]),
    ],
    ("librenms/ocnos_s9510-28dc-b", "generic", 29): [
        ("xe26", "rx_bytes", -1, 95535874101114, ["1.3.6.1.2.1.31.1.1.1.6.5027"]),
        ("xe26", "tx_bytes", -1, 8551837484776, ["1.3.6.1.2.1.31.1.1.1.10.5027"]),
        ("xe10", "rx_errors", -1, 611, ["1.3.6.1.2.1.2.2.1.14.10031"]),
        ("xe4", "symbol_errors", -1, 857, ["1.3.6.1.2.1.10.7.11.1.6.5005"]),
    ],
    ("synthetic/sonic_mock_pfc", "sonic", 31): [
        ("Ethernet20", "rx_bytes", -1, 100, ["1.3.6.1.2.1.31.1.1.1.6.21"]),
        ("Ethernet112", "tx_bytes", -1, 100, ["1.3.6.1.2.1.31.1.1.1.10.113"]),
        ("Ethernet108", "rx_discards", -1, 5, ["1.3.6.1.2.1.2.2.1.13.109"]),
        ("Ethernet108", "tx_discards", -1, 10, ["1.3.6.1.2.1.2.2.1.19.109"]),
        ("Ethernet60", "rx_pfc_frames", 0, 1, ["1.3.6.1.4.1.9.9.813.1.2.1.3.61.0"]),
        ("Ethernet60", "tx_pfc_frames", 0, 1, ["1.3.6.1.4.1.9.9.813.1.2.1.2.61.0"]),
        ("Ethernet8", "queue_tx_bytes", 0, 2, ["1.3.6.1.4.1.9.9.580.1.5.5.1.4.9.2.1.2"]),
        ("Ethernet8", "queue_discards", 0, 3, ["1.3.6.1.4.1.9.9.580.1.5.5.1.4.9.2.1.5"]),
    ],
    ("librenms/comware_hpe5900", "h3c", 0): [],
    ("librenms/cumulus_edgecore-as4610-54p", "cumulus", 53): [
        ("upstream1", "rx_bytes", -1, 50757561443, ["1.3.6.1.2.1.31.1.1.1.6.55"]),
        ("swp47", "tx_bytes", -1, 46679084555, ["1.3.6.1.2.1.31.1.1.1.10.49"]),
        ("upstream1", "rx_discards", -1, 38578280, ["1.3.6.1.2.1.2.2.1.13.55"]),
        ("swp47", "tx_discards", -1, 100, ["1.3.6.1.2.1.2.2.1.19.49"]),
    ],
    ("librenms/cumulus_mellanox", "cumulus", 58): [],
    ("librenms/edgecos_ecs4120-28fv2", "generic", 28): [
        ("Port28", "rx_bytes", -1, 26499461745128, ["1.3.6.1.2.1.31.1.1.1.6.28"]),
        ("Port27", "tx_bytes", -1, 13151454777054, ["1.3.6.1.2.1.31.1.1.1.10.27"]),
        ("Port28", "rx_discards", -1, 16453303, ["1.3.6.1.2.1.2.2.1.13.28"]),
        ("Port17", "tx_discards", -1, 9765400, ["1.3.6.1.2.1.2.2.1.19.17"]),
    ],
    ("librenms/fs-switch-dc_fs-switch-dc", "generic", 0): [],
    ("librenms/iosxe_c9500x-svl", "generic", 197): [
        ("Fif1/0/10", "rx_bytes", -1, 76394751, ["1.3.6.1.2.1.31.1.1.1.6.11"]),
        ("Fif2/0/10", "tx_bytes", -1, 76665585, ["1.3.6.1.2.1.31.1.1.1.10.109"]),
    ],
    ("librenms/junos_qfx5130-32cd-evo", "junos", 34): [],
    ("librenms/nxos_lag-mib", "nxos", 51): [
        ("Ethernet1/7", "rx_bytes", -1, 1022989701127027, ["1.3.6.1.2.1.31.1.1.1.6.436210688"]),
        ("Ethernet1/29/2", "tx_bytes", -1, 1252783482931751, ["1.3.6.1.2.1.31.1.1.1.10.940675072"]),
        ("Ethernet1/29/2", "tx_discards", -1, 2506, ["1.3.6.1.2.1.2.2.1.19.940675072"]),
        ("Ethernet1/35", "rx_errors", -1, 4, ["1.3.6.1.2.1.2.2.1.14.436225024"]),
    ],
    ("librenms/nxos_n9504-7.0", "nxos", 0): [],
    ("librenms/ocnos_as5835-54t-v7", "generic", 55): [
        ("ce54", "rx_bytes", -1, 53046039502659, ["1.3.6.1.2.1.31.1.1.1.6.10033"]),
        ("xe14", "tx_bytes", -1, 41990162775519, ["1.3.6.1.2.1.31.1.1.1.10.5013"]),
        ("ce54", "rx_discards", -1, 174564184, ["1.3.6.1.2.1.2.2.1.13.10033"]),
        ("xe15", "tx_discards", -1, 24775663, ["1.3.6.1.2.1.2.2.1.19.5016"]),
    ],
    ("librenms/ocnos_as7712-32x", "generic", 129): [
        ("ce30/1", "rx_bytes", -1, 2956, ["1.3.6.1.2.1.31.1.1.1.6.10005"]),
        ("ce32/1", "tx_bytes", -1, 1102, ["1.3.6.1.2.1.31.1.1.1.10.10013"]),
    ],
    ("librenms/ocnos_s9600-32x", "generic", 36): [
        ("ce16", "rx_bytes", -1, 33606991715, ["1.3.6.1.2.1.31.1.1.1.6.5020"]),
        ("ce16", "tx_bytes", -1, 28992279305, ["1.3.6.1.2.1.31.1.1.1.10.5020"]),
    ],
    ("librenms/picos", "generic", 69): [],
    ("librenms/slxos_slx9150", "generic", 109): [
        ("Ethernet 0/49", "rx_bytes", -1, 1017682250024100, ["1.3.6.1.2.1.31.1.1.1.6.201728256"]),
        ("Ethernet 0/50", "tx_bytes", -1, 1164855875114315, ["1.3.6.1.2.1.31.1.1.1.10.201736448"]),
        ("Ethernet 0/50", "rx_errors", -1, 7047, ["1.3.6.1.2.1.2.2.1.14.201736448"]),
    ],
    ("librenms/vrp_ce12804-entity", "huawei", 0): [],
    ("panoptes/enrichment_generic_snmp_cisco_nxos_data_recording_3048", "generic", 0): [],
    ("panoptes/enrichment_generic_snmp_juniper_data_recording_qfx", "generic", 0): [],
    ("panoptes/enrichment_interface_arista_data_recording_public", "generic", 3): [],
    ("panoptes/enrichment_interface_cisco_data_recording_public", "generic", 3): [],
    ("panoptes/enrichment_interface_juniper_qfx_data_recording_public", "generic", 1): [
        ("et-0/0/0", "rx_bytes", -1, 93388889987411061, ["1.3.6.1.2.1.31.1.1.1.6.598"]),
        ("et-0/0/0", "tx_bytes", -1, 105485285594902898, ["1.3.6.1.2.1.31.1.1.1.10.598"]),
    ],
}

# recording -> (local port, neighbour, its port)
EDGES = {
    "librenms/arista_eos": [
        ("Ethernet1", "00:1b:21:bb:e6:f0", "00:1b:21:bb:e6:f0"),
        ("Ethernet48", "4900M-CORE.example.net", "Te1/3"),
    ],
    "librenms/dell-os10": [  # local port numbers are no ifIndex here
        ("ethernet1/1/3", "1007-mnt-1", "Gi1/0/6"),
        ("ethernet1/1/25", "1007-lan-2", "ethernet1/1/25"),
        ("ethernet1/1/29", "core-1", "ae3"),
    ],
    "librenms/junos_qfx5100": [  # the port id is the peer's ifIndex as text
        ("xe-0/0/0", "devicea", "ifa"),
        ("xe-0/0/1", "deviceb", "ifb"),
    ],
    "librenms/nxos_n3k-3064pq": [("Ethernet1/49", "<private>", "Ethernet1/49")],
    "librenms/dell-sonic": [("Eth1/7", "xxxxx-21I0STP", "a0:29:19:d0:20:b9")],  # a MAC as text
    "librenms/slxos_slx9150": [("Ethernet 0/28#201556288", "vmnic3", "vmnic2")],
    "librenms/dnos_z9100-on": [("hundredGigE 1/32", "swrr309a", "hundredGigE 1/9")],
}


class Replayed(NamedTuple):
    """A recording after its mapping."""

    recorded: dict[tuple[int, ...], object]
    walk: Walk
    profile: Profile
    names: dict[int, str]
    grid: Grid
    batch: ReadingBatch


@lru_cache(maxsize=1)
def mappings() -> SnmpMappings:
    """The built-in mappings."""
    return SnmpMappings()


@lru_cache(maxsize=4)
def replay(path: Path) -> Replayed:
    """Read a recording and apply the mapping that it chooses itself."""
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        varbinds = list(read_snmprec(lines, lambda _line, _why: None))
    recorded = {varbind.oid: varbind.value for varbind in varbinds}
    walk = Walk({o: v for o, v in recorded.items() if isinstance(v, int | bytes)})
    object_id = recorded.get(parse_oid("1.3.6.1.2.1.1.2.0"), ())
    descr = walk.text(parse_oid("1.3.6.1.2.1.1.1.0"))
    profile = mappings().choose(object_id if isinstance(object_id, tuple) else (), descr)
    names = port_names(profile, walk)
    grid, instances = build(profile, "switch", names, walk)
    batch = grid.batch("recording", *grid.fill(instances, walk), 0)
    return Replayed(recorded, walk, profile, names, grid, batch)


def recordings() -> list[str]:
    """Names of all recordings; one that says so where the corpus is absent."""
    root = SAMPLES / "snmp"
    found = sorted(str(p.relative_to(root).with_suffix("")) for p in root.rglob("*.snmprec"))
    return found or ["absent"]


@pytest.mark.parametrize("name", recordings())
def test_every_recording_replays(name: str) -> None:
    """Every recording is read whole; whatever its mapping lacks is said, and nothing is made up."""
    replayed = replay(samples("snmp", f"{name}.snmprec"))
    batch = replayed.batch
    assert set(np.unique(batch.state)) <= {State.OK, State.MISSING, State.UNSUPPORTED}
    assert not (batch.values[batch.state != State.OK] != 0).any()
    read = {column.counter.id for column in (*batch.columns, *batch.gauge_columns)}
    wanted = {row.counter for row in replayed.profile.rows}
    assert read | set(lacking(replayed.grid)) == wanted
    assert len(set(batch.ports.port)) == len(batch.ports)


def test_every_recording_has_an_expected_result() -> None:
    """Each recording, of nine kinds of device, has its mapping, its ports and values by hand."""
    assert {name for name, _, _ in EXPECTED} >= set(recordings()) - {"absent"}
    assert len({mapping for _, mapping, _ in EXPECTED}) >= 9


@pytest.mark.parametrize("key", EXPECTED, ids=lambda key: key[0])
def test_values_are_those_of_the_recording(key: tuple[str, str, int]) -> None:
    """The mapping is chosen by the device itself and every value is the recorded one."""
    name, mapping, ports = key
    replayed = replay(samples("snmp", f"{name}.snmprec"))
    batch = replayed.batch
    assert (replayed.profile.name, len(batch.ports)) == (mapping, ports)
    for port, counter, queue, value, oids in EXPECTED[key]:
        assert sum(int(replayed.recorded[parse_oid(o)]) for o in oids) == value  # type: ignore[call-overload]
        k = next(
            k for k, c in enumerate(batch.columns) if (c.counter.id, c.queue) == (counter, queue)
        )
        n = batch.ports.port.index(port)
        assert (int(batch.values[k, n]), int(batch.state[k, n])) == (value, State.OK), counter


STANDARD = {
    "ifHCInOctets": ["1.3.6.1.2.1.31.1.1.1.6"],
    "ifHCOutOctets": ["1.3.6.1.2.1.31.1.1.1.10"],
    "ifHCInUcastPkts + ifHCInMulticastPkts + ifHCInBroadcastPkts": [
        f"1.3.6.1.2.1.31.1.1.1.{column}" for column in (7, 8, 9)
    ],
    "ifHCOutUcastPkts + ifHCOutMulticastPkts + ifHCOutBroadcastPkts": [
        f"1.3.6.1.2.1.31.1.1.1.{column}" for column in (11, 12, 13)
    ],
    "ifInDiscards": ["1.3.6.1.2.1.2.2.1.13"],
    "ifInErrors": ["1.3.6.1.2.1.2.2.1.14"],
    "ifOutDiscards": ["1.3.6.1.2.1.2.2.1.19"],
    "ifOutErrors": ["1.3.6.1.2.1.2.2.1.20"],
    "dot3InPauseFrames": ["1.3.6.1.2.1.10.7.10.1.3"],
    "dot3OutPauseFrames": ["1.3.6.1.2.1.10.7.10.1.4"],
    "dot3HCInPauseFrames": ["1.3.6.1.2.1.10.7.10.1.5"],
    "dot3HCOutPauseFrames": ["1.3.6.1.2.1.10.7.10.1.6"],
}
PER_QUEUE = {  # {0}: interface, {1}: priority or queue
    "aristaPfcPriorityIndications": "1.3.6.1.4.1.30065.3.11.1.1.1.4.{0}.{1}",
    "aristaPfcPriorityRequests": "1.3.6.1.4.1.30065.3.11.1.1.1.3.{0}.{1}",
    "cpfcIfPriorityIndications": "1.3.6.1.4.1.9.9.813.1.2.1.3.{0}.{1}",
    "cpfcIfPriorityRequests": "1.3.6.1.4.1.9.9.813.1.2.1.2.{0}.{1}",
}


@pytest.mark.parametrize("name", recordings())
def test_every_port_shows_what_was_recorded_for_it(name: str) -> None:
    """Port by port, and priority by priority: the recorded number, or none where none is."""
    replayed = replay(samples("snmp", f"{name}.snmprec"))
    batch, recorded = replayed.batch, replayed.recorded
    for k, column in enumerate(batch.columns):
        for n, index in enumerate(replayed.grid.if_index):
            oids = [f"{base}.{index}" for base in STANDARD.get(column.source, ())]
            if column.source in PER_QUEUE:
                oids = [PER_QUEUE[column.source].format(index, column.queue)]
            found = [recorded[o] for o in map(parse_oid, oids) if o in recorded]
            if found:
                total = sum(found) % 2**64  # type: ignore[arg-type] # made-up ones are that large
                assert (int(batch.values[k, n]), batch.state[k, n]) == (total, State.OK)
            elif oids:
                assert (batch.values[k, n], batch.state[k, n]) == (0, State.UNSUPPORTED)
    up = {c.counter.id: row for c, row in zip(batch.gauge_columns, batch.gauges, strict=True)}
    for n, index in enumerate(replayed.grid.if_index if "oper_up" in up else ()):
        status = recorded.get(parse_oid(f"1.3.6.1.2.1.2.2.1.8.{index}"))
        shown = up["oper_up"][n]
        assert np.isnan(shown) if status is None else shown == (status == 1)


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_those_of_the_recording(name: str) -> None:
    """Local and remote ports of LLDP neighbours are found in spite of the ways they are written."""
    replayed = replay(samples("snmp", f"{name}.snmprec"))
    ports = PortIndex(replayed.names, replayed.walk)
    found = {
        (lldp.local_port(ports, replayed.walk, row.local), row.label, lldp.remote_port(row, None))
        for row in lldp.rows(replayed.walk)
    }
    assert set(EDGES[name]) <= found


def test_a_closed_gate_is_unsupported_not_zero() -> None:
    """The 7280R has a table of ECN marks that is switched off: no value, and it is said why."""
    replayed = replay(samples("snmp", "librenms", "arista_eos_7280r.snmprec"))
    assert "ecn_marked_packets" not in {c.counter.id for c in replayed.batch.columns}
    assert lacking(replayed.grid)["ecn_marked_packets"] == "switched off on the device"


def test_a_device_without_counters_of_its_interfaces_says_so() -> None:
    """The 7280R recording has no ifXTable: bytes are lacking there, PFC is not."""
    lacks = lacking(replay(samples("snmp", "librenms", "arista_eos_7280r.snmprec")).grid)
    assert "rx_bytes" in lacks
    assert "rx_pfc_frames" not in lacks


def test_sonic_counts_queues_from_one() -> None:
    """SONiC's QoS group 1 is queue 0, and its tables per interface are not used at all."""
    replayed = replay(samples("snmp", "synthetic", "sonic_mock_pfc.snmprec"))
    queues = {c.queue for c in replayed.batch.columns if c.counter.id == "queue_discards"}
    assert min(queues) == 0
    assert max(queues) <= 7
    pfc = [c.source for c in replayed.batch.columns if c.counter.id == "rx_pfc_frames"]
    assert set(pfc) == {"cpfcIfPriorityIndications"}


def test_aggregates_are_not_ports() -> None:
    """Port channels of the Nexus recording are left out: their members are counted already."""
    replayed = replay(samples("snmp", "librenms", "nxos_n3k-3064pq.snmprec"))
    assert not [name for name in replayed.batch.ports.port if name.startswith("port-channel")]


def test_equal_names_are_told_apart_by_their_number() -> None:
    """Two interfaces of one name keep both their counters, as `name#ifIndex`."""
    names = replay(samples("snmp", "librenms", "slxos_slx9150.snmprec")).names
    doubled = [name for name in names.values() if "#" in name]
    assert doubled
    assert all(name.endswith(f"#{index}") for index, name in names.items() if "#" in name)
