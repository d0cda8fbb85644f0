"""Every sample of real devices, as `replay` reads it: nothing raises, known values are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import samples

from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.record import open_source

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.stream import Item


def read(context: Context, *parts: str) -> list[Item]:
    """The stream of a folder of samples."""
    return list(open_source([samples(*parts)], report=context.report).items())


@pytest.mark.parametrize(
    ("parts", "ports"),
    [
        (("gnmi", "telegraf"), 4),
        (("gnmi", "sonic"), 3),
        (("gnmi", "sonic-utilities"), 18),
        (("gnmi", "jtimon"), 6),
        (("gnmi", "gnmic"), 3),
        (("gnmi", "synthetic"), 5),
        (("infiniband", "tools"), 42),
        (("snmp", "synthetic"), 31),
        (("snmp", "librenms"), 1000),
        (("snmp", "panoptes"), 0),
    ],
)
def test_a_folder_of_samples_replays(parts: tuple[str, str], ports: int, context: Context) -> None:
    """At least so many ports have a value; ticks never go back in time."""
    items = read(context, *parts)
    named = {
        name
        for item in items
        if isinstance(item, ReadingBatch) and (item.state == State.OK).any()
        for name in zip(item.ports.device, item.ports.port, strict=True)
    }
    assert len(named) >= ports
    times = [item.time_ns for item in items if isinstance(item, Tick)]
    assert times == sorted(times)


def test_counters_of_ibsim_are_those_that_were_set(context: Context) -> None:
    """Leaf 1 port 1 was given 123,456,789 ticks of transmit-wait and 321 discards."""
    found = {}
    for item in read(context, "infiniband", "tools"):
        if isinstance(item, ReadingBatch):
            for k, column in enumerate(item.columns):
                for n, name in enumerate(zip(item.ports.device, item.ports.port, strict=True)):
                    if name[0].startswith("MF0;leaf-001") and name[1] == "1":
                        found[column.counter.id, column.bits] = int(item.values[k, n])
    assert 123_456_789 in found.values()
    assert 321 in found.values()
