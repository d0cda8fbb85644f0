"""record/readers: files of devices, hosts and tools as streams."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest
from support.selfmon import events

from fabricmon.errors import FormatError
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import PortId, Topology
from fabricmon.record import files, open_source
from fabricmon.record.files import time_in_name

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.stream import Item

ETHTOOL = "NIC statistics:\n     rx_bytes_phy: {}\n     rx_prio3_pause: 7\n"


def values(items: list[Item]) -> dict[tuple[str, str, str], list[int]]:
    """{(device, port, counter): values in order}, in catalogue units."""
    out: dict[tuple[str, str, str], list[int]] = {}
    for item in items:
        if not isinstance(item, ReadingBatch):
            continue
        for k, column in enumerate(item.columns):
            for n, name in enumerate(zip(item.ports.device, item.ports.port, strict=True)):
                if item.state[k, n] == State.OK:
                    value = int(item.values[k, n]) * column.scale
                    out.setdefault((*name, column.counter.id), []).append(value)
    return out


def stream(path: Path, context: Context) -> list[Item]:
    """Everything in a folder."""
    return list(open_source([path], report=context.report).items())


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("perfquery-20260131T120000Z.txt", 1769860800_000_000_000),
        ("2026-01-31_12-00-00.log", 1769860800_000_000_000),
        ("20260131-1200.txt", 1769860800_000_000_000),
        ("dump_1769860800.txt", 1769860800_000_000_000),
        ("1769860800250.json", 1769860800_250_000_000),
        ("1769860800250000000.txt", 1769860800_250_000_000),
        ("leaf1.txt", None),
        ("20261399T250000Z.txt", None),
    ],
)
def test_times_in_names(name: str, moment: int | None) -> None:
    """Dates and epoch numbers of every unit are times; what is no date is none."""
    assert time_in_name(name) == moment


def test_ethtool_texts_of_two_hosts_are_a_time_series(tmp_path: Path, context: Context) -> None:
    """Host and interface come from the file's name, the time from the folder's."""
    for i in range(3):
        folder = tmp_path / f"20260131T12000{i}Z"
        folder.mkdir()
        for host in ("gpu1", "gpu2"):
            (folder / f"{host}_eth2.txt").write_text(ETHTOOL.format(i * 100))
    items = stream(tmp_path, context)
    assert values(items)["gpu1", "eth2", "rx_bytes"] == [0, 100, 200]
    assert values(items)["gpu2", "eth2", "rx_pfc_frames"] == [7, 7, 7]
    assert [item.interval_s for item in items if isinstance(item, Tick)] == [1.0] * 3
    assert events(context, "record_skipped") == 0


def test_sysfs_trees_are_read_from_folders_and_archives(tmp_path: Path, context: Context) -> None:
    """A tree per host and time, the second packed as .tar.gz, make one series of the port."""
    tree = {
        "counters/port_xmit_data": "{}",
        "counters/port_xmit_wait": "3",
        "state": "4: ACTIVE",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
    }
    below = "sys/class/infiniband/mlx5_0/ports/1"
    folder = tmp_path / "20260131T120000Z" / "gpu1"
    for name, text in tree.items():
        path = folder / below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(10) + "\n")
    (folder / "sys/class/infiniband/mlx5_0/board_id").write_text("MT_0000000838\n")
    (tmp_path / "20260131T120010Z").mkdir()
    archive = tmp_path / "20260131T120010Z" / "gpu1.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for name, text in tree.items():
            body = (text.format(30) + "\n").encode()
            member = tarfile.TarInfo(f"{below}/{name}")
            member.size = len(body)
            packed.addfile(member, io.BytesIO(body))
    items = stream(tmp_path, context)
    assert values(items)["gpu1", "mlx5_0/1", "tx_bytes"] == [40, 120]
    assert values(items)["gpu1", "mlx5_0/1", "tx_wait_ticks"] == [3, 3]
    assert events(context, "record_skipped") == 0


def test_an_archive_never_reaches_the_disk_and_has_a_limit(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members with paths that climb are only names; one that is too large is refused."""
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as packed:
        for name in ("../../gpu1_eth2.txt", "/etc/gpu1_eth2.txt"):
            body = ETHTOOL.format(5).encode()
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(body), 1769860800
            packed.addfile(member, io.BytesIO(body))
    assert values(stream(archive, context))["gpu1", "eth2", "rx_bytes"] == [5]
    monkeypatch.setattr(files, "_MAX_ARCHIVE", 10)
    with pytest.raises(FormatError, match="holds more than"):
        stream(archive, context)


