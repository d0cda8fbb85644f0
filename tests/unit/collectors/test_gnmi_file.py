"""The collector of gNMI-style files, on real files that grow, rotate and break."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.api import Context, Target
from fabricmon.collectors.gnmi import GnmiFileCollector, GnmiFileConfig
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.record.source import open_source
from fabricmon.testing import check_collector

if TYPE_CHECKING:
    from fabricmon.model.readings import Poll
    from fabricmon.testing import ManualClock

T0 = 1_764_460_800_000_000_000
S = 1_000_000_000
IN = "/interfaces/interface/state/counters/in-octets"
OUT = "/interfaces/interface/state/counters/out-octets"
PFC = "/interfaces/interface/ethernet/pfc/priorities/priority/state/in-frames"


def event(values: dict[str, object], time_ns: int = T0, **tags: str) -> dict[str, object]:
    """One event of leaf1, port Ethernet1."""
    tags = {"source": "leaf1:6030", "interface_name": "Ethernet1", **tags}
    return {"name": "ports", "timestamp": time_ns, "tags": tags, "values": values}


def line(*events: dict[str, object]) -> str:
    """A record as gnmic writes it."""
    return json.dumps(events, separators=(",", ":")) + "\n"


def collector(path: Path, context: Context, **config: object) -> tuple[GnmiFileCollector, Target]:
    """A collector with one target."""
    target = Target("f", "t", str(path))
    return GnmiFileCollector(GnmiFileConfig(**config), [target], context), target


def value(
    batch: ReadingBatch, counter: str, port: str = "Ethernet1", queue: int = -1
) -> int | None:
    """One value of a batch; None where it is missing."""
    k = next(i for i, c in enumerate(batch.columns) if (c.counter.id, c.queue) == (counter, queue))
    n = batch.ports.port.index(port)
    return int(batch.values[k, n]) if batch.state[k, n] == State.OK else None


def series(poll: Poll, counter: str = "rx_bytes", **at: object) -> list[int | None]:
    """One value through all batches of a poll."""
    return [value(batch, counter, **at) for batch in poll.batches]


def descriptors() -> int:
    """How many this process holds open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_keeps_the_promises_of_a_collector(tmp_path: Path, context: Context) -> None:
    """Lifecycle, config and cancellation are as every collector promises."""
    (tmp_path / "a.json").write_text(line(event({IN: 1})))
    target = Target("f", "t", str(tmp_path))
    make = lambda: GnmiFileCollector(GnmiFileConfig(), [target], context)  # noqa: E731
    await check_collector(make, target)


async def test_a_growing_file_gives_what_is_new(tmp_path: Path, context: Context) -> None:
    """Each poll hands over the records since the last one; nothing new is an empty poll."""
    path = tmp_path / "leaf1.json"
    path.write_text(line(event({IN: 1, OUT: "18446744073709551615"})))
    source, target = collector(path, context)
    first = await source.poll(target)
    assert series(first) == [1]
    assert series(first, "tx_bytes") == [2**64 - 1]
    assert first.batches[0].ports.device == ("leaf1",)
    assert (await source.poll(target)).batches == ()
    with path.open("a") as file:
        file.write(line(event({IN: 5}, T0 + 10 * S)) + line(event({IN: 9}, T0 + 20 * S)))
    second = await source.poll(target)
    assert series(second) == [5, 9]
    assert series(second, "tx_bytes") == [None, None]
    assert [int(b.time_ns[0]) for b in second.batches] == [T0 + 10 * S, T0 + 20 * S]
    assert second.batches[0].ports is first.batches[0].ports
    await source.stop()


async def test_invented_ports_are_forgotten(tmp_path: Path, context: Context) -> None:
    """A file that names new ports on and on: old ones are let go, and so is what lines taught."""
    path = tmp_path / "leaf1.json"
    path.touch()
    source, target = collector(path, context)
    most = 0
    for poll in range(1, 300):
        events = [
            event({IN: poll}, T0 + poll * S, interface_name=f"Ethernet{poll * 10 + i}/{poll}")
            for i in range(10)
        ]
        with path.open("a") as file:
            file.write("".join(map(line, [*events, event({IN: poll}, T0 + poll * S)])))
        got = await source.poll(target)
        assert series(got) == [poll]
        most = max(most, len(got.batches[0].ports))
    assert most < 2700
    assert len(source._sources["t"]._forms) < 2700
    await source.stop()


