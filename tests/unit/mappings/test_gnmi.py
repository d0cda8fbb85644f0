"""The gNMI mappings: sound, found by path, extended by users, and the same both ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.gnmi import read

from fabricmon.errors import ConfigError
from fabricmon.formats.gnmi import gnmi_path, gnmic
from fabricmon.mappings import base
from fabricmon.mappings.gnmi import GnmiMapping, GnmiPaths, PathRow, check
from fabricmon.mappings.gnmi_write import GnmiWriter
from fabricmon.mappings.reading import READERS
from fabricmon.model.counters import BY_ID, NO_QUEUE, Scope
from fabricmon.model.readings import Column, PortSet, ReadingBatch

if TYPE_CHECKING:
    from pathlib import Path

FILES = base.load(GnmiMapping, "gnmi")
LEVELS = {"speed_bps": 400e9}
T0 = 1_764_460_800_000_000_000


def test_every_row_is_sound() -> None:
    """Each row names its port, and a queue exactly where its counter is counted per queue."""
    wrong = [check(row) for mapping in FILES.values() for row in mapping.rows]
    assert [text for text in wrong if text] == []
    assert {mapping.verified for mapping in FILES.values()} & {""} == set()


def test_no_two_files_disagree_on_a_path() -> None:
    """All files apply at once, so one path means one counter everywhere."""
    meaning: dict[str, str] = {}
    for mapping in FILES.values():
        for row in mapping.rows:
            assert meaning.setdefault(row.path, row.counter) == row.counter, row.path


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_mapping_reads_what_it_writes(name: str) -> None:
    """Readings written as a vendor's leaves, in gnmic's shape, are read back unchanged."""
    paths = GnmiPaths.load(name)
    known = {row.counter: row for row in paths.rows}
    counts = [BY_ID[c] for c in known if not BY_ID[c].is_gauge]
    levels = [BY_ID[c] for c in known if BY_ID[c].is_gauge]
    columns = tuple(Column(c, 3 if c.scope is Scope.QUEUE else NO_QUEUE) for c in counts)
    gauges = tuple(Column(c, 3 if c.scope is Scope.QUEUE else NO_QUEUE) for c in levels)
    values = np.arange(5, 5 + len(columns), dtype=np.uint64)[:, None] * np.uint64(1000)
    for k, column in enumerate(columns):
        values[k] %= np.uint64(1) << np.uint64(min(63, known[column.counter.id].bits))
    batch = ReadingBatch(
        "t",
        PortSet(("leaf1",), ("Eth1/1",)),
        columns,
        values,
        np.zeros(values.shape, np.uint8),
        np.array([T0]),
        gauges,
        np.array([[LEVELS.get(column.counter.id, 1.0)] for column in gauges]).reshape(-1, 1),
    )
    (port,) = GnmiWriter(paths).ports(batch)
    message = gnmic.write_message(
        "leaf1:1",
        "s",
        T0,
        "",
        {
            path.lstrip("/"): str(value) if isinstance(value, int) else value
            for path, value in port.leaves
        },
    )
    got = read(json.dumps(message).encode()).all()
    for k, column in enumerate(columns):
        scale = known[column.counter.id].scale
        key = ("Eth1/1", column.counter.id, column.queue)
        assert got[key] == int(values[k, 0]) // scale * scale, key
    for column in gauges:
        level = LEVELS.get(column.counter.id, 1.0)
        assert got["Eth1/1", column.counter.id, column.queue] == pytest.approx(level)


def test_users_files_extend_and_win(tmp_path: Path) -> None:
    """A folder of one's own adds paths and changes known ones; errors name file and line."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "name: mine\ntitle: Mine\nrows:\n"
        '  - {path: "/x/port[id={port}]/ticks", counter: tx_wait_ticks, bits: 32}\n'
        '  - {path: "/interfaces/interface[name={port}]/state/counters/in-errors",'
        " counter: symbol_errors}\n"
    )
    paths = GnmiPaths.load(extra=[tmp_path])
    place = paths.place("/x/port/ticks", {"port_id": "p1"})
    assert place is not None
    assert (place.port, place.column.counter.id, place.column.bits) == ("p1", "tx_wait_ticks", 32)
    mine.write_text("name: mine\ntitle: Mine\nrows:\n  - {path: /x, counter: nonsense}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml:4.*nonsense"):
        GnmiPaths.load(extra=[tmp_path])
    with pytest.raises(KeyError):
        GnmiPaths.load("absent")


