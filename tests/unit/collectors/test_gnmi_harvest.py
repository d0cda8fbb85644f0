"""From poll to poll of a gNMI target: rows of ports named once are given back, the rest holds."""

from __future__ import annotations

from typing import Any

from support.readings import latest
from support.selfmon import events

from fabricmon.api import Context
from fabricmon.collectors.gnmi.harvest import Harvest
from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_notification import NotificationReader, write_path
from fabricmon.formats.gnmi.gnmi_proto import messages
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

S = 1_000_000_000
T0 = 1_764_460_800 * S
RX, PKTS = "state/counters/in-octets", "state/counters/in-pkts"
NEW = 20
"""Ports that are new at each poll."""


class Target:
    """A live target as its session keeps it."""

    def __init__(self) -> None:
        """Nothing heard yet."""
        paths = GnmiPaths.load()
        self.layout = Layout("t")
        self.table = SeriesTable(self.layout, paths)
        self.recorder = Recorder(self.table, paths, "leaf1")
        self.reader = NotificationReader(self.recorder, "leaf1")
        clock = ManualClock()
        self.context = Context(clock, Reporter(clock))
        self.harvest = Harvest(self.recorder, paths, self.context.report, self.reader.forget)

    def hear(self, port: str, time_ns: int, delete: str = "", **values: Any) -> None:
        """One notification, as bytes."""
        response = messages().SubscribeResponse()
        note = response.update
        note.timestamp = time_ns
        write_path(gnmi_path.split(f"interfaces/interface[name={port}]"), note.prefix)
        for path, value in values.items():
            update = note.update.add()
            write_path(gnmi_path.split(path), update.path)
            setattr(update.val, "string_val" if isinstance(value, str) else "uint_val", value)
        if delete:
            write_path(gnmi_path.split(delete), note.delete.add())
        self.reader.take_raw(response.SerializeToString(), time_ns)

    def poll(self) -> dict[tuple[str, str], float]:
        """The last of each value since the last poll."""
        self.recorder.samples.pack(T0)
        return latest(self.harvest.poll().batches)


def test_invented_ports_are_forgotten_and_the_others_are_not() -> None:
    """Rows stay few; counts stay exact, states that were sent once hold, a late sample is late."""
    target = Target()
    target.hear("new0", T0, **{RX: 1, PKTS: 1})
    target.hear("swp1", T0, **{"state/oper-status": "UP", RX: 0})
    most = 0
    for poll in range(1, 400):
        now = T0 + poll * S
        for number in range(NEW):
            target.hear(f"new{poll * NEW + number}", now, **{RX: 7, PKTS: 7})
        target.hear("swp1", now, **{RX: poll, PKTS: 2 * poll})
        found = target.poll()
        assert found["swp1", "rx_bytes"] == poll
        assert found["swp1", "rx_packets"] == 2 * poll
        assert found["swp1", "oper_up"] == 1.0
        assert found[f"new{poll * NEW}", "rx_bytes"] == 7
        most = max(most, target.layout.ports)
    assert events(target.context, "ports_forgotten") == 2
    assert target.layout.ports < 200 * NEW
    assert most < 300 * NEW
    assert len(target.table) < 3 * target.layout.ports
    target.hear("swp1", now, **{RX: 5})
    assert target.poll() == {}
    target.hear("swp1", now + S, delete="state/oper-status")
    target.hear("swp1", now + S, **{RX: 9})
    assert target.poll() == {("swp1", "rx_bytes"): 9}


def test_a_silent_target_forgets_nothing() -> None:
    """Polls without news do not count: what comes after an hour of silence is known."""
    target = Target()
    for number in range(200):
        target.hear(f"swp{number}", T0, **{RX: 1})
    target.poll()
    for _ in range(500):
        assert target.poll() == {}
    assert target.layout.ports == 200
    assert events(target.context, "ports_forgotten") == 0


def test_a_few_silent_ports_are_kept() -> None:
    """It is not worth to look up everything anew for a port or two."""
    target = Target()
    for poll in range(300):
        for number in range(8):
            if number or not poll:
                target.hear(f"swp{number}", T0 + poll * S, **{RX: poll})
        target.poll()
    assert target.layout.ports == 8
    assert events(target.context, "ports_forgotten") == 0
