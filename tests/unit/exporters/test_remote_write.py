"""exporters/remote_write: what is put on the wire, and how it waits on disk."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import cramjam
import numpy as np
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from support.selfmon import events, metric
from support.snapshots import START_NS, make_frame, make_incident, make_snapshot, make_table

from fabricmon.settings import Secret
from fabricmon.testing import check_exporter
from fabricmon_exporters.remote_write import RemoteWriteConfig, RemoteWriteExporter, template, wire
from fabricmon_exporters.remote_write.queue import DiskQueue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fabricmon.api import Context

PORTS = [("leaf1", "Ethernet1"), ("leaf1", 'odd"port'), ("gpu1", "mlx5_0/1")]
STALE = struct.pack("<Q", 0x7FF0000000000002)


class Series(NamedTuple):
    """One decoded series."""

    labels: dict[str, str]
    value: float
    time_ms: int
    stale: bool


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and content of the fields of a protobuf message."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            octet = data[at]
            at += 1
            value |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                return value

    while at < len(data):
        key = number()
        match key & 7:
            case 0:
                yield key >> 3, number()
            case 1:
                yield key >> 3, data[at : at + 8]
                at += 8
            case _:
                size = number()
                yield key >> 3, data[at : at + size]
                at += size


def decode(body: bytes) -> list[Series]:
    """Every series of a write request; checks that labels are sorted."""
    out = []
    for kind, series in fields(body):
        assert kind == 1
        labels: dict[str, str] = {}
        value, time_ms = b"", 0
        for part, content in fields(series):
            if part == 1:
                pair = dict(fields(content))
                labels[pair[1].decode()] = pair[2].decode()
            else:
                sample = dict(fields(content))
                value, time_ms = sample[1], sample[2]
        assert list(labels) == sorted(labels)
        out.append(Series(labels, struct.unpack("<d", value)[0], time_ms, value == STALE))
    return out


class Receiver:
    """An HTTP server on loopback that answers as told."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[bytes] = []
        self.headers: list[Any] = []

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/write", self._take)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/write"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        status = self.answers.pop(0) if self.answers else 204
        if status < 300:
            self.bodies.append(bytes(cramjam.snappy.decompress_raw(await request.read())))
            self.headers.append(request.headers)
        return web.Response(status=status, text="no" if status >= 300 else None)

    async def wait(self, requests: int) -> None:
        """Until so many were taken."""
        for _ in range(500):
            if len(self.bodies) >= requests:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{len(self.bodies)} requests")


def config(tmp_path: Path, url: str = "http://127.0.0.1:1/", **more: Any) -> RemoteWriteConfig:
    """A config with its queue in a folder of the test."""
    return RemoteWriteConfig(url=url, path=tmp_path / "queue", **more)


def waiting(tmp_path: Path) -> list[Series]:
    """Every series in the queue on disk."""
    return [
        series
        for path in sorted((tmp_path / "queue").glob("*.snappy"))
        for series in decode(bytes(cramjam.snappy.decompress_raw(path.read_bytes())))
    ]


def published(tmp_path: Path, context: Context, *snapshots: Any, **more: Any) -> list[Series]:
    """What the snapshots put into the queue."""
    exporter = RemoteWriteExporter(config(tmp_path, **more), context)
    exporter._queue.open()
    for snapshot in snapshots:
        exporter.publish(snapshot)
    return waiting(tmp_path)


