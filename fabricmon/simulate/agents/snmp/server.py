"""The process that serves some switches: one UDP socket each, one loop for all."""

from __future__ import annotations

import heapq
import random
import resource
import select
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.clock import SystemClock
from fabricmon.mappings.snmp import SnmpMappings
from fabricmon.simulate.agents.snmp.content import Content, Switch
from fabricmon.simulate.agents.snmp.responder import Responder
from fabricmon.simulate.agents.snmp.v3 import UsmResponder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection

    from numpy.typing import NDArray

    from fabricmon.simulate.agents.snmp.v3 import V3User

HEADER = 8
"""Words before the values: [0] is odd while they are written, [1] counts updates."""
SEQUENCE, UPDATES, SAMPLED_AT = 0, 1, 2
_BURST = 64
_IDLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Orders:
    """What one process serves. `offsets`: where each switch's slots begin in the values."""

    switches: tuple[Switch, ...]
    offsets: tuple[int, ...]
    flavours: tuple[str, ...]
    counted: Mapping[str, tuple[int, ...]]
    host: str
    community: str
    memory: str
    latency_s: float
    loss: float
    max_varbinds: int
    user: V3User | None
    """Version 3 instead of 2c."""
    started: float
    """The machine's monotonic clock when the fabric was switched on."""


class _Agent:
    """One switch in this process."""

    def __init__(self, orders: Orders, i: int, mappings: SnmpMappings, words: Any) -> None:
        content = Content(orders.switches[i], mappings.profile(orders.flavours[i]), orders.counted)
        self._words, self._seen = words, -1
        self._part = slice(HEADER + orders.offsets[i], None)
        self._size = max(1, len(content.slots))
        clock, started = SystemClock(), orders.started
        self.table = content.table()
        self.responder = Responder(
            self.table,
            orders.community.encode(),
            lambda: int((clock.monotonic() - started) * 100) & 0xFFFF_FFFF,
            orders.max_varbinds,
        )
        self.answer = self.responder.answer
        if orders.user is not None:
            name = orders.switches[i].name
            self.answer = UsmResponder(
                self.responder,
                orders.community.encode(),
                name,
                orders.user,
                lambda: int(clock.monotonic() - started),
            ).answer
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((orders.host, 0))
        self.socket.setblocking(False)  # noqa: FBT003 - the standard library's own signature

    def renew(self) -> None:
        """Encode new values, if there are any that are whole."""
        updates = int(self._words[UPDATES])
        if updates == self._seen:
            return
        before = int(self._words[SEQUENCE])
        values: NDArray[np.uint64] = self._words[self._part][: self._size].copy()
        if before % 2 == 0 and before == int(self._words[SEQUENCE]):
            self.table.refresh(values)
            self._seen = updates


def serve(orders: Orders, pipe: Connection) -> None:
    """Serve until the other end of the pipe goes away. Sends each address as its agent is made."""
    words = np.memmap(orders.memory, np.uint64, "r")
    mappings = SnmpMappings()
    _allow_sockets()
    agents = []
    for i in range(len(orders.switches)):
        agents.append(_Agent(orders, i, mappings, words))
        pipe.send(f"{orders.host}:{agents[-1].socket.getsockname()[1]}")
    loop = _Loop(agents, orders)
    try:
        loop.run(pipe)
    finally:
        for agent in agents:
            agent.socket.close()


def _allow_sockets() -> None:
    """A socket a switch may be more files than a shell allows; as many as the system lets us."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Loop:
    """Reads requests, answers them, some later, some never."""

    def __init__(self, agents: list[_Agent], orders: Orders) -> None:
        self._by_fd = {agent.socket.fileno(): agent for agent in agents}
        self._latency, self._loss = orders.latency_s, orders.loss
        self._random = random.Random(len(agents))
        self._later: list[tuple[float, int, _Agent, bytes, Any]] = []
        self._order = 0
        self._clock = SystemClock()

    def run(self, pipe: Connection) -> None:
        """Until the pipe closes."""
        poller = select.epoll()
        try:
            for fd in (*self._by_fd, pipe.fileno()):
                poller.register(fd, select.EPOLLIN)
            while True:
                for fd, _ in poller.poll(self._until_next()):
                    if fd == pipe.fileno():
                        return
                    self._serve(self._by_fd[fd])
                self._send_due()
        finally:
            poller.close()

    def _serve(self, agent: _Agent) -> None:
        agent.renew()
        receive, answer = agent.socket.recvfrom, agent.answer
        for _ in range(_BURST):
            try:
                data, address = receive(65_535)
            except (BlockingIOError, ConnectionError):
                return
            if self._loss and self._random.random() < self._loss:
                continue
            reply = answer(data)
            if reply is None:
                continue
            if self._latency:
                self._order += 1
                due = self._clock.monotonic() + self._latency
                heapq.heappush(self._later, (due, self._order, agent, reply, address))
            else:
                self._send(agent, reply, address)

    def _until_next(self) -> float:
        if not self._later:
            return _IDLE_S
        return max(0.0, self._later[0][0] - self._clock.monotonic())

    def _send_due(self) -> None:
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, agent, reply, address = heapq.heappop(self._later)
            self._send(agent, reply, address)

    @staticmethod
    def _send(agent: _Agent, reply: bytes, address: Any) -> None:
        try:
            agent.socket.sendto(reply, address)
        except OSError:
            return  # a full queue loses datagrams, as networks do; the poller asks again