def test_snmp_walks_choose_their_mapping_by_what_the_agent_says(
    tmp_path: Path, context: Context
) -> None:
    """The same agent walked twice, once as snmprec and once as text, is one series."""
    rows = [
        ("1.3.6.1.2.1.1.1.0", "4", "STRING", "Some switch"),
        ("1.3.6.1.2.1.1.5.0", "4", "STRING", "leaf1"),
        ("1.3.6.1.2.1.2.2.1.2.7", "4", "STRING", "Ethernet1"),
        ("1.3.6.1.2.1.2.2.1.3.7", "2", "INTEGER", "6"),
        ("1.3.6.1.2.1.31.1.1.1.1.7", "4", "STRING", "Ethernet1"),
    ]
    octets = "1.3.6.1.2.1.31.1.1.1.6.7"
    recorded = "".join(f"{o}|{tag}|{value}\n" for o, tag, _, value in rows)
    walked = "".join(f".{o} = {kind}: {value}\n" for o, _, kind, value in rows)
    (tmp_path / "x-20260131T120000Z.snmprec").write_text(f"{recorded}{octets}|70|1000\nbroken\n")
    (tmp_path / "x-20260131T120030Z.walk").write_text(f"{walked}.{octets} = Counter64: 4000\n")
    (tmp_path / "y-20260131T120030Z.snmprec").write_text("1.3.6.1.2.1.1.5.0|4|nameless\n")
    items = stream(tmp_path, context)
    assert values(items)["leaf1", "Ethernet1", "rx_bytes"] == [1000, 4000]
    assert [item.interval_s for item in items if isinstance(item, Tick)] == [30.0, 30.0]
    assert events(context, "record_skipped") == 2  # the broken line, and the walk without ports


def test_a_plan_of_cables_stands_beside_counters(tmp_path: Path, context: Context) -> None:
    """PTM's topology.dot gives the cables of a dump that has none."""
    (tmp_path / "topology.dot").write_text('graph G {\n  "leaf1":"swp1" -- "spine1":"swp3";\n}\n')
    (tmp_path / "c.csv").write_text(
        "time,device,port,queue,counter,value\n1,leaf1,swp1,,rx_bytes,5\n"
    )
    shape = stream(tmp_path, context)[0]
    assert isinstance(shape, Topology)
    assert {shape.links[0].a, shape.links[0].b} == {
        PortId("leaf1", "swp1"),
        PortId("spine1", "swp3"),
    }


def test_files_that_count_nothing_are_told(tmp_path: Path, context: Context) -> None:
    """A stream without a tick says why it is empty."""
    (tmp_path / "gpu1_eth2.txt").write_text("NIC statistics:\n     rx_unheard_of: 5\n")
    assert stream(tmp_path, context) == []
    assert events(context, "record_skipped") == 1


def test_a_device_with_a_wrong_clock_is_shifted_and_told_once(
    tmp_path: Path, context: Context
) -> None:
    """Of four devices one is two hours ahead: it is in every tick, at the time of the others."""
    event = (
        '[{{"timestamp":{time},"tags":{{"interface_name":"Ethernet1","source":"leaf{device}"}},'
        '"values":{{"/interfaces/interface/state/counters/out-octets":"{value}"}}}}]\n'
    )
    ahead = {3: 7200}
    text = "".join(
        event.format(time=(1769860800 + i * 10 + ahead.get(d, 0)) * 10**9, device=d, value=i)
        for i in range(30)
        for d in range(4)
    )
    (tmp_path / "telemetry.json").write_text(text)
    items = stream(tmp_path, context)
    ticks = [item for item in items if isinstance(item, Tick)]
    assert len(ticks) == 30
    assert ticks[-1].time_ns == (1769860800 + 290) * 10**9
    assert values(items)["leaf3", "Ethernet1", "tx_bytes"] == list(range(30))
    assert events(context, "record_skipped") == 1


def test_a_table_sorted_by_device_is_a_stream_by_time(tmp_path: Path, context: Context) -> None:
    """Rows of the second device come after all of the first, far beyond one block."""
    rows = [
        f"{i + 1}000000000,{device},1,,rx_bytes,{i}\n" for device in "ab" for i in range(300_000)
    ]
    (tmp_path / "c.csv").write_text("time,device,port,queue,counter,value\n" + "".join(rows))
    source = open_source([tmp_path], report=context.report)
    batches = 0
    for item in source.items():
        if isinstance(item, Tick):
            batches += 1
            if batches == 100:
                break
        elif isinstance(item, ReadingBatch):
            assert (item.state == State.OK).all()
            assert item.ports.device == ("a", "b")


def test_numbered_files_that_lost_their_times_are_intervals_apart(
    tmp_path: Path, context: Context
) -> None:
    """A checked-out series has one time for all: numbers give the order, and it is told."""
    for host in ("gpu1", "gpu2"):
        for i in range(12):
            (tmp_path / f"{host}_eth2.{i}.txt").write_text(ETHTOOL.format(i))
    items = stream(tmp_path, context)
    ticks = [item for item in items if isinstance(item, Tick)]
    assert len(ticks) == 12
    assert {tick.interval_s for tick in ticks} == {10.0}
    assert values(items)["gpu2", "eth2", "rx_bytes"] == list(range(12))
    assert events(context, "fallback") == 1