@given(st.integers(0, 2**63 - 1))
def test_varints_are_those_of_protobuf(number: int) -> None:
    """Seven bits a byte, lowest first, and no byte more than needed."""
    text = wire.varint(number)
    assert sum((octet & 127) << 7 * i for i, octet in enumerate(text)) == number
    assert all(octet > 127 for octet in text[:-1])
    assert text[-1] < 128
    assert len(text) == max(1, -(-number.bit_length() // 7))


def test_every_series_carries_its_value_time_and_sorted_labels(
    tmp_path: Path, context: Context
) -> None:
    """Port and queue counters, odd names and external labels on either side of `queue`."""
    snapshot = make_snapshot(make_table(PORTS), make_frame(3))
    labels = {"cluster": "c1", "zone": "z1"}
    found = published(tmp_path, context, snapshot, external_labels=labels)
    by_name: dict[str, list[Series]] = {}
    for series in found:
        assert series.labels["cluster"] == "c1"
        assert series.labels["zone"] == "z1"
        assert series.time_ms == START_NS // 1_000_000
        by_name.setdefault(series.labels["__name__"], []).append(series)
    sent = by_name["fabricmon_port_transmit_bytes_total"]
    k = [counter.id for counter in snapshot.frame.counters].index("tx_bytes")
    assert [s.value for s in sent] == snapshot.frame.total[k].tolist()
    assert [(s.labels["device"], s.labels["port"]) for s in sent] == PORTS
    pauses = by_name["fabricmon_queue_receive_pfc_frames_total"]
    assert {(s.labels["port"], s.labels["queue"]) for s in pauses} == {
        (port, queue) for _, port in PORTS for queue in ("0", "3")
    }
    info = by_name["fabricmon_port_info"]
    assert info[0].labels["speed_bps"] == "400000000000"
    assert "fabricmon_incidents_opened_total" in by_name


def test_a_series_that_vanishes_ends_with_a_stale_marker_once(
    tmp_path: Path, context: Context
) -> None:
    """Port 1 is absent from the second tick on: one marker, then nothing; then it is back."""
    table = make_table(PORTS)
    ticks = []
    for i in range(4):
        frame = make_frame(3, time_ns=START_NS + i * 10_000_000_000, step=i + 1)
        present = np.array([True, i in {0, 3}, True])
        ticks.append(make_snapshot(table, frame, tick=i, present=present))
    found = published(tmp_path, context, *ticks, collect=["fabricmon_port_receive_bytes_total"])
    own = [
        (series.time_ms - START_NS // 1_000_000, series.stale)
        for series in found
        if series.labels.get("port") == PORTS[1][1]
    ]
    assert own == [(0, False), (10_000, True), (30_000, False)]
    values = [s.value for s in found if s.labels.get("port") == "Ethernet1"]
    assert values == [1.0, 2.0, 3.0, 4.0]


def test_an_incident_that_closes_and_a_fabric_that_goes_end_their_series(
    tmp_path: Path, context: Context
) -> None:
    """Small families end with markers too; after `forget` every series has one."""
    table = make_table(PORTS)
    first = make_snapshot(table, make_frame(3), incidents=(make_incident(),))
    second = make_snapshot(table, make_frame(3, time_ns=START_NS + 10_000_000_000), tick=2)
    exporter = RemoteWriteExporter(config(tmp_path), context)
    exporter._queue.open()
    exporter.publish(first)
    before = len(waiting(tmp_path))
    exporter.publish(second)
    active = [
        series.stale
        for series in waiting(tmp_path)
        if series.labels["__name__"] == "fabricmon_incident_active"
    ]
    assert active == [False, True]
    alive = {
        tuple(series.labels.items()) for series in waiting(tmp_path)[before:] if not series.stale
    }
    before = len(waiting(tmp_path))
    exporter.forget(first.fabric)
    ended = waiting(tmp_path)[before:]
    assert all(series.stale for series in ended)
    assert {tuple(series.labels.items()) for series in ended} == alive


def test_large_ticks_are_cut_into_requests(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request has more series than the limit, and none is lost at a cut."""
    monkeypatch.setattr(template, "SERIES_PER_PART", 7)
    monkeypatch.setattr("fabricmon_exporters.remote_write.encode.SERIES_PER_PART", 7)
    names = [(f"leaf{i}", f"Ethernet{i}") for i in range(20)]
    found = published(tmp_path, context, make_snapshot(make_table(names), make_frame(20)))
    counts = [
        len(decode(bytes(cramjam.snappy.decompress_raw(path.read_bytes()))))
        for path in (tmp_path / "queue").iterdir()
    ]
    assert max(counts) <= 7
    received = [s for s in found if s.labels["__name__"] == "fabricmon_port_receive_bytes_total"]
    assert sorted(s.value for s in received) == [float(i) for i in range(1, 21)]


def test_the_queue_drops_its_oldest_and_counts_them(tmp_path: Path) -> None:
    """Within its size the newest requests stay, in order, over a restart."""
    queue = DiskQueue(tmp_path / "q", 100)
    queue.open()
    dropped = [queue.put(i, bytes([i]) * 30) for i in range(1, 7)]
    assert dropped == [0, 0, 0, 1, 2, 3]
    (tmp_path / "q" / "9.tmp").write_bytes(b"cut off by a crash")
    again = DiskQueue(tmp_path / "q", 100)
    again.open()
    assert (len(again), again.size) == (3, 90)
    seen = []
    while (waiting_now := again.oldest()) is not None:
        entry, body = waiting_now
        seen.append((entry.samples, body[0]))
        again.remove(entry)
    assert seen == [(4, 4), (5, 5), (6, 6)]
    assert list((tmp_path / "q").iterdir()) == []


async def test_what_waits_is_sent_in_order_through_trouble(
    tmp_path: Path, context: Context, clock: Any
) -> None:
    """Busy, failing, locked or moved receivers are tried again; a refusal costs the request."""
    async with Receiver() as receiver:
        receiver.answers = [503, 429, 401, 307, 204, 400]
        secret = tmp_path / "token"
        secret.write_text("s3cret")
        settings = config(tmp_path, receiver.url, bearer_token=Secret(file=secret))
        exporter = RemoteWriteExporter(settings, context)
        table = make_table(PORTS)
        await exporter.start()
        for i in range(3):
            frame = make_frame(3, time_ns=START_NS + i * 10_000_000_000)
            await asyncio.to_thread(exporter.publish, make_snapshot(table, frame, tick=i))
        for _ in range(200):
            await clock.advance(1.0)
            await asyncio.sleep(0.01)
            if len(receiver.bodies) == 2:
                break
        times = [decode(body)[0].time_ms for body in receiver.bodies]
        assert times == [START_NS // 1_000_000, START_NS // 1_000_000 + 20_000]
        assert receiver.headers[0]["Content-Encoding"] == "snappy"
        assert receiver.headers[0]["Authorization"] == "Bearer s3cret"
        for _ in range(200):
            if not list((tmp_path / "queue").iterdir()):
                break
            await asyncio.sleep(0.01)
        await exporter.stop()
    sent = sum(len(decode(body)) for body in receiver.bodies)
    name = "fabricmon_export_samples_total"
    assert metric(context, name, exporter="remote_write", outcome="sent") == sent
    assert metric(context, name, exporter="remote_write", outcome="refused") > 0
    assert events(context, "export_dropped") == 1
    assert list((tmp_path / "queue").iterdir()) == []


async def test_a_restart_sends_what_was_left(tmp_path: Path, context: Context) -> None:
    """Nothing that waited on disk is lost when the daemon starts again."""
    snapshot = make_snapshot(make_table(PORTS), make_frame(3))
    left = published(tmp_path, context, snapshot)
    async with Receiver() as receiver:
        exporter = RemoteWriteExporter(config(tmp_path, receiver.url), context)
        await exporter.start()
        await receiver.wait(1)
        await exporter.stop()
    assert [series for body in receiver.bodies for series in decode(body)] == left


async def test_it_keeps_the_promises_of_an_exporter(tmp_path: Path, context: Context) -> None:
    """Stop without start, twice, and start again."""
    await check_exporter(lambda: RemoteWriteExporter(config(tmp_path), context))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"collect": ["no_such"]}, "unknown 'no_such'"),
        ({"external_labels": {"port": "x"}}, "'port' cannot be the name"),
        ({"url": "localhost:1"}, "should match"),
        ({"username": "u"}, "given together"),
    ],
)
def test_a_wrong_config_says_what_is_allowed(more: dict[str, Any], said: str) -> None:
    """Unknown metrics, reserved labels, half a credential."""
    with pytest.raises(ValueError, match=said):
        RemoteWriteConfig(**{"url": "http://x/", **more})
