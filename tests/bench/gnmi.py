"""gNMI: files from bytes to rates, and live updates over gRPC, per CPU-second.

The files are what gnmic writes of eight leaf switches. `event`: half of it one event a value
(PROTO), half one event with fifteen strings (JSON_IETF); `split-events`: the first of these, each
event on a line of its own; `json`: messages with a prefix. The peer reads the same file with stdlib
json and a loop over dictionaries. The live peer is pygnmi, installed into a scratch environment;
where that fails, plain grpcio with a loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock, cpu_seconds
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi.gnmi import GnmiDecoder
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.series import polls
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.model.ports import PortTable
from fabricmon.normalize import Normalizer
from fabricmon.selfmon import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEGABYTES = 100
ROUNDS = 3
NOTIFICATIONS = 20_000
UPDATES = 15
T0 = 1_764_460_800_000_000_000
INTERVAL_NS = 10_000_000_000
COUNTERS = (
    *("in-octets", "out-octets", "in-pkts", "out-pkts", "in-discards", "out-discards"),
    *("in-errors", "out-errors", "in-unicast-pkts", "out-unicast-pkts", "carrier-transitions"),
    *("in-multicast-pkts", "out-multicast-pkts", "in-broadcast-pkts", "out-broadcast-pkts"),
)
_ROOT = "/interfaces/interface/state/counters/"


def run() -> Iterator[dict[str, Any]]:
    """Rows of all benchmarks."""
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gnmic.json"
            values = generate(path, shape)
            yield from _file_rows(path, shape, values)
    yield _live_row()


def generate(path: Path, shape: str, megabytes: int = MEGABYTES) -> int:
    """Write the file; how many values are in it."""
    values, cycle = 0, 0
    record, _ = SHAPES[shape]
    with path.open("wb") as file:
        while file.tell() < megabytes * 1_000_000:
            for device in range(8):
                for port in range(32):
                    for document in record(cycle, device, port):
                        file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
                    values += len(COUNTERS)
            cycle += 1
    return values


def _time(cycle: int, device: int, port: int) -> int:
    return T0 + cycle * INTERVAL_NS + device * 1000 + port


def _counts(cycle: int) -> dict[str, int]:
    return {name: 7_000_000_000 + cycle * 99_991 + i for i, name in enumerate(COUNTERS)}


def _event(cycle: int, device: int, port: int, values: dict[str, Any]) -> dict[str, Any]:
    tags = {
        "interface_name": f"Ethernet{port}/1",
        "source": f"leaf{device}:6030",
        "subscription-name": "ports",
    }
    values = {_ROOT + name: value for name, value in values.items()}
    time = _time(cycle, device, port)
    return {"name": "ports", "timestamp": time, "tags": tags, "values": values}


def _split(cycle: int, device: int, port: int) -> list[Any]:
    return [_event(cycle, device, port, {name: n}) for name, n in _counts(cycle).items()]


def _events(cycle: int, device: int, port: int) -> list[Any]:
    if not port % 2:
        return [_split(cycle, device, port)]
    texts = {name: str(count) for name, count in _counts(cycle).items()}
    return [[_event(cycle, device, port, texts)]]


def _message(cycle: int, device: int, port: int) -> list[Any]:
    counts = {f"counters/{name}": count for name, count in _counts(cycle).items()}
    time = _time(cycle, device, port)
    message = {
        "source": f"leaf{device}:6030",
        "subscription-name": "ports",
        "timestamp": time,
        "time": f"2025-11-30T10:{cycle // 6 % 60:02}:{cycle % 6}0.{time % 10**9:09}Z",
        "prefix": f"interfaces/interface[name=Ethernet{port}/1]/state",
        "target": f"leaf{device}",
        "updates": [{"Path": path, "values": {path: count}} for path, count in counts.items()],
    }
    return [message]


def ours(path: Path) -> tuple[int, float]:
    """Rates that came out, and by how many MB the process grew over the last half of the file."""
    paths = GnmiPaths.load()
    layout = Layout("bench")
    table = SeriesTable(layout, paths)
    recorder = Recorder(table, paths)
    decoder = GnmiDecoder(recorder, lambda bad: sys.exit(str(bad)))
    clock = SystemClock()
    normalizer = Normalizer(PortTable(), "bench", Context(clock, Reporter(clock)))
    rates, half, size = 0, 0.0, path.stat().st_size
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            decoder.feed(data, 0)
            if file.tell() > size // 2 and not half:
                half = _rss_mb()
            if len(recorder.samples) > 300_000 or file.tell() == size:
                for batch in polls(layout, recorder.samples.take()):
                    normalizer.absorb(batch)
                    frame = normalizer.tick(int(batch.time_ns.max()), INTERVAL_NS / 1e9)
                    rates += int(frame.usable().sum())
    return rates, _rss_mb() - half


def their_events(path: Path) -> int:
    """Rates that a plain loop gets of events."""
    last: dict[tuple[str, str, str], tuple[int, int]] = {}
    rates: dict[tuple[str, str, str], float] = {}
    count = 0
    with path.open("rb") as file:
        for line in file:
            record = json.loads(line)
            for event in record if isinstance(record, list) else (record,):
                time, tags = event["timestamp"], event["tags"]
                source, port = tags["source"], tags["interface_name"]
                for name, text in event["values"].items():
                    key, value = (source, port, name), int(text)
                    old = last.get(key)
                    last[key] = (time, value)
                    if old is not None and time > old[0]:
                        rates[key] = (value - old[1]) / (time - old[0]) * 1e9
                        count += 1
    return count


def their_messages(path: Path) -> int:
    """Rates that a plain loop gets of messages."""
    last: dict[tuple[str, str, str], tuple[int, int]] = {}
    rates: dict[tuple[str, str, str], float] = {}
    count = 0
    with path.open("rb") as file:
        for line in file:
            message = json.loads(line)
            time, source, prefix = message["timestamp"], message["source"], message["prefix"]
            for update in message["updates"]:
                for name, text in update["values"].items():
                    key, value = (source, prefix, name), int(text)
                    old = last.get(key)
                    last[key] = (time, value)
                    if old is not None and time > old[0]:
                        rates[key] = (value - old[1]) / (time - old[0]) * 1e9
                        count += 1
    return count


SHAPES: dict[str, tuple[Callable[[int, int, int], list[Any]], Callable[[Path], int]]] = {
    "event": (_events, their_events),
    "split_events": (_split, their_events),
    "json": (_message, their_messages),
}
"""Lines of one port at one time, and the peer that reads them."""


def _file_rows(path: Path, shape: str, values: int) -> Iterator[dict[str, Any]]:
    best: dict[str, float] = {"ours": 1e9, "theirs": 1e9}
    growth = 0.0
    _, theirs = SHAPES[shape]
    for _ in range(ROUNDS):
        begun = cpu_seconds()
        rates, growth = ours(path)
        best["ours"] = min(best["ours"], cpu_seconds() - begun)
        assert rates > 0, "no rate came out"
        begun = cpu_seconds()
        theirs(path)
        best["theirs"] = min(best["theirs"], cpu_seconds() - begun)
    yield {
        "bench": "gnmi",
        "metric": f"file_values_to_rates_per_cpu_second_{shape}",
        "value": round(values / best["ours"]),
        "unit": "values/CPU-s",
        "peer": "stdlib json + dict loop",
        "peer_value": round(values / best["theirs"]),
        "ratio": round(best["theirs"] / best["ours"], 2),
    }
    yield {
        "bench": "gnmi",
        "metric": f"file_memory_growth_over_second_half_{shape}",
        "value": round(growth, 1),
        "unit": "MB",
    }


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


SERVER = """
import sys, time
from concurrent import futures
import grpc
from fabricmon.formats.gnmi.gnmi_proto import messages
notifications, updates = int(sys.argv[1]), int(sys.argv[2])
g = messages()
answers = []
for n in range(256):
    m = g.SubscribeResponse()
    m.update.timestamp = T0 + n
    for name in ("interfaces", "interface", "state", "counters"):
        m.update.prefix.elem.add(name=name)
    m.update.prefix.elem[1].key["name"] = f"Ethernet{n % 64}"
    for i in range(updates):
        u = m.update.update.add()
        u.path.elem.add(name=NAMES[i % len(NAMES)])
        u.val.uint_val = 7_000_000_000 + n * 1000 + i
    answers.append(m)
