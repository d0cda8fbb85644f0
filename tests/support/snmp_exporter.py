"""Debian's prometheus-snmp-exporter, asked for the same objects as the collector asks for.

Its configuration changed in 0.23: credentials left the modules. Debian 12 has the old form, 13 the
new one; whichever the installed program accepts is used.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabricmon.mappings.snmp import SnmpMappings
from support import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MODULE, AUTH = "fabric", "fabric"


@dataclass(frozen=True)
class Exporter:
    """A running exporter."""

    port: int
    pid: int

    def scrape(self, target: str) -> dict[str, float]:
        """All samples of one target by their name and labels."""
        query = f"target={target}&module={MODULE}&auth={AUTH}"
        url = f"http://127.0.0.1:{self.port}/snmp?{query}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and line[0] != "#")
        return {name: float(value) for name, _, value in pairs}


_NAMES = {
    "name": "ifName",
    "oid": "1.3.6.1.2.1.31.1.1.1.1",
    "type": "DisplayString",
    "help": "names of ports",
    "indexes": [{"labelname": "port", "type": "gauge"}],
}


def module(
    mapping: str, counters: Iterable[str], community: str, *, old: bool, names: bool = False
) -> dict[str, Any]:
    """The configuration that walks what the mapping reads for these counters."""
    metrics = [_NAMES] if names else []
    walk = [metric["oid"] for metric in metrics]
    profile = SnmpMappings().profile(mapping)
    for counter in counters:
        row = next(row for row in profile.by_counter[counter] if not row.queue)
        words = row.index.split(".")
        for part, (column, _) in enumerate(row.columns()):
            oid = ".".join(map(str, column))
            walk.append(oid)
            metrics.append(
                {
                    "name": f"{counter}_{part}" if part else counter,
                    "oid": oid,
                    "type": "gauge" if row.entry.is_gauge else "counter",
                    "help": counter,
                    "indexes": [
                        {"labelname": word if word.isalpha() else f"i{i}", "type": "gauge"}
                        for i, word in enumerate(words)
                    ],
                }
            )
    body: dict[str, Any] = {"walk": sorted(set(walk)), "metrics": metrics, "max_repetitions": 50}
    if old:
        return {MODULE: {**body, "version": 2, "auth": {"community": community}}}
    return {
        "auths": {AUTH: {"version": 2, "community": community}},
        "modules": {MODULE: body},
    }


@contextlib.contextmanager
def exporter(
    folder: Path, mapping: str, counters: Iterable[str], community: str, *, names: bool = False
) -> Iterator[Exporter]:
    """Run the exporter; with `names` it also reads what each port is called (`ifName`)."""
    program = require("prometheus-snmp-exporter")
    counters = list(counters)
    config = folder / "snmp.yml"
    for old in (False, True):
        written = module(mapping, counters, community, old=old, names=names)
        config.write_text(json.dumps(written))
        check = [program, f"--config.file={config}", "--dry-run"]
        if subprocess.run(check, capture_output=True, check=False).returncode == 0:
            break
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "exporter.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait(port)
        yield Exporter(port, process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _wait(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("the exporter did not start")