async def test_more_series_than_a_target_may_have(tmp_path: Path, context: Context) -> None:
    """What is beyond the limit is refused and counted; what was there before goes on."""
    path = tmp_path / "leaf1.json"
    path.write_text(line(*(event({IN: 1}, interface_name=f"Ethernet{i}") for i in range(1, 9))))
    source, target = collector(path, context, series=5)
    poll = await source.poll(target)
    assert poll.lost == {Reason.LIMIT: 3}
    assert len(poll.batches[0].ports) == 5
    assert series(poll) == [1]
    await source.stop()


async def test_a_torn_tail_waits_for_its_rest(tmp_path: Path, context: Context) -> None:
    """Half a record is neither read nor reported until the other half is there."""
    path = tmp_path / "x.json"
    whole = line(event({IN: 7}))
    path.write_text(line(event({IN: 3}, T0 - S)) + whole[:60])
    source, target = collector(path, context)
    poll = await source.poll(target)
    assert series(poll) == [3]
    assert not poll.lost
    with path.open("a") as file:
        file.write(whole[60:])
    assert series(await source.poll(target)) == [7]
    await source.stop()


async def test_a_record_without_a_line_end_counts_once(tmp_path: Path, context: Context) -> None:
    """A finished file need not end with a line end, and one that comes later adds nothing."""
    path = tmp_path / "x.json"
    path.write_text(line(event({IN: 3})).rstrip())
    source, target = collector(path, context)
    assert series(await source.poll(target)) == [3]
    with path.open("a") as file:
        file.write("\n" + line(event({IN: 4}, T0 + S)))
    assert series(await source.poll(target)) == [4]
    await source.stop()


@pytest.mark.parametrize("how", ["rename", "truncate", "replace"])
async def test_rotation_loses_nothing(how: str, tmp_path: Path, context: Context) -> None:
    """Renamed, truncated in place, or replaced: what was written before and after is read once."""
    path = tmp_path / "x.json"
    path.write_text(line(event({IN: 1})) * 3)
    source, target = collector(path, context)
    assert series(await source.poll(target)) == [1]
    if how == "truncate":
        path.write_text(line(event({IN: 3}, T0 + 2 * S)))
        assert series(await source.poll(target)) == [3]
        await source.stop()
        return
    with path.open("a") as file:
        file.write(line(event({IN: 2}, T0 + S)))
    if how == "rename":
        path.rename(tmp_path / "x.json.1")
        path.write_text(line(event({IN: 3}, T0 + 2 * S)))
    else:
        fresh = tmp_path / "new"
        fresh.write_text(line(event({IN: 3}, T0 + 2 * S)))
        os.replace(fresh, path)  # noqa: PTH105 - the call under test
    assert series(await source.poll(target)) == [2, 3]
    await source.stop()


async def test_a_directory_and_a_glob_are_many_files(tmp_path: Path, context: Context) -> None:
    """All files count, compressed ones as well; devices come from the records."""
    (tmp_path / "a.json").write_text(line(event({IN: 2}, T0 + S)))
    packed = gzip.compress(line(event({IN: 1}, source="leaf2:6030")).encode())
    (tmp_path / "b.json.gz").write_bytes(packed)
    for address in (tmp_path, tmp_path / "*.json*"):
        source, target = collector(address, context)
        poll = await source.poll(target)
        (batch,) = poll.batches
        times = dict(zip(batch.ports.device, batch.time_ns.tolist(), strict=True))
        assert times == {"leaf1": T0 + S, "leaf2": T0}
        await source.stop()


async def test_a_bad_record_costs_only_itself(tmp_path: Path, context: Context) -> None:
    """Broken records are counted by reason and named with file and line; the rest is read."""
    told: list[dict[str, object]] = []
    context.report.emit = lambda *args, **fields: told.append({"args": args, **fields})  # type: ignore[method-assign]
    path = tmp_path / "x.json"
    good = [line(event({IN: n}, T0 + n * S)) for n in range(3)]
    path.write_text(good[0] + "[,{]\n" + good[1] + good[2][:50] + "\n" + good[2])
    source, target = collector(path, context)
    poll = await source.poll(target)
    assert series(poll) == [0, 1, 2]
    assert poll.lost == {Reason.MALFORMED: 2}
    assert [fields["line"] for fields in told if "line" in fields] == [2, 4]
    await source.stop()


