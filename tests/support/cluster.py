"""A cluster of real daemons: nats-server, a fabric that stands there as devices, workers."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nats
from nats.js import api

from fabricmon.errors import FormatError
from fabricmon.runtime.cluster.message import Stamp
from support import require
from support.daemon import devices, running
from support.promserver import free_port
from support.servers import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.daemon import RunningDaemon

INTERVAL_S, TTL_S = 2.0, 5.0
FAULT_AT_S = 50
SCENARIO = """\
title: host9 takes a fifth of its link, until the end
kind: slow-receiver
technology: roce
duration: 7200s
events:
  - {{do: slow-receiver, at: {at}s, lasts: 7100s, host: host9, takes: 0.2}}
expect:
  - {{kind: slow-receiver, within: 5}}
"""


class NatsServer:
    """The real nats-server with JetStream; it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        """Not started yet."""
        self._folder = folder
        self.port, self._http = free_port(), free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it on its folder, and wait until it is healthy."""
        command = [require("nats-server"), "-a", "127.0.0.1", "-p", str(self.port)]
        command += ["-m", str(self._http), "-js", "-sd", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        fetch(f"http://127.0.0.1:{self._http}/healthz")

    def kill(self) -> None:
        """End it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


@dataclass(frozen=True)
class Entry:
    """One message of the log."""

    stored_s: float
    subject: str
    stamp: Stamp


class Cluster:
    """Workers on one fabric and one server."""

    def __init__(self, folder: Path, server: NatsServer, base: dict[str, Any]) -> None:
        """`base`: what is in every worker's config besides `cluster` and `exporters`."""
        self._folder, self.server, self._base = folder, server, base
        self.workers: dict[str, RunningDaemon] = {}
        self._stacks: dict[str, ExitStack] = {}

    def config(self, name: str, **cluster: Any) -> dict[str, Any]:
        """One worker's config."""
        own = {"servers": [self.server.url], "worker": name, "ttl": f"{TTL_S}s", **cluster}
        told = {"path": str(self._folder / "incidents.jsonl")}
        return {**self._base, "cluster": own, "exporters": {"prometheus": {}, "jsonl": told}}

    def start(self, name: str, **cluster: Any) -> RunningDaemon:
        """Start a worker; the config stays from start to start."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        stack = ExitStack()
        config = json.dumps(self.config(name, **cluster))
        daemon = stack.enter_context(running(folder, config, "--log.format", "json"))
        self.workers[name], self._stacks[name] = daemon, stack
        return daemon

    def stop(self, name: str) -> int:
        """SIGTERM; the exit code."""
        code, _ = self.workers.pop(name).stop()
        self._stacks.pop(name).close()
        return code

    def kill(self, name: str) -> None:
        """End it without warning."""
        self.workers.pop(name)
        self._stacks.pop(name).close()

    def close(self) -> None:
        """End everything."""
        for name in list(self.workers):
            self.kill(name)

    # --- what can be seen -------------------------------------------------------------------

    def number(self, name: str, metric: str, **labels: str) -> float:
        """One metric of one worker; 0 where it is not there."""
        found = self.workers[name].samples(f"fabricmon_cluster_{metric}", group="self", **labels)
        return sum(found.values())

    def leader(self) -> str:
        """The worker that leads the fabric; empty where none does, or two do."""
        leading = [name for name in self.workers if self.number(name, "leading") == 1]
        return leading[0] if len(leading) == 1 else ""

    def shards(self) -> dict[str, int]:
        """Worker -> how many shards it polls."""
        return {name: int(self.number(name, "shards_held")) for name in self.workers}

    def settled(self) -> bool:
        """One leads, another could, and every worker polls a part of the shards, none two."""
        shards = self.shards()
        could = sum(self.number(name, "current") for name in self.workers)
        dealt = sum(shards.values()) == 32 and min(shards.values()) > 0
        return bool(self.leader()) and could == min(2, len(shards)) and dealt

    def incidents(self) -> dict[str, tuple[str, str, str]]:
        """What all workers' pages show: id -> kind, device and port of the cause."""
        found = {}
        for daemon in self.workers.values():
            for labels in daemon.samples("fabricmon_incident_active", group="incidents"):
                one = dict(labels)
                found[one["id"]] = one["kind"], one["device"], one["port"]
        return found

    def told(self, kind: str) -> list[tuple[str, str]]:
        """(event, id) of everything any worker has ever exported about a kind of incident."""
        path = self._folder / "incidents.jsonl"
        lines = map(json.loads, path.read_text().splitlines() if path.exists() else ())
        return [(line["event"], line["id"]) for line in lines if line["kind"] == kind]

    def wait(self, what: Callable[[], Any], timeout_s: float = 180.0) -> Any:
        """Ask until it answers with something."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if found := what():
                return found
            time.sleep(0.2)
        names = ("connected", "members", "shards_held", "leading", "current", "spool_messages")
        logs = "\n".join(
            f"--- {name} { {one: self.number(name, one) for one in names} }\n"
            f"{worker.log.read_text()[-2500:]}"
            for name, worker in self.workers.items()
        )
        raise AssertionError(f"did not happen within {timeout_s} s:\n{logs}")

    def log(self, since_s: float = 0.0) -> list[Entry]:
        """Every message of the log since a wall time, in its order."""
        return asyncio.run(self._log(since_s))

    async def _log(self, since_s: float) -> list[Entry]:
        client = await nats.connect(self.server.url)
        found = []
        try:
            subscription = await client.jetstream().subscribe(
                "fabricmon.fabricmon.>", stream="fabricmon_fabricmon_log", ordered_consumer=True,
                config=api.ConsumerConfig(headers_only=True),
            )  # fmt: skip
            while True:
                message = await subscription.next_msg(5)
                stored_s = message.metadata.timestamp.timestamp()
                try:
                    stamp = Stamp.read(message.headers)
                except FormatError:
                    stamp = Stamp("?", 0, 0, 0, 0)
                if stored_s >= since_s:
                    found.append(Entry(stored_s, message.subject, stamp))
                if message.metadata.num_pending == 0:
                    return found
        finally:
            await client.close()


def gaps(entries: list[Entry]) -> dict[str, float]:
    """Target -> the longest time without a poll of it, seconds."""
    times: dict[str, list[float]] = {}
    for entry in entries:
        if entry.stamp.target:
            times.setdefault(entry.stamp.target, []).append(entry.stored_s)
    return {
        target: max((b - a for a, b in itertools.pairwise(at)), default=0.0)
        for target, at in times.items()
    }


@contextmanager
def served(folder: Path) -> Iterator[dict[str, Any]]:
    """A fabric with a slow receiver as SNMP switches and host trees; the config that polls it."""
    with devices(SCENARIO.format(at=FAULT_AT_S), folder, "--poll", f"{INTERVAL_S}s"):
        config: dict[str, Any] = json.loads((folder / "fabricmon-snmp.yaml").read_text())
        hosts = json.loads((folder / "fabricmon-hosts.yaml").read_text())
        config["targets"] += hosts["targets"]
        yield config


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A server and a fabric; workers are the test's to start."""
    store = folder / "nats"
    store.mkdir()
    server = NatsServer(store)
    server.start()
    with served(folder) as base:
        made = Cluster(folder, server, base)
        try:
            yield made
        finally:
            made.close()
            server.kill()