sync = g.SubscribeResponse(sync_response=True).SerializeToString()
def subscribe(requests, context):
    next(iter(requests))
    yield sync
    for n in range(notifications):
        m = answers[n % 256]
        m.update.timestamp = T0 + n * 1_000_000
        yield m.SerializeToString()
    time.sleep(600)
handlers = grpc.method_handlers_generic_handler("gnmi.gNMI", {
    "Subscribe": grpc.stream_stream_rpc_method_handler(subscribe),
    "Capabilities": grpc.unary_unary_rpc_method_handler(
        lambda r, c: g.CapabilityResponse(gNMI_version="0.10.0").SerializeToString()),
})
server = grpc.server(futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((handlers,))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""
SERVER = f"NAMES, T0 = {COUNTERS!r}, {T0}\n{SERVER}"

PYGNMI = """
import os, sys, time
from pygnmi.client import gNMIclient, telemetryParser
port, wanted = int(sys.argv[1]), int(sys.argv[2])
ask = {"subscription": [{"path": "interfaces/interface/state/counters", "mode": "sample",
       "sample_interval": 10**10}], "mode": "stream", "encoding": "proto"}
last, seen = {}, 0
with gNMIclient(target=("127.0.0.1", port), insecure=True) as client:
    begun = time.process_time()
    for answer in client.subscribe(subscribe=ask):
        parsed = telemetryParser(answer)
        note = parsed.get("update")
        for one in note.get("update", ()) if note else ():
            last[note.get("prefix"), one["path"]] = (note["timestamp"], one["val"])
            seen += 1
        if seen >= wanted:
            break
    print(seen / (time.process_time() - begun), flush=True)
os._exit(0)
"""

PLAIN = """
import os, sys, time
import grpc
from fabricmon.formats.gnmi.gnmi_proto import messages
port, wanted = int(sys.argv[1]), int(sys.argv[2])
g = messages()
channel = grpc.insecure_channel(f"127.0.0.1:{port}")
call = channel.stream_stream("/gnmi.gNMI/Subscribe",
    request_serializer=g.SubscribeRequest.SerializeToString,
    response_deserializer=g.SubscribeResponse.FromString)
request = g.SubscribeRequest()
request.subscribe.subscription.add().path.elem.add(name="interfaces")
last, seen = {}, 0
begun = time.process_time()
for message in call(iter([request])):
    note = message.update
    prefix = "/".join(e.name + str(dict(e.key)) for e in note.prefix.elem)
    for one in note.update:
        path = prefix + "/" + "/".join(e.name + str(dict(e.key)) for e in one.path.elem)
        last[path] = (note.timestamp, getattr(one.val, one.val.WhichOneof("value")))
        seen += 1
    if seen >= wanted:
        break
print(seen / (time.process_time() - begun), flush=True)
os._exit(0)
"""


def _live_row() -> dict[str, Any]:
    arguments = [str(NOTIFICATIONS), str(UPDATES)]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        python = _scratch_pygnmi()
        peer = "pygnmi" if python else "grpcio, decoded, dict loop"
        mine, others = asyncio.run(_rounds(python, port))
    finally:
        server.kill()
        server.wait()
    return {
        "bench": "gnmi",
        "metric": f"live_updates_per_cpu_second_at_{UPDATES}_a_notification",
        "value": round(mine),
        "unit": "updates/CPU-s",
        "peer": peer,
        "peer_value": round(others),
        "ratio": round(mine / others, 2) if others else None,
    }


async def _rounds(python: str, port: int) -> tuple[float, float]:
    """The best of both, in turns."""
    mine, others = 0.0, 0.0
    for _ in range(ROUNDS):
        mine = max(mine, await _live(f"127.0.0.1:{port}"))
        others = max(others, await asyncio.to_thread(_other, python, port))
    return mine, others


async def _live(address: str) -> float:
    clock = SystemClock()
    context = Context(clock, Reporter(clock))
    target = Target("bench", "bench", address, options={"insecure": True})
    collector = GnmiCollector(GnmiConfig(buffer=10_000_000), [target], context)
    # Every notification repeats 64 ports: what is not newer is dropped, so count what is read.
    session = collector._session(target)
    read = session._reader.take_raw
    seen = 0

    def counted(raw: bytes, received_ns: int) -> bool:
        nonlocal seen
        ended = read(raw, received_ns)
        seen += 0 if ended else UPDATES
        return ended

    session._reader.take_raw = counted  # type: ignore[method-assign]
    await collector.start()
    begun = cpu_seconds()
    await collector.poll(target)
    while seen < NOTIFICATIONS * UPDATES:
        await asyncio.sleep(0.1)
        await collector.poll(target)
    cost = cpu_seconds() - begun
    await collector.stop()
    return seen / cost


def _other(python: str, port: int) -> float:
    program = PYGNMI if python else PLAIN
    command = [python or sys.executable, "-c", program, str(port), str(NOTIFICATIONS * UPDATES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout.split()[-1])


def _scratch_pygnmi() -> str:
    """A Python with pygnmi, made beside the system's temporary files; empty where that fails."""
    folder = Path(tempfile.gettempdir()) / "fabricmon-bench-pygnmi"
    python = folder / "bin" / "python"
    quiet = {"capture_output": True, "timeout": 300}
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, **quiet)
            install = [str(python), "-m", "pip", "install", "-q", "pygnmi==0.8.15"]
            subprocess.run(install, check=True, **quiet)
        check = [str(python), "-c", "import pygnmi.client"]
        subprocess.run(check, check=True, **quiet)
    except (subprocess.SubprocessError, OSError):
        return ""
    return str(python)