async def test_missing_and_silent_files_say_so(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """No file is `not_found`; a file that stopped growing is `no_data` after the silence."""
    path = tmp_path / "x.json"
    source, target = collector(path, context, silence="30s")
    with pytest.raises(PollError, match="no file") as caught:
        await source.poll(target)
    assert caught.value.reason is Reason.NOT_FOUND
    path.write_text(line(event({IN: 1})))
    assert series(await source.poll(target)) == [1]
    await clock.advance(31)
    with pytest.raises(PollError, match="no news") as caught:
        await source.poll(target)
    assert caught.value.reason is Reason.NO_DATA
    await source.stop()


async def test_queues_come_from_keys(tmp_path: Path, context: Context) -> None:
    """The priority in an event's tags is the queue of its counter; both shapes agree."""
    events = [event({PFC: q * 10}, priority_index=str(q)) for q in (3, 4)]
    message = {
        "source": "leaf1:6030",
        "timestamp": T0 + 10 * S,
        "prefix": "interfaces/interface[name=Ethernet1]/ethernet/pfc/priorities",
        "updates": [
            {"Path": f"priority[index={q}]/state/in-frames", "values": {"x": str(q * 11)}}
            for q in (3, 4)
        ],
    }
    (tmp_path / "x.json").write_text(line(*events) + json.dumps(message) + "\n")
    source, target = collector(tmp_path / "x.json", context)
    poll = await source.poll(target)
    assert series(poll, "rx_pfc_frames", queue=3) == [30, 33]
    assert series(poll, "rx_pfc_frames", queue=4) == [40, 44]
    await source.stop()


async def test_a_long_file_begins_at_its_backlog(tmp_path: Path, context: Context) -> None:
    """Of a file longer than the backlog only the end is read, and a poll has its own limit."""
    path = tmp_path / "x.json"
    lines = [line(event({IN: n}, T0 + n * S)) for n in range(2000)]
    path.write_text("".join(lines))
    source, target = collector(path, context, backlog=100_000, max_bytes=65536)
    seen: list[int | None] = []
    for _ in range(3):
        seen += series(await source.poll(target))
    assert seen == list(range(2000 - len(seen), 2000))
    assert 100_000 // len(lines[-1]) - 1 <= len(seen) <= 100_000 // len(lines[-1]) + 1
    await source.stop()


async def test_gauges_and_neighbours(tmp_path: Path, context: Context) -> None:
    """States and speeds are levels; LLDP leaves become cables."""
    state = "/interfaces/interface/state/oper-status"
    speed = "/interfaces/interface/ethernet/state/port-speed"
    lldp = "/lldp/interfaces/interface/neighbors/neighbor/state/"
    records = line(
        event({state: "UP", speed: "openconfig-if-ethernet:SPEED_400GB", IN: "max"}),
        event({lldp + "system-name": "spine1"}, neighbor_id="n1"),
        event({lldp + "port-id": "Ethernet9"}, neighbor_id="n1"),
    )
    (tmp_path / "x.json").write_text(records)
    source, target = collector(tmp_path / "x.json", context)
    poll = await source.poll(target)
    batch = poll.batches[0]
    levels = dict(zip([c.counter.id for c in batch.gauge_columns], batch.gauges[:, 0], strict=True))
    assert levels == {"oper_up": 1.0, "speed_bps": 400e9}
    assert np.all(batch.state == State.MISSING)
    topology = await source.discover(target)
    assert topology is not None
    assert {str(end) for link in topology.links for end in (link.a, link.b)} == {
        "leaf1[Ethernet1]",
        "spine1[Ethernet9]",
    }
    await source.stop()


async def test_sonic_dumps_are_a_time_series(tmp_path: Path, context: Context) -> None:
    """One file a poll and ASIC: maps give names, file names device and time; OIDs may clash."""
    for when, count in ((1_764_460_800, 5), (1_764_460_810, 9)):
        for asic, port in (("asic0", "Ethernet0"), ("asic1", "Ethernet8")):
            dump = {
                "COUNTERS_PORT_NAME_MAP": {port: "oid:0x1"},
                "COUNTERS_QUEUE_NAME_MAP": {f"{port}:3": "oid:0x2"},
                "COUNTERS:oid:0x1": {
                    "SAI_PORT_STAT_IF_IN_OCTETS": str(count),
                    "SAI_PORT_STAT_PFC_3_RX_PKTS": "7",
                },
                "COUNTERS:oid:0x2": {"type": "hash", "value": {"SAI_QUEUE_STAT_BYTES": "N/A"}},
            }
            path = tmp_path / f"leaf1_counters_db_{asic}_{when}.json"
            path.write_text(json.dumps(dump, indent=2))
    source, target = collector(tmp_path, context)
    poll = await source.poll(target)
    assert series(poll, port="Ethernet0") == [5, 9]
    assert series(poll, port="Ethernet8") == [5, 9]
    assert series(poll, "rx_pfc_frames", port="Ethernet8", queue=3) == [7, 7]
    assert [int(b.time_ns[0]) for b in poll.batches] == [T0, T0 + 10 * S]
    assert set(poll.batches[0].ports.device) == {"leaf1"}
    await source.stop()


def sonic_dumps(folder: Path, device: str, maps: str) -> None:
    """Two polls of a device of two ASICs that use the same OIDs; name maps in files of their own.

    `maps` is what the map files are called, with the ASIC left open.
    """
    for asic, port in (("asic0", "Ethernet0"), ("asic1", "Ethernet8")):
        names = {
            "COUNTERS_PORT_NAME_MAP": {port: "oid:0x1"},
            "COUNTERS_QUEUE_NAME_MAP": {f"{port}:3": "oid:0x2"},
        }
        (folder / maps.format(asic)).write_text(json.dumps(names, indent=1))
        for when, count in ((1_764_460_800, 5), (1_764_460_810, 9)):
            dump = {
                "COUNTERS:oid:0x1": {"SAI_PORT_STAT_IF_IN_OCTETS": str(count)},
                "COUNTERS:oid:0x2": {"SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": str(count + 1)},
            }
            name = f"{device}_counters_db_{asic}_{when}.json"
            (folder / name).write_text(json.dumps(dump))


@pytest.mark.parametrize("maps", ["leaf1_name_maps_{}.json", "COUNTERS_NAME_MAPS.{}.json"])
async def test_sonic_names_from_files_of_their_own(
    maps: str, tmp_path: Path, context: Context
) -> None:
    """Maps beside the dumps name their OIDs, ASIC by ASIC, wherever they stand in the alphabet."""
    sonic_dumps(tmp_path, "leaf1", maps)
    source, target = collector(tmp_path, context)
    poll = await source.poll(target)
    for port in ("Ethernet0", "Ethernet8"):
        assert series(poll, port=port) == [5, 9]
        assert series(poll, "ecn_marked_packets", port=port, queue=3) == [6, 10]
    assert set(poll.batches[0].ports.device) == {"leaf1"}
    await source.stop()


@pytest.mark.parametrize("maps", ["leaf1_name_maps_{}.json", "COUNTERS_NAME_MAPS.{}.json"])
def test_sonic_dumps_replay(maps: str, tmp_path: Path, context: Context) -> None:
    """The same folder, replayed: one time series a counter, in order of time."""
    sonic_dumps(tmp_path, "leaf1", maps)
    items = list(open_source([tmp_path], report=context.report).items())
    batches = [item for item in items if isinstance(item, ReadingBatch)]
    seen = {
        (batch.ports.port[n], int(batch.time_ns[n] // S)): int(batch.values[k, n])
        for batch in batches
        for k, column in enumerate(batch.columns)
        for n in range(len(batch.ports))
        if column.counter.id == "rx_bytes" and batch.state[k, n] == State.OK
    }
    assert {batch.ports.device[0] for batch in batches} == {"leaf1"}
    assert seen == {
        (port, T0 // S + later): count
        for port in ("Ethernet0", "Ethernet8")
        for later, count in ((0, 5), (10, 9))
    }


async def test_many_files_do_not_use_up_descriptors(tmp_path: Path, context: Context) -> None:
    """Hundreds of files are read with few of them open, and each is read once."""
    for n in range(300):
        (tmp_path / f"{n:03}.json").write_text(line(event({IN: n}, T0 + n * S)))
    source, target = collector(tmp_path, context)
    before = descriptors()
    assert series(await source.poll(target)) == list(range(300))
    assert descriptors() - before <= 140
    with (tmp_path / "299.json").open("a") as file:
        file.write(line(event({IN: 1000}, T0 + 1000 * S)))
    assert series(await source.poll(target)) == [1000]
    await source.stop()
