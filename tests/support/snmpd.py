"""A real Net-SNMP `snmpd` on loopback, v2c and v3, with a configuration of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

COMMUNITY = "f4bric-ro"
"""The read-only community of every `snmpd` started here."""
AUTH_KEY, PRIV_KEY = "auth-key-of-the-test", "priv-key-of-the-test"

USERS = {
    "sha256aes": ("SHA-256", "AES"),
    "sha1aes": ("SHA", "AES"),
    "sha1aes256": ("SHA", "AES-256"),
    "sha1aes256c": ("SHA", "AES-256-C"),
    "sha512aes256": ("SHA-512", "AES-256"),
    "md5des": ("MD5", "DES"),
}
"""SNMPv3 users by name: authentication and privacy protocol, in Net-SNMP's words."""


@dataclass(frozen=True)
class Snmpd:
    """A running agent."""

    port: int
    process: subprocess.Popen[bytes]
    host: str = "127.0.0.1"
    community: str = COMMUNITY

    @property
    def address(self) -> str:
        """host:port, as a target's address."""
        return f"{self.host}:{self.port}"

    def bulkwalk(self, oid: str, *options: str) -> dict[str, str]:
        """What `snmpbulkwalk` reads below `oid`: value text by numeric OID."""
        how = options or ("-v2c", "-c", self.community)
        out = subprocess.run(
            [require("snmpbulkwalk"), *how, "-On", "-Oe", "-OQ", "-Ot", self.address, oid],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout
        pairs = (line.partition(" = ") for line in out.splitlines() if " = " in line)
        return {name.lstrip("."): value for name, _, value in pairs}


def free_udp_port() -> int:
    """A UDP port that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _config(address: str, community: str, extra: Sequence[str]) -> str:
    users = [
        line
        for name, (auth, priv) in USERS.items()
        for line in (
            f"createUser {name} {auth} {AUTH_KEY} {priv} {PRIV_KEY}",
            f"rouser {name} authpriv",
        )
    ]
    # The interface cache of snmpd lasts 15 s by default; a test wants to see counters move.
    lines = [
        f"agentaddress udp:{address}",
        f"rocommunity {community} 127.0.0.1",
        "sysname testbox",
        "interface_fadeout 1",
        *users,
        *extra,
    ]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def snmpd(
    folder: Path,
    *extra: str,
    port: int | None = None,
    host: str = "127.0.0.1",
    community: str = COMMUNITY,
) -> Iterator[Snmpd]:
    """Run `snmpd` from `folder`; `extra` are further lines of its configuration."""
    program = require("snmpd")
    port = port or free_udp_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "snmpd.conf"
    config.write_text(_config(f"{host}:{port}", community, extra))
    environment = {**os.environ, "SNMP_PERSISTENT_DIR": str(folder / "state"), "MIBS": ""}
    command = [program, "-f", "-Lf", str(folder / "log"), "-C", "-c", str(config), "-I", "-smux"]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    agent = Snmpd(port, process, host, community)
    try:
        _wait(agent)
        yield agent
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)


def _wait(agent: Snmpd) -> None:
    for _ in range(50):
        with contextlib.suppress(subprocess.CalledProcessError):
            if agent.bulkwalk("1.3.6.1.2.1.1.5"):
                return
        time.sleep(0.1)
    raise RuntimeError("snmpd did not answer within its first seconds")


_MOVING = """\
import pathlib, sys, time
ROOT = ".1.3.6.1.2.1.31.1.1.1.6"
rows = sorted(int(p.read_text()) for p in pathlib.Path("/sys/class/net").glob("*/ifindex"))
for line in iter(sys.stdin.readline, ""):
    command = line.strip()
    if command == "PING":
        print("PONG", flush=True)
        continue
    asked = sys.stdin.readline().strip()
    rest = [int(part) for part in asked[len(ROOT) + 1 :].split(".") if part]
    if command == "get":
        row = rest[0] if len(rest) == 1 and rest[0] in rows else None
    else:
        row = next((r for r in rows if [r] > rest), None)
    if row is None:
        print("NONE", flush=True)
    else:
        print(f"{ROOT}.{row}\\ncounter64\\n{int(time.time() * 1e6)}", flush=True)
"""


def moving_octets(folder: Path) -> str:
    """A line of configuration: `ifHCInOctets` of every interface grows by 1,000,000 a second."""
    script = folder / "moving.py"
    script.write_text(_MOVING)
    return f"pass_persist .1.3.6.1.2.1.31.1.1.1.6 {sys.executable} {script}"
