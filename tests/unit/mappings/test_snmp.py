"""SNMP mapping files: what they may say, and which is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fabricmon.errors import ConfigError
from fabricmon.mappings.snmp import Shape, SnmpMappings, oid
from fabricmon.model.counters import BY_ID, NO_QUEUE

if TYPE_CHECKING:
    from pathlib import Path

BUILT_IN = SnmpMappings()
HEAD = "name: mine\ntitle: mine\nextends: generic\n"


def mine(folder: Path, text: str) -> SnmpMappings:
    """The mappings with one of the user's own."""
    (folder / "mine.yaml").write_text(HEAD + text, encoding="utf-8")
    return SnmpMappings([folder])


@pytest.mark.parametrize("name", BUILT_IN.names)
def test_every_built_in_mapping_says_what_it_is(name: str) -> None:
    """It resolves, has a title, says against what it was checked, and counts bytes both ways."""
    profile = BUILT_IN.profile(name)
    assert profile.title
    assert profile.verified
    assert {"rx_bytes", "tx_bytes", "oper_up", "speed_bps"} <= set(profile.by_counter)
    assert set(profile.by_counter) <= set(BY_ID)


@pytest.mark.parametrize(
    ("object_id", "descr", "name"),
    [
        ("1.3.6.1.4.1.8072.3.2.10", "Linux host 6.1", "generic"),
        ("1.3.6.1.4.1.8072.3.2.10", "SONiC Software Version: SONiC.202311", "sonic"),
        ("1.3.6.1.4.1.6027.1.5.2", "SONiC Software Version: SONiC.4.4.1", "sonic"),
        ("1.3.6.1.4.1.6027.1.5.2", "Dell EMC Networking OS", "dell_os9"),
        ("1.3.6.1.4.1.674.11000.5000.100.2.1.7", "Dell EMC Networking OS10", "dell_os10"),
        ("1.3.6.1.4.1.9.12.3.1.3.2193", "Cisco NX-OS(tm) Nexus9000", "nxos"),
        ("1.3.6.1.4.1.9.1.3155", "Cisco IOS Software [IOSXE]", "generic"),
        ("1.3.6.1.4.1.30065.1.3011.7280", "Arista Networks EOS", "arista"),
        ("1.3.6.1.4.1.33049.1.1.1.3700", "NVIDIA MSN3700,Onyx,SWv3.10", "onyx"),
        ("1.3.6.1.4.1.8072.3.2.10", "Linux sw 4.19.0-cl-1 #1 SMP Cumulus 4.19.94", "cumulus"),
        ("1.3.6.1.4.1.2636.1.1.1.4.82.28", "Juniper Networks, Inc. qfx5130", "junos"),
        ("1.3.6.1.4.1.2011.2.239.1", "Huawei Versatile Routing Platform", "huawei"),
        ("1.3.6.1.4.1.25506.11.1.172", "HP Comware Platform Software", "h3c"),
        ("1.3.6.1.4.1.674.10895.3000", "Dell N4032F", "fastpath"),
    ],
)
def test_a_device_is_recognised(object_id: str, descr: str, name: str) -> None:
    """SysDescr beats the vendor's arc: SONiC runs on everybody's hardware."""
    assert BUILT_IN.choose(oid(object_id), descr).name == name


def test_sonic_never_uses_the_tables_it_fills_from_one_priority() -> None:
    """The counts per interface of CISCO-PFC-EXT are of priority 3 alone on SONiC."""
    rows = BUILT_IN.profile("sonic").rows
    assert not [row for row in rows if row.oid.startswith("1.3.6.1.4.1.9.9.813.1.1.")]


def test_what_a_mapping_drops_is_not_inherited() -> None:
    """SONiC has no EtherLike-MIB: its rows are not asked for."""
    assert "rx_pause_frames" in BUILT_IN.profile("nxos").by_counter
    assert "rx_pause_frames" not in BUILT_IN.profile("sonic").by_counter


def test_the_nearest_row_comes_first_and_the_inherited_one_stands_by() -> None:
    """Onyx has its own pause counters, and falls back to EtherLike where they are absent."""
    rows = BUILT_IN.profile("onyx").by_counter["rx_pause_frames"]
    assert [row.oid for row in rows] == [
        "1.3.6.1.4.1.33049.15.1.5.1.2",
        "1.3.6.1.2.1.10.7.10.1.5",
        "1.3.6.1.2.1.10.7.10.1.3",
    ]


@pytest.mark.parametrize(
    ("pattern", "offset", "suffix", "read"),
    [
        ("port", 0, (7,), (7, NO_QUEUE, ())),
        ("port", 0, (7, 1), None),
        ("port.queue", 0, (7, 3), (7, 3, ())),
        ("port.2.queue.5", -1, (7, 2, 4, 5), (7, 3, ())),
        ("port.2.queue.5", -1, (7, 1, 4, 5), None),
        ("port.2.queue.5", -1, (7, 2, 0, 5), None),
        ("queue.port", 0, (3, 7), (7, 3, ())),
        ("port.queue.*", 0, (7, 3, 2), (7, 3, (2,))),
        ("text.port", 0, (2, 65, 66, 7), (7, NO_QUEUE, (2, 65, 66))),
        ("text.port", 0, (9, 65, 66, 7), None),
    ],
)
def test_indexes_are_read_by_their_pattern(
    pattern: str, offset: int, suffix: tuple[int, ...], read: object
) -> None:
    """Port and queue are found wherever the index has them; what does not fit is left out."""
    shape = Shape(pattern, offset)
    assert shape.read(suffix) == read
    if read is not None and "text" not in pattern and "*" not in pattern:
        assert shape.write(read[0], read[1]) == suffix  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rows: [{counter: nonsense, oid: 1.3.6}]", "not in the catalogue"),
        ("rows: [{counter: rx_bytes, oid: 1.x}]", "is not an OID"),
        ("rows: [{counter: rx_bytes, oid: 1.3.6, index: port.queue}]", "no queue belongs here"),
        ("rows: [{counter: rx_pfc_frames, oid: 1.3.6}]", "say where the queue is"),
        ("rows: [{counter: rx_pfc_frames, oid: 1.3.6, index: queue}]", "names `port` once"),
        ("rows: [{counter: rx_bytes, oid: 1.3.6, index: port.whatever}]", "an index is made of"),
        ("rows: [{counter: rx_bytes, oid: 1.3.6, is: 1}]", "are for gauges"),
        ("rows: [{counter: rx_bytes, oid: 1.3.6, bits: 31}]", "bits|31"),
        ("match: [{}]", "give `object_id`"),
        ("typo: 1", "unknown key"),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, text: str, words: str) -> None:
    """Each error says the file, the line, and what is wrong there."""
    with pytest.raises(ConfigError, match=words) as caught:
        mine(tmp_path, text)
    assert "mine.yaml:4" in str(caught.value)


def test_a_users_mapping_is_chosen_and_inherits(tmp_path: Path) -> None:
    """A new vendor is one file: recognised, with its rows before the inherited ones."""
    text = (
        "match: [{object_id: 1.3.6.1.4.1.99999}]\n"
        "rows: [{counter: rx_pfc_frames, oid: 1.3.6.1.4.1.99999.1, index: queue.port}]\n"
    )
    found = mine(tmp_path, text).choose(oid("1.3.6.1.4.1.99999.7"), "")
    assert found.name == "mine"
    assert found.by_counter["rx_pfc_frames"][0].oid == "1.3.6.1.4.1.99999.1"
    assert "rx_bytes" in found.by_counter
