"""A folder that a cron job fills."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabricmon.api import Context, Target
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import State
from fabricmon.selfmon import Event
from fabricmon.testing import ManualClock, check_collector

NET = """\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb8
switchguid=0xb8(b8)
Switch	40 "S-00000000000000b8"		# "leaf-1" enhanced port 0 lid 4 lmc 0
[1]	"H-0000000000000c42"[1](c43) 		# "gpu1 mlx5_0" lid 31 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42
caguid=0xc42
Ca	1 "H-0000000000000c42"		# "gpu1 mlx5_0"
[1](c43) 	"S-00000000000000b8"[1]		# lid 31 lmc 0 "leaf-1" lid 4 4xHDR
"""


def counters(lid: int, port: int, wait: int) -> str:
    """One perfquery block."""
    return (
        f"# Port extended counters: Lid {lid} port {port} (CapMask: 0x5300 CapMask2: 0x0000002)\n"
        f"PortXmitData:....................100\nPortXmitWait:....................{wait}\n"
    )


def put(path: Path, text: str, clock: ManualClock) -> None:
    """Write a file whose time is the clock's."""
    path.write_text(text)
    os.utime(path, ns=(clock.now_ns(), clock.now_ns()))


def make(folder: Path, context: Context) -> tuple[InfinibandCollector, Target]:
    """A collector with the folder as its only target."""
    target = Target("pod", "dump", str(folder))
    return InfinibandCollector(InfinibandCollector.Config(), [target], context), target


async def test_counts_get_names_and_times_from_the_files(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """LIDs are resolved by the discovery beside them; the time is the file's."""
    put(tmp_path / "net.txt", NET, clock)
    put(tmp_path / "leaf.txt", counters(4, 1, 7), clock)
    put(tmp_path / "host.txt", counters(31, 1, 9), clock)
    collector, target = make(tmp_path, context)
    (batch,) = (await collector.poll(target)).batches
    names = list(zip(batch.ports.device, batch.ports.port, strict=True))
    assert sorted(names) == [("gpu1", "mlx5_0/1"), ("leaf-1", "1")]
    k = next(i for i, c in enumerate(batch.columns) if c.counter.id == "tx_wait_ticks")
    assert batch.values[k, names.index(("leaf-1", "1"))] == 7
    assert set(batch.time_ns.tolist()) == {clock.now_ns()}
    topology = await collector.discover(target)
    assert topology is not None
    assert len(topology.links) == 1


async def test_unchanged_files_are_the_same_reading_and_new_ones_the_next(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """While nothing is written the same batch comes again; then the ports keep their set."""
    put(tmp_path / "net.txt", NET, clock)
    put(tmp_path / "leaf.txt", counters(4, 1, 7), clock)
    collector, target = make(tmp_path, context)
    first = (await collector.poll(target)).batches
    assert (await collector.poll(target)).batches is first
    await clock.advance(60)
    put(tmp_path / "leaf.txt", counters(4, 1, 8), clock)
    (later,) = (await collector.poll(target)).batches
    assert later.ports is first[0].ports
    assert later.time_ns[0] - first[0].time_ns[0] == 60_000_000_000


async def test_a_lid_that_moved_follows_the_new_discovery(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """After a subnet manager restart the same port has another LID and the same name."""
    put(tmp_path / "net.txt", NET, clock)
    put(tmp_path / "leaf.txt", counters(4, 1, 7), clock)
    collector, target = make(tmp_path, context)
    await collector.poll(target)
    await clock.advance(60)
    put(tmp_path / "net.txt", NET.replace("lid 4 ", "lid 99 "), clock)
    put(tmp_path / "leaf.txt", counters(99, 1, 8), clock)
    (batch,) = (await collector.poll(target)).batches
    assert (batch.ports.device, batch.ports.port) == (("leaf-1",), ("1",))


async def test_foreign_and_garbled_files_cost_only_themselves(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """What is no tool output is reported by name; the rest is read."""
    put(tmp_path / "readme", "hello\n", clock)
    put(tmp_path / "leaf.txt", counters(4, 1, 7).replace("100", "1zz"), clock)
    collector, target = make(tmp_path, context)
    (batch,) = (await collector.poll(target)).batches
    assert batch.ports.device == ("lid 4",)
    assert {c.counter.id for c in batch.columns if State.OK in batch.state} == {"tx_wait_ticks"}
    skipped = context.report.metrics.events.labels(Event.RECORD_SKIPPED.label)
    assert skipped._value.get() == 2


@pytest.mark.parametrize(
    ("name", "age", "reason", "text"),
    [
        ("gone", 0.0, Reason.NOT_FOUND, "No such file"),
        (".", 0.0, Reason.NO_DATA, "holds no counters"),
        ("old", 3600.0, Reason.NO_DATA, "is 3600 s old"),
    ],
)
async def test_a_folder_without_news_says_why(
    name: str,
    age: float,
    reason: Reason,
    text: str,
    tmp_path: Path,
    context: Context,
    clock: ManualClock,
) -> None:
    """Missing, empty and stale folders are told apart."""
    if name == "old":
        (tmp_path / name).mkdir()
        put(tmp_path / name / "leaf.txt", counters(4, 1, 7), clock)
    await clock.advance(age)
    collector, target = make(tmp_path / name, context)
    with pytest.raises(PollError, match=text) as caught:
        await collector.poll(target)
    assert caught.value.reason is reason


async def test_the_collector_keeps_its_promises(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """Lifecycle, config and cancellation as every plug-in promises them."""
    put(tmp_path / "leaf.txt", counters(4, 1, 7), clock)
    _, target = make(tmp_path, context)
    await check_collector(lambda: make(tmp_path, context)[0], target)
