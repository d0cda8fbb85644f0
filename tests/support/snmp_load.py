"""Many alike SNMP agents from one table, in a process of their own: load for the pollers."""

from __future__ import annotations

import contextlib
import heapq
import multiprocessing
import random
import select
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.clock import SystemClock
from fabricmon.mappings.snmp import SnmpMappings
from fabricmon.simulate.agents.snmp.content import Content, Switch
from fabricmon.simulate.agents.snmp.responder import Responder
from fabricmon.simulate.agents.snmp.v3 import UsmResponder, V3User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

COMMUNITY = "public"
USER, AUTH_KEY, PRIV_KEY = "poller", "auth-key-of-the-load", "priv-key-of-the-load"
QUEUES = tuple(range(8))
COUNTED = {
    **dict.fromkeys(
        (
            "rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_discards", "tx_discards",
            "rx_errors", "tx_errors", "symbol_errors", "rx_pause_frames", "tx_pause_frames",
            "oper_up",
        ),
        (-1,),
    ),
    **dict.fromkeys(("rx_pfc_frames", "tx_pfc_frames", "queue_discards"), QUEUES),
}  # fmt: skip
"""40 objects a port: 16 of port scope, and three times eight priorities."""


def _switch(ports: int) -> Switch:
    names = tuple(f"Ethernet1/{i + 1}" for i in range(ports))
    return Switch("load", names, (400e9,) * ports, (None,) * ports)


def _serve(pipe: Connection, agents: int, ports: int, latency_s: float, loss: float) -> None:
    content = Content(_switch(ports), SnmpMappings().profile("nxos"), COUNTED)
    table = content.table()
    values = np.random.default_rng(1).integers(0, 1 << 44, len(content.slots), np.uint64)
    values &= np.array([(1 << slot.bits) - 1 for slot in content.slots], np.uint64)
    values[[slot.wanted is not None for slot in content.slots]] = 1
    table.refresh(values)
    responder = Responder(table, COMMUNITY.encode(), lambda: 123_456)
    rng, clock = random.Random(1), SystemClock()
    user = V3User(USER, "sha256", AUTH_KEY, "aes128", PRIV_KEY)
    v3 = UsmResponder(responder, COMMUNITY.encode(), "load", user, lambda: int(clock.monotonic()))
    by_fd: dict[int, tuple[Any, Any]] = {}
    poller = select.epoll()
    for i in range(agents + 1):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        by_fd[sock.fileno()] = (sock, (v3 if i == agents else responder).answer)
        poller.register(sock.fileno(), select.EPOLLIN)
    poller.register(pipe.fileno(), select.EPOLLIN)
    pipe.send([sock.getsockname()[1] for sock, _ in by_fd.values()])
    later: list[tuple[float, int, Any, bytes, Any]] = []
    order = 0
    while True:
        wait = max(0.0, later[0][0] - clock.monotonic()) if later else 1.0
        for fd, _ in poller.poll(wait):
            if fd == pipe.fileno():
                return
            sock, answer = by_fd[fd]
            for _ in range(64):
                try:
                    data, address = sock.recvfrom(65_535)
                except BlockingIOError:
                    break
                if loss and rng.random() < loss:
                    continue
                reply = answer(data)
                if not latency_s:
                    sock.sendto(reply, address)
                    continue
                order += 1
                heapq.heappush(later, (clock.monotonic() + latency_s, order, sock, reply, address))
        now = clock.monotonic()
        while later and later[0][0] <= now:
            _, _, sock, reply, address = heapq.heappop(later)
            sock.sendto(reply, address)


class Load:
    """Running agents: `addresses` speak v2c, `v3_address` version 3."""

    def __init__(self, ports: list[int], pid: int) -> None:
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:-1]]
        self.v3_address = f"127.0.0.1:{ports[-1]}"
        self.pid = pid

    def cpu_seconds(self) -> float:
        """CPU time of the agents' process."""
        return cpu_of(self.pid)


def cpu_of(pid: int) -> float:
    """User and system time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@contextlib.contextmanager
def load(agents: int, ports: int, *, latency_s: float = 0.0, loss: float = 0.0) -> Iterator[Load]:
    """Serve `agents` switches of `ports` ports with 40 objects each."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(theirs, agents, ports, latency_s, loss), daemon=True
    )
    process.start()
    theirs.close()
    try:
        if not ours.poll(120):
            raise TimeoutError("the load agents did not start")
        yield Load(ours.recv(), process.pid or 0)
    finally:
        ours.close()
        process.join(5)
        if process.is_alive():
            process.kill()
