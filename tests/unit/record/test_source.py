"""record/source: what a file is, is found by looking at it."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import cramjam
import numpy as np
import pytest
from support.selfmon import events

from fabricmon.errors import FormatError
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Ecn, Intent, Node, Role, Topology
from fabricmon.record import Writer, open_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.stream import Item

HEADER = "time,device,port,queue,counter,value\n"
TOPOLOGY = """{"nodes": [{"name": "h", "kind": "host"}, {"name": "s", "kind": "switch"}],
 "links": [{"a": ["h", "e"], "b": ["s", "1"], "speed_bps": 1e11}], "fabric": {"interval_s": 2}}"""
PERFQUERY = """# Port extended counters: Lid 2 port 1 (CapMask: 0x5A00 CapMask2: 0x0000002)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................{data}
PortRcvData:.....................10
PortXmitWait:....................{wait}
"""


def counters(polls: int, every: int = 1) -> str:
    """A dump of one port."""
    rows = (f"{(i + 1) * every * 1_000_000_000},s,1,,tx_bytes,{i * 100}\n" for i in range(polls))
    return HEADER + "".join(rows)


def totals(items: list[Item], counter: str) -> list[int]:
    """The values of a counter of the first port, in order."""
    out = []
    for item in items:
        if isinstance(item, ReadingBatch):
            k = [column.counter.id for column in item.columns].index(counter)
            if item.state[k, 0] == State.OK:
                out.append(int(item.values[k, 0]) * item.columns[k].scale)
    return out


def zstd(data: bytes) -> bytes:
    """One zstd frame."""
    return bytes(cramjam.zstd.compress(data))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_dump_folder_is_read_whole(
    tmp_path: Path, context: Context, pack: Callable[[bytes], bytes]
) -> None:
    """Counters under any name and packing, topology and labels make one stream."""
    (tmp_path / "odd name").write_bytes(pack(counters(5).encode()))
    (tmp_path / "topology.json").write_bytes(pack(TOPOLOGY.encode()))
    (tmp_path / "labels.json").write_bytes(pack(b"[]"))
    source = open_source([tmp_path], report=context.report)
    items = list(source.items())
    shape = items[0]
    assert isinstance(shape, Topology)
    assert shape.nodes[1].role is Role.LEAF
    assert source.fabric == tmp_path.name
    assert totals(items, "tx_bytes") == [0, 100, 200, 300, 400]
    assert next(item for item in items if isinstance(item, Tick)).interval_s == 2.0
    assert events(context, "record_skipped") == 0


def test_a_stray_json_beside_a_dump_costs_itself(tmp_path: Path, context: Context) -> None:
    """It has a list of jobs, in words of its own; a topology that is named so must be right."""
    (tmp_path / "c.csv").write_text(counters(3))
    (tmp_path / "topology.json").write_text(TOPOLOGY)
    stray = tmp_path / "run.json"
    stray.write_text('{"seed": 1, "jobs": [[0, 16, 2.5]]}')
    items = list(open_source([tmp_path], report=context.report).items())
    assert isinstance(items[0], Topology)
    assert (len(items), events(context, "record_skipped")) == (7, 1)
    stray.rename(tmp_path / "topology.json")
    with pytest.raises(FormatError, match=r"topology\.json: jobs"):
        list(open_source([tmp_path], report=context.report).items())


def test_unknown_files_of_a_folder_are_told_and_named_ones_are_errors(
    tmp_path: Path, context: Context
) -> None:
    """A README in a folder costs a report; the same file given by name is refused."""
    (tmp_path / "README").write_text("hello\nworld")
    (tmp_path / "c.csv").write_text(counters(3))
    assert len(list(open_source([tmp_path], report=context.report).items())) == 6
    assert events(context, "record_skipped") == 1
    with pytest.raises(
        FormatError, match=r"README: no format that is known; it begins with: hello"
    ):
        open_source([tmp_path / "README"], report=context.report)
    with pytest.raises(FormatError, match="no such file"):
        open_source([tmp_path / "none"], report=context.report)
    (tmp_path / "c.csv").unlink()
    with pytest.raises(FormatError, match="nothing in it can be read"):
        open_source([tmp_path], report=context.report)


def test_a_damaged_file_costs_what_is_left_of_it(tmp_path: Path, context: Context) -> None:
    """One of two files is cut in its compressed middle: the other is whole, the loss is told."""
    (tmp_path / "a.csv").write_text(counters(6))
    packed = gzip.compress(os.urandom(0) + (HEADER + "1,t,9,,rx_bytes,1\n" * 9000).encode())
    (tmp_path / "b.csv.gz").write_bytes(packed[:-40])
    items = list(open_source([tmp_path], report=context.report, interval_s=1).items())
    assert totals(items, "tx_bytes") == [0, 100, 200, 300, 400, 500]
    assert events(context, "record_skipped") == 1


def test_a_cron_jobs_perfquery_files_are_a_time_series(tmp_path: Path, context: Context) -> None:
    """Times come from the names, names of ports from ibnetdiscover, words are scaled to bytes."""
    (tmp_path / "net.txt").write_text(
        "# Topology file: generated on x\n#\n"
        "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xb8cef60300aa0000\n"
        "switchguid=0xb8cef60300aa0000(b8cef60300aa0000)\n"
        'Switch\t2 "S-b8cef60300aa0000"\t\t# "leaf1" enhanced port 0 lid 2 lmc 0\n'
        '[1]\t"H-0c42a10300000001"[1](c42a10300000001) \t\t# "gpu1 mlx5_0" lid 7 4xNDR\n\n'
        "vendid=0x2c9\ndevid=0x1021\nsysimgguid=0xc42a10300000001\ncaguid=0xc42a10300000001\n"
        'Ca\t1 "H-0c42a10300000001"\t\t# "gpu1 mlx5_0"\n'
        '[1](c42a10300000001) \t"S-b8cef60300aa0000"[1]\t\t# lid 7 lmc 0 "leaf1" lid 2 4xNDR\n'
    )
    for i in range(4):
        text = PERFQUERY.format(data=i * 1000, wait=i * 7)
        (tmp_path / f"perfquery_20260131T12000{i}Z.txt").write_text(text)
    items = list(open_source([tmp_path], report=context.report).items())
    batches = [item for item in items if isinstance(item, ReadingBatch)]
    assert (batches[0].ports.device, batches[0].ports.port) == (("leaf1",), ("1",))
    assert totals(items, "tx_bytes") == [0, 4000, 8000, 12000]
    assert totals(items, "tx_wait_ticks") == [0, 7, 14, 21]
    assert [item for item in items if isinstance(item, Tick)][-1] == Tick(
        1769860803_000_000_000, 1.0
    )
    assert isinstance(items[0], Topology)
    assert len(items[0].links) == 1


def test_gnmi_events_are_read_by_their_own_times(tmp_path: Path, context: Context) -> None:
    """Two gnmic events of one interface are two ticks."""
    event = (
        '[{{"name":"sub","timestamp":{time},"tags":{{"interface_name":"Ethernet1",'
        '"source":"leaf1:6030"}},'
        '"values":{{"/interfaces/interface/state/counters/out-octets":"{value}"}}}}]\n'
    )
    (tmp_path / "telemetry").write_text(
        event.format(time=1769860800_000_000_000, value=5)
        + event.format(time=1769860810_000_000_000, value=9)
    )
    items = list(open_source([tmp_path], report=context.report).items())
    assert totals(items, "tx_bytes") == [5, 9]
    assert [item.interval_s for item in items if isinstance(item, Tick)] == [10.0, 10.0]


def test_a_recording_replays_exactly_and_keeps_its_name(tmp_path: Path, context: Context) -> None:
    """Replay of a replayed dump's recording is the same stream under the same fabric."""
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "c.csv").write_text(counters(4))
    (tmp_path / "dump" / "topology.json").write_text(TOPOLOGY)
    source = open_source([tmp_path / "dump"], report=context.report, fabric="lab")
    writer = Writer(tmp_path / "rec", source.fabric, context.report)
    first = list(source.items())
    for item in first:
        writer.write(item)
    writer.close()
    again = open_source([tmp_path / "rec"], report=context.report)
    assert again.fabric == "lab"
    second = list(again.items())
    assert [type(item) for item in second] == [type(item) for item in first]
    for one, other in zip(first, second, strict=True):
        if isinstance(one, ReadingBatch) and isinstance(other, ReadingBatch):
            assert np.array_equal(one.values, other.values)
            assert one.columns == other.columns
        else:
            assert one == other
    with pytest.raises(FormatError, match="cannot be mixed"):
        open_source([tmp_path], report=context.report)


