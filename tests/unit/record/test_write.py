"""record/write: what is written as another tool's files replays as what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.selfmon import events

from fabricmon.errors import ConfigError, FormatError
from fabricmon.formats.interchange import Label, read_labels
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Link, Node, PortId, Role, Technology, Topology
from fabricmon.record import FORMATS, open_source, write
from fabricmon.record.writers import WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.stream import Item

SECOND = 1_000_000_000
START = 1_769_860_800 * SECOND
IB = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "tx_wait_ticks", "symbol_errors")
SNMP = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "rx_pfc_frames")
ROCE = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors")


class Fabric:
    """Two hosts on a switch, counting in steps of their own."""

    fabric = "lab"

    def __init__(self, technology: Technology, polls: int = 5) -> None:
        self.infiniband = technology is Technology.INFINIBAND
        self.polls = polls
        port, host = ("{}", "mlx5_0/1") if self.infiniband else ("swp{}", "eth0")
        self.ends = [(PortId("leaf1", port.format(i)), PortId(f"gpu{i}", host)) for i in (1, 2)]
        self.topology = Topology(
            (
                Node("leaf1", "switch", Role.LEAF, technology),
                *(Node(f"gpu{i}", "host", Role.HOST, technology) for i in (1, 2)),
            ),
            tuple(Link(a, b, 4e11) for a, b in self.ends),
        )
        names = IB if self.infiniband else ROCE
        columns = [Column(BY_ID[name], scale=4 if name.endswith("bytes") else 1) for name in names]
        if not self.infiniband:
            columns += [Column(BY_ID["rx_pfc_frames"], 3), Column(BY_ID["rx_pfc_ns"], 3)]
        self.columns = tuple(columns)

    def items(self) -> Iterator[Item]:
        """Topology, then polls of ten seconds; the last host is not read in the third."""
        yield self.topology
        ends = [end for pair in self.ends for end in pair]
        ports = PortSet(tuple(e.device for e in ends), tuple(e.port for e in ends))
        shape = (len(self.columns), len(ends))
        steps = (np.arange(shape[0] * shape[1], dtype=np.uint64).reshape(shape) + 1) * 1000
        for poll in range(self.polls):
            time_ns = START + poll * 10 * SECOND
            state = np.zeros(shape, np.uint8)
            if poll == 2:
                state[:, -1] = State.MISSING
            stamps = np.full(len(ends), time_ns)
            yield ReadingBatch("all", ports, self.columns, steps * np.uint64(poll), state, stamps)
            yield Tick(time_ns, 10.0)


def samples(items: Iterator[Item]) -> dict[tuple[int, str, str, str, int], int]:
    """{(time, device, port, counter, queue): value in catalogue units}."""
    out = {}
    for item in items:
        if isinstance(item, ReadingBatch):
            for k, n in zip(*np.nonzero(item.state == State.OK), strict=True):
                column = item.columns[k]
                key = (
                    int(item.time_ns[n]),
                    item.ports.device[n],
                    item.ports.port[n],
                    column.counter.id,
                    column.queue,
                )
                out[key] = int(item.values[k, n]) * column.scale
    return out


@pytest.mark.parametrize("as_", FORMATS)
def test_every_format_replays_as_what_was_written(
    as_: str, tmp_path: Path, context: Context
) -> None:
    """Samples, times and ticks, names of ports, cables and speeds come back."""
    tools = as_ in {"perfquery", "ibqueryerrors"}
    source = Fabric(Technology.INFINIBAND if tools else Technology.ROCE)
    write(source, tmp_path / "d", as_, context.report)
    back = list(open_source([tmp_path / "d"], report=context.report).items())
    expected = samples(source.items())
    if as_ == "snmprec":  # hosts run no agent, and the MIB has no paused time
        expected = {
            key: value for key, value in expected.items() if key[1] == "leaf1" and key[3] in SNMP
        }
    assert samples(iter(back)) == expected
    ticks = [item for item in back if isinstance(item, Tick)]
    assert ticks == [Tick(START + i * 10 * SECOND, 10.0) for i in range(5)]
    shape = Topology()
    for item in back:
        if isinstance(item, Topology):
            shape = shape.merged(item)
    cables = {frozenset((link.a, link.b)) for link in shape.links}
    assert cables == {frozenset(pair) for pair in source.ends}
    assert events(context, "record_skipped") == 0


def test_every_writer_is_offered() -> None:
    """The names in the help are those that are there."""
    assert tuple(WRITERS) == FORMATS


def test_a_dump_holds_the_labels(tmp_path: Path, context: Context) -> None:
    """What is known to have happened stands beside the counters."""
    label = Label("incast", START, START + SECOND, (PortId("leaf1", "swp1"),))
    write(Fabric(Technology.ROCE), tmp_path, "interchange", context.report, [label])
    assert read_labels((tmp_path / "labels.json").read_bytes()) == (label,)


def test_a_dump_is_unwrapped_and_leaves_out_what_stuck(tmp_path: Path, context: Context) -> None:
    """32-bit wraps become 64-bit counts; a saturated value is not known and not written."""

    class Narrow:
        fabric = "lab"

        def items(self) -> Iterator[Item]:
            """A counter that wraps, one that is cleared, and one that sticks."""
            ports = PortSet(("s", "t"), ("1", "1"))
            columns = (
                Column(BY_ID["rx_bytes"], bits=32),
                Column(BY_ID["tx_wait_ticks"], bits=32, saturates=True),
            )
            top = (1 << 32) - 1
            rows = [
                [[top - 9, 500], [5, 5]],
                [[20, 700], [top, 6]],
                [[50, 100], [top, 7]],
            ]
            for i, row in enumerate(rows):
                values, stamps = np.array(row, np.uint64), np.full(2, START + i * SECOND)
                state = np.zeros((2, 2), np.uint8)
                yield ReadingBatch("x", ports, columns, values, state, stamps)
                yield Tick(START + i * SECOND, 1.0)

    write(Narrow(), tmp_path, "interchange", context.report)
    read = samples(open_source([tmp_path], report=context.report).items())
    series: dict[tuple[str, str], list[int]] = {}
    for (_, device, _, counter, _), value in sorted(read.items()):
        series.setdefault((device, counter), []).append(value)
    wrapped = (1 << 32) - 10
    assert series["s", "rx_bytes"] == [wrapped, (1 << 32) + 20, (1 << 32) + 50]
    assert series["t", "rx_bytes"] == [500, 700, 100]
    assert series["s", "tx_wait_ticks"] == [5]
    assert series["t", "tx_wait_ticks"] == [5, 6, 7]


def test_what_cannot_be_written_is_one_clear_error(tmp_path: Path, context: Context) -> None:
    """An unknown format, and InfiniBand tools for a fabric of Ethernet."""
    with pytest.raises(ConfigError, match="'xml' cannot be written; use one of interchange"):
        write(Fabric(Technology.ROCE), tmp_path, "xml", context.report)
    with pytest.raises(FormatError, match="no InfiniBand ports"):
        write(Fabric(Technology.ROCE), tmp_path, "perfquery", context.report)
