"""Notifications off the wire: every kind of value, whole subtrees, and what is odd."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from support.readings import latest

from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_notification import NotificationReader, write_path
from fabricmon.formats.gnmi.gnmi_proto import messages
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.series import polls
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.mappings.gnmi import GnmiPaths

T0 = 1_764_460_800_000_000_000
PREFIX = "interfaces/interface[name=e1]"


class Wire:
    """A reader, and what it read."""

    def __init__(self) -> None:
        """Nothing read yet."""
        self.paths = GnmiPaths.load()
        self.layout = Layout("t")
        self.recorder = Recorder(SeriesTable(self.layout, self.paths), self.paths, "dut")
        self.reader = NotificationReader(self.recorder, "dut")

    def take(
        self, updates: list[tuple[str, str, Any]], prefix: str = PREFIX, time: int = T0
    ) -> None:
        """Path, kind of value and value of each update, twice: the second time paths are known."""
        note = messages().Notification(timestamp=time)
        write_path(gnmi_path.split(prefix), note.prefix)
        for path, kind, value in updates:
            update = note.update.add()
            write_path(gnmi_path.split(path), update.path)
            if kind:
                setattr(update.val, kind, value)
        for _ in range(2):
            self.reader.take(note, 1)

    def values(self) -> dict[tuple[str, str], int | float]:
        """The last value by port and counter."""
        self.recorder.samples.pack(1)
        return latest(polls(self.layout, self.recorder.samples.take()))


def test_every_kind_of_value() -> None:
    """Unsigned, signed, strings, doubles, booleans and JSON; exact up to 2^64-1, zero included."""
    wire = Wire()
    wire.take(
        [
            ("state/counters/in-octets", "uint_val", 2**64 - 1),
            ("state/counters/out-octets", "uint_val", 0),
            ("state/counters/in-pkts", "int_val", 7),
            ("state/counters/out-pkts", "string_val", "18446744073709551614"),
            ("state/counters/in-errors", "double_val", 3.0),
            ("state/counters/out-errors", "json_ietf_val", b'"9007199254740993"'),
            ("state/counters/in-discards", "json_val", b"5"),
            ("state/counters/out-discards", "bool_val", True),
            ("state/oper-status", "string_val", "UP"),
            ("state/nobody-knows", "uint_val", 1),
            ("state/counters/carrier-transitions", "", None),
        ]
    )
    assert wire.values() == {
        ("e1", "rx_bytes"): 2**64 - 1,
        ("e1", "tx_bytes"): 0,
        ("e1", "rx_packets"): 7,
        ("e1", "tx_packets"): 2**64 - 2,
        ("e1", "rx_errors"): 3,
        ("e1", "tx_errors"): 9007199254740993,
        ("e1", "rx_discards"): 5,
        ("e1", "oper_up"): 1.0,
    }
    assert wire.recorder.samples.rounded == 0
    assert wire.paths.unmatched == {"/interfaces/interface/state/nobody-knows": 1}


def test_json_subtrees() -> None:
    """A container, and a list of entries with their keys inside, are walked to their leaves."""
    wire = Wire()
    counters = {"openconfig-interfaces:in-octets": "5", "out-octets": 6, "other": {"x": 1}}
    wire.take([("state/counters", "json_ietf_val", json.dumps(counters).encode())])
    tree = {
        "interface": [{"name": f"e{n}", "state": {"counters": {"in-pkts": str(n)}}} for n in (2, 3)]
    }
    wire.take([("interfaces", "json_ietf_val", json.dumps(tree).encode())], prefix="")
    assert wire.values() == {
        ("e1", "rx_bytes"): 5,
        ("e1", "tx_bytes"): 6,
        ("e2", "rx_packets"): 2,
        ("e3", "rx_packets"): 3,
    }


def test_a_leaf_that_changes_its_kind() -> None:
    """A count that is `max` once is absent once, and a count again after."""
    wire = Wire()
    wire.take([("state/counters/in-octets", "uint_val", 5)])
    wire.take([("state/counters/in-octets", "string_val", "max")], time=T0 + 10**9)
    assert wire.values() == {("e1", "rx_bytes"): 5}
    wire.take([("state/counters/in-octets", "uint_val", 6)], time=T0 + 2 * 10**9)
    assert wire.values() == {("e1", "rx_bytes"): 6}


def test_broken_json_costs_its_update() -> None:
    """An update whose JSON is broken has no value; the others of its notification count."""
    wire = Wire()
    wire.take(
        [
            ("state/counters", "json_ietf_val", b'{"in-octets": [,'),
            ("state/counters/out-octets", "uint_val", 5),
        ]
    )
    assert wire.values() == {("e1", "tx_bytes"): 5}


def test_the_pool_is_private() -> None:
    """Messages live in a descriptor pool of their own: other packages may define gnmi.proto too."""
    from google.protobuf import descriptor_pool

    pool = messages().Path.DESCRIPTOR.file.pool
    assert pool is not descriptor_pool.Default()
    path = messages().Path(origin="openconfig")
    path.elem.add(name="a").key["k"] = "v"
    again = messages().Path.FromString(path.SerializeToString())
    assert (again.origin, again.elem[0].name, dict(again.elem[0].key)) == (
        "openconfig",
        "a",
        {"k": "v"},
    )


def test_long_paths_leave_nothing_in_memory() -> None:
    """A device that makes up paths of a hundred kilobytes fills no memory; each is counted."""
    wire = Wire()
    wire.take([("state/counters/in-octets", "uint_val", 7)])
    tracemalloc.start()
    for number in range(20):
        wire.take([(f"state/{'x' * 100_000}{number}", "uint_val", 1)])
        wire.take([("state/counters/in-octets", "uint_val", 7)], f"{PREFIX}/{'y' * 9000}{number}")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 500_000
    assert wire.recorder.table.take_refused() == 80
    assert wire.values() == {("e1", "rx_bytes"): 7}