def test_the_callers_intent_wins(tmp_path: Path, context: Context) -> None:
    """An intent given from outside replaces what files say and what is learned."""
    (tmp_path / "c.csv").write_text(HEADER + "1,s,1,4,rx_pfc_frames,5\n2,s,1,4,rx_pfc_frames,5\n")
    learned = list(open_source([tmp_path], report=context.report).items())
    assert Topology(intent=Intent((4,))) in learned
    said = Intent((3,), Ecn.OFF)
    given = list(open_source([tmp_path], report=context.report, intent=said).items())
    assert [item.intent for item in given if isinstance(item, Topology)] == [said]


def test_a_given_topology_wins_over_what_files_tell_on_the_way(
    tmp_path: Path, context: Context
) -> None:
    """LLDP in a gNMI file takes every device for a switch; the topology beside it knows better."""
    (tmp_path / "topology.json").write_text(TOPOLOGY)
    lldp = "/lldp/interfaces/interface/neighbors/neighbor/state"
    text = "".join(
        f'[{{"timestamp":1769860800000000000,"tags":{{"interface_name":"{port}",'
        f'"neighbor_id":"1","source":"{device}"}},"values":{{"{lldp}/system-name":"{far}",'
        f'"{lldp}/port-id":"{far_port}"}}}}]\n'
        for device, port, far, far_port in (("h", "e", "s", "1"), ("s", "1", "h", "e"))
    )
    counted = (
        '[{"timestamp":1769860800000000000,"tags":{"interface_name":"1","source":"s"},'
        '"values":{"/interfaces/interface/state/counters/out-octets":"5"}}]\n'
    )
    (tmp_path / "t.json").write_text(text + counted)
    shapes = [
        item
        for item in open_source([tmp_path], report=context.report).items()
        if isinstance(item, Topology)
    ]
    assert shapes
    for shape in shapes:
        assert {node.name: node.kind for node in shape.nodes} == {"h": "host", "s": "switch"}
        assert [link.speed_bps for link in shape.links] == [1e11]