def test_misses_are_counted() -> None:
    """Unknown paths, and known ones without their key, are listed apart, and bounded."""
    paths = GnmiPaths.load()
    for _ in range(2):
        assert paths.place("/nobody/knows", {}) is None
    path = "/interfaces/interface/state/counters/in-octets"
    assert paths.place(path, {"subinterface_index": "0"}) is None
    assert paths.unmatched == {"/nobody/knows": 2}
    assert paths.unkeyed == {path: 1}
    for n in range(25_000):
        paths.place(f"/nobody/{n}", {})
    assert len(paths.unmatched) < 25_000
    assert paths.unmatched["(others)"] > 0


@pytest.mark.parametrize(
    ("path", "keys", "found"),
    [
        ("/interfaces/interface/state/counters/in-octets", {"interface_name": "e1"}, ("e1", -1)),
        ("/interfaces/interface/state/counters/in_octets", {"name": "e1"}, ("e1", -1)),
        (
            "/qos/interfaces/interface/output/queues/queue/state/dropped-pkts",
            {"interface_interface-id": "e1", "queue_name": "UC3"},
            ("e1", 3),
        ),
        (
            "/qos/interfaces/interface/output/queues/queue/state/dropped-pkts",
            {"interface_id": "e1", "name": "Ethernet1-5"},
            ("e1", 5),
        ),
        ("/COUNTERS/port/SAI_PORT_STAT_PFC_6_TX_PKTS", {"port_name": "e1"}, ("e1", 6)),
    ],
)
def test_keys_under_every_name(path: str, keys: dict[str, str], found: tuple[str, int]) -> None:
    """Gnmic's tags, telegraf's bare keys, names with a number at their end, numbers in the path."""
    place = GnmiPaths.load().place(path, keys)
    assert place is not None
    assert (place.port, place.column.queue) == found


def test_what_to_subscribe_to() -> None:
    """Containers of counters are sampled, states and LLDP are sent on change; keys are wild."""
    wanted = dict(GnmiPaths.load("arista").subscriptions())
    assert wanted["/interfaces/interface[name=*]/state/counters"] is False
    assert wanted["/interfaces/interface[name=*]/state/oper-status"] is True
    assert all("{" not in path for path in wanted)
    assert all(gnmi_path.split(path) for path in wanted)


@pytest.mark.parametrize(
    ("read", "value", "level"),
    [
        ("number", "-2.31 dBm", -2.31),
        ("number", {"instant": "3.5"}, 3.5),
        ("number", "NaN", None),
        ("number", [1], None),
        ("state", "openconfig-x:UP", 1.0),
        ("state", "lower-layer-down", 0.0),
        ("state", "sideways", None),
        ("speed", "SPEED_400GB", 400e9),
        ("speed", "100G", 100e9),
        ("speed", "1.6T", 1.6e12),
        ("speed", "SPEED_UNKNOWN", None),
        ("speed", 25_000_000_000, 25e9),
        ("float32", "QEYAAA==", 3.09375),
        ("float32", b"\x40\x46\x00\x00", 3.09375),
        ("float32", "max", None),
        ("milliwatt", 1.0, 0.0),
        ("milliwatt", 0, None),
        ("port_state", 4, 1.0),
        ("port_state", 1, 0.0),
    ],
)
def test_levels(read: str, value: object, level: float | None) -> None:
    """How vendors write levels; what is none is absent, never zero."""
    assert READERS[read](1.0)(value) == (None if level is None else pytest.approx(level))


def test_rows_refuse_nonsense() -> None:
    """A path without a port, and a queue where there is none, are told."""
    row = PathRow(path="/a/b[c={queue}]", counter="rx_bytes")
    assert "{port}" in check(row)
    row = PathRow(path="/a/b[c={port}][d={queue}]", counter="rx_bytes")
    assert "counted per port" in check(row)
