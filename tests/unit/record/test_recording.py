"""record: a recording gives back what was written, whatever happened to its file."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from support.selfmon import events
from support.streams import same, streams

from fabricmon.errors import FormatError
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Node, Topology
from fabricmon.record import Recording, Writer
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.stream import Item

SECOND = 1_000_000_000
PORTS = PortSet(("sw", "sw"), ("1", "2"))
COLUMNS = (Column(BY_ID["rx_bytes"]),)


def batch(value: int, time_ns: int) -> ReadingBatch:
    """Two ports, one counter."""
    values = np.full((1, 2), value, np.uint64)
    return ReadingBatch(
        "sw", PORTS, COLUMNS, values, np.zeros((1, 2), np.uint8), np.full(2, time_ns)
    )


def ticks(n: int, start: int = 0) -> list[Item]:
    """`n` ticks of one second with a batch each."""
    return [
        item
        for i in range(start, start + n)
        for item in (batch(i, i * SECOND), Tick(i * SECOND, 1.0))
    ]


def write(path: Path, items: list[Item], context: Context, **options: float) -> None:
    """Record `items`."""
    writer = Writer(path, "lab", context.report, **options)  # type: ignore[arg-type]
    for item in items:
        writer.write(item)
    writer.close()


def read(path: Path, context: Context) -> list[Item]:
    """Everything that is in a recording."""
    return list(Recording([path], context.report).items())


@given(streams)
@settings(max_examples=60)
def test_any_stream_comes_back_to_the_byte(items: list[Item]) -> None:
    """Readings, columns with all their attributes, topologies, failures and ticks survive."""
    report = Reporter(ManualClock())
    with tempfile.TemporaryDirectory() as folder:
        for path in (Path(folder, "one.arrows"), Path(folder, "many")):
            writer = Writer(path, "lab", report, rotate_s=1e6)
            for item in items:
                writer.write(item)
            writer.close()
            if not items:
                assert not path.exists()
                continue
            back = list(Recording([path], report).items())
            assert len(back) == len(items)
            assert all(map(same, items, back))


def test_ports_are_the_same_object_in_every_tick(tmp_path: Path, context: Context) -> None:
    """Replay keeps the identity of port sets, by which the pipeline caches rows."""
    write(tmp_path / "r.arrows", ticks(3), context)
    sets = [
        item.ports
        for item in read(tmp_path / "r.arrows", context)
        if isinstance(item, ReadingBatch)
    ]
    assert len(sets) == 3
    assert sets[0] is sets[1] is sets[2]


def test_the_fabric_is_named_in_the_recording(tmp_path: Path, context: Context) -> None:
    """Incident ids hash the fabric's name, so a replay must know it."""
    write(tmp_path / "r.arrows", ticks(1), context)
    assert Recording([tmp_path / "r.arrows"], context.report).fabric == "lab"
    assert Recording([tmp_path / "r.arrows"], context.report, fabric="x").fabric == "x"


def test_a_folder_of_two_fabrics_asks_which(tmp_path: Path, context: Context) -> None:
    """Two fabrics recorded into one folder are not mixed."""
    for name in ("lab", "lab-b"):
        writer = Writer(tmp_path, name, context.report)
        for item in ticks(2):
            writer.write(item)
        writer.close()
    with pytest.raises(FormatError, match="several fabrics: lab, lab-b"):
        Recording([tmp_path], context.report)
    assert len(list(Recording([tmp_path], context.report, fabric="lab-b").items())) == 4


def test_a_torn_tail_costs_only_the_last_tick(tmp_path: Path, context: Context) -> None:
    """Cut anywhere, a file reads up to its last whole tick, and the loss is told."""
    path = tmp_path / "r.arrows"
    write(path, ticks(6), context)
    whole = path.read_bytes()
    lengths = set()
    for cut in range(len(whole) * 2 // 5, len(whole) - 8, 97):
        path.write_bytes(whole[:cut])
        back = read(path, context)
        assert all(map(same, ticks(6), back))
        assert len(back) % 2 == 0
        lengths.add(len(back))
    assert len(lengths) >= 3
    assert events(context, "record_skipped") > 0


def test_garbled_bytes_never_raise_and_never_invent(tmp_path: Path, context: Context) -> None:
    """A flipped byte gives the ticks before it, or one clear error."""
    path = tmp_path / "r.arrows"
    write(path, ticks(4), context)
    whole = path.read_bytes()
    for place in range(0, len(whole), 61):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            back = read(path, context)
        except FormatError:
            continue
        assert len(back) <= 8


def test_files_rotate_and_read_as_one(tmp_path: Path, context: Context) -> None:
    """Files of ten ticks each hold the stream once, the topology included; each stands alone."""
    topology = Topology((Node("sw", "switch"),))
    items: list[Item] = [topology, *ticks(35)]
    write(tmp_path / "d", items, context, rotate_s=10)
    files = sorted((tmp_path / "d").iterdir())
    assert len(files) == 4
    back = read(tmp_path / "d", context)
    assert len(back) == len(items)
    assert all(map(same, items, back))
    third = read(files[2], context)
    assert third[0] == topology
    assert len(third) == 21


def test_old_files_go_beyond_the_size_kept(tmp_path: Path, context: Context) -> None:
    """A folder stays near its limit; the newest file is never removed."""
    write(tmp_path / "d", ticks(60), context, rotate_s=10, keep_bytes=10_000)
    files = list((tmp_path / "d").iterdir())
    assert 1 <= len(files) < 6
    back = read(tmp_path / "d", context)
    assert same(back[-1], ticks(60)[-1])


class FullDisk:
    """An Arrow stream onto a disk that is full."""

    def write_batch(self, _batch: object) -> None:
        """Fail as the kernel does."""
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_ticks_and_is_told(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write is reported, what was whole stays readable, and recording goes on after it."""
    writer = Writer(tmp_path / "d", "lab", context.report)
    for item in ticks(3):
        writer.write(item)
    monkeypatch.setattr(writer, "_stream", FullDisk())
    for item in ticks(1, 3):
        writer.write(item)
    for item in ticks(2, 4):
        writer.write(item)
    writer.close()
    back = read(tmp_path / "d", context)
    assert [i.time_ns // SECOND for i in back if isinstance(i, Tick)] == [0, 1, 2, 4, 5]
    assert events(context, "recording_failed") == 1


def test_what_is_no_recording_is_one_clear_error(tmp_path: Path, context: Context) -> None:
    """A text file, an empty folder and an empty file are refused by name."""
    (tmp_path / "a.arrows").write_text("hello")
    with pytest.raises(FormatError, match=r"a\.arrows"):
        read(tmp_path / "a.arrows", context)
    (tmp_path / "d").mkdir()
    with pytest.raises(FormatError, match="no recording"):
        read(tmp_path / "d", context)