def test_a_state_sent_on_change_holds_until_it_changes(tmp_path: Path, context: Context) -> None:
    """Counters come in every poll, the link's state twice: each tick knows it."""
    state = "/interfaces/interface/state/oper-status"
    octets = "/interfaces/interface/state/counters/out-octets"
    lines = []
    for i in range(6):
        values = [f'"{octets}":"{i}"']
        if i in {0, 3}:
            values.append(f'"{state}":"{"UP" if i == 0 else "DOWN"}"')
        lines.append(
            f'[{{"timestamp":{(1769860800 + i) * 10**9},"tags":{{"interface_name":"1",'
            f'"source":"s"}},"values":{{{",".join(values)}}}}}]\n'
        )
    (tmp_path / "t.json").write_text("".join(lines))
    seen = [
        item.gauges[0, 0]
        for item in open_source([tmp_path], report=context.report).items()
        if isinstance(item, ReadingBatch)
    ]
    assert seen == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def test_a_folder_of_dumps_asks_which(tmp_path: Path, context: Context) -> None:
    """Two dumps side by side are not mixed into one fabric."""
    for name in ("monday", "tuesday"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "counters.csv").write_text(counters(3))
        (tmp_path / name / "topology.json").write_text(TOPOLOGY)
    with pytest.raises(FormatError, match="several dumps: monday, tuesday; name one"):
        open_source([tmp_path], report=context.report)


def test_a_topology_and_an_intent_given_beside_a_recording_win(
    tmp_path: Path, context: Context
) -> None:
    """A recording made without a topology is judged under the one that lies beside it."""
    writer = Writer(tmp_path / "r.arrows", "lab", context.report)
    recorded = Topology((Node("s", "switch"), Node("x", "host")), intent=Intent((1,)))
    for item in (recorded, Tick(1, 1.0)):
        writer.write(item)
    writer.close()
    (tmp_path / "plan.json").write_text(TOPOLOGY)
    said = Intent((3,), Ecn.OFF)
    source = open_source([tmp_path], report=context.report, intent=said)
    first, second, tick = source.items()
    assert isinstance(first, Topology)
    assert isinstance(second, Topology)
    assert {node.name for node in first.nodes} == {"h", "s"}
    assert {node.name for node in second.nodes} == {"h", "s", "x"}
    assert len(second.links) == 1
    assert first.intent == second.intent == said
    assert tick == Tick(1, 1.0)
    assert source.fabric == "lab"
