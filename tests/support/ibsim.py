"""A real InfiniBand subnet in software: `ibsim` with `opensm`, private to one test.

Every subnet has its own abstract-socket namespace (IBSIM_SOCKNAME) and scratch directory, so that
tests can run side by side. Counters are moved through ibsim's console.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from support import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_serial = count()


@dataclass
class Subnet:
    """A running subnet."""

    name: str
    scratch: Path
    host: str
    """Node id the clients sit on."""
    console: int
    server: int
    """The process that serves it."""

    @property
    def environment(self) -> dict[str, str]:
        """What a client's environment must hold besides `ibsim-run`."""
        scratch = str(self.scratch)
        return {
            "IBSIM_SOCKNAME": self.name,
            "SIM_HOST": self.host,
            "OSM_TMP_DIR": scratch,
            "OSM_CACHE_DIR": scratch,
        }

    def run(self, *command: str, timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run a client; it never outlives its time, since it would wait for a server for ever."""
        return subprocess.run(
            [require("ibsim-run"), *command],
            cwd=self.scratch,
            env={**os.environ, **self.environment},
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )

    def tell(self, *commands: str) -> None:
        """Send console commands, in bulk through a file where they are many."""
        if len(commands) > 5:
            script = self.scratch / f"commands-{next(_serial)}"
            script.write_text("".join(f"{c}\n" for c in commands))
            commands = (f"!{script.name}",)
        for command in commands:
            os.write(self.console, f"{command}\n".encode())
            time.sleep(0.05)

    def set_counter(self, node: str, port: int, value: int, name: str = "PortXmitWait") -> None:
        """Set a 32-bit counter to an absolute value."""
        self.tell(f'PerformanceSet "{node}"[{port}] PortCounters.{name}={value}')

    def sweep(self, *options: str) -> None:
        """One sweep of a subnet manager: LIDs and forwarding tables."""
        log = str(self.scratch / "osm.log")
        done = self.run(require("opensm"), "-o", "-f", log, *options, timeout=120.0)
        assert "MASTER" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


@contextmanager
def subnet(
    net: str, scratch: Path, host: str, limits: tuple[str, ...] = (), *, sweep: bool = True
) -> Iterator[Subnet]:
    """Run ibsim over `net` (ibnetdiscover text), sweep once, and take it down again."""
    name = f"fabricmon-{os.getpid()}-{next(_serial)}"
    (scratch / "net.txt").write_text(net)
    fifo = scratch / "console"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)  # both ends here: ibsim must never see the end of its input
    log = (scratch / "ibsim.log").open("wb")
    server = subprocess.Popen(
        [require("ibsim"), "-s", *limits, "net.txt"],
        cwd=scratch,
        env={**os.environ, "IBSIM_SOCKNAME": name},
        stdin=holder,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    world = Subnet(name, scratch, host, holder, server.pid)
    try:
        _wait_until_ready(scratch / "ibsim.log", server)
        if sweep:
            world.sweep()
        yield world
    finally:
        server.terminate()
        server.wait(10)
        log.close()
        os.close(holder)


def _wait_until_ready(log: Path, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if b"simulator ready" in log.read_bytes():
            return
        assert server.poll() is None, log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)
    raise AssertionError("ibsim did not become ready")


def net_text(
    leaves: int,
    hosts_per_leaf: int,
    spines: int = 0,
    *,
    trunk: int = 1,
    ports: int = 40,
    devid: int = 0xD2F0,
    speed: str = "4xHDR",
) -> str:
    """A leaf-spine subnet as ibsim and ibnetdiscover write it."""
    lines: list[str] = []
    for leaf in range(leaves):
        rows = [
            f'[{h + 1}]\t"H-{host_guid(leaf, h):016x}"[1]\t\t# "{host_name(leaf, h)}" lid 0 {speed}'
            for h in range(hosts_per_leaf)
        ]
        rows += [
            f'[{hosts_per_leaf + 1 + s * trunk + t}]\t"S-{spine_guid(s):016x}"'
            f'[{leaf * trunk + t + 1}]\t\t# "spine-{s + 1}" lid 0 {speed}'
            for s in range(spines)
            for t in range(trunk)
        ]
        lines += _switch(leaf_guid(leaf), f"leaf-{leaf + 1}", ports, devid, rows)
    for spine in range(spines):
        rows = [
            f'[{leaf * trunk + t + 1}]\t"S-{leaf_guid(leaf):016x}"'
            f'[{hosts_per_leaf + 1 + spine * trunk + t}]\t\t# "leaf-{leaf + 1}" lid 0 {speed}'
            for leaf in range(leaves)
            for t in range(trunk)
        ]
        lines += _switch(spine_guid(spine), f"spine-{spine + 1}", ports, devid, rows)
    for leaf in range(leaves):
        for h in range(hosts_per_leaf):
            guid = host_guid(leaf, h)
            lines += [
                "",
                "vendid=0x2c9",
                "devid=0x101b",
                f"sysimgguid=0x{guid:x}",
                f"caguid=0x{guid:x}",
                f'Ca\t1 "H-{guid:016x}"\t\t# "{host_name(leaf, h)}"',
                (
                    f'[1]({guid + 1:x}) \t"S-{leaf_guid(leaf):016x}"[{h + 1}]\t\t'
                    f'# lid 0 lmc 0 "leaf-{leaf + 1}" lid 0 {speed}'
                ),
            ]
    return "\n".join(lines) + "\n"


def _switch(guid: int, name: str, ports: int, devid: int, rows: list[str]) -> list[str]:
    return [
        "",
        "vendid=0x2c9",
        f"devid=0x{devid:x}",
        f"sysimgguid=0x{guid:x}",
        f"switchguid=0x{guid:x}({guid:x})",
        f'Switch\t{ports} "S-{guid:016x}"\t\t# "{name}" enhanced port 0 lid 0 lmc 0',
        *rows,
    ]


def leaf_guid(leaf: int) -> int:
    """GUID of a leaf, counted from 0."""
    return 0xB8CEF60300100000 + 64 * leaf


def spine_guid(spine: int) -> int:
    """GUID of a spine, counted from 0."""
    return 0xB8CEF60300200000 + 64 * spine


def host_guid(leaf: int, host: int) -> int:
    """Node GUID of a host's adapter; its port GUID is one more."""
    return 0x0C42A10300000000 + 0x1000 * leaf + 4 * host


def host_name(leaf: int, host: int) -> str:
    """Node description of a host's adapter."""
    return f"gpu{leaf + 1:02d}{host + 1:02d} mlx5_0"
