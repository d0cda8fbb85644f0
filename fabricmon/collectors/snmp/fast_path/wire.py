"""The wire: one unconnected UDP socket for all agents, and the books of what is under way on it.

What may be in flight is bounded twice: per agent, so that none is overrun, and in all, so that the
replies fit the kernel's receive buffer. Agents take turns, so a dead or slow one keeps only its own
requests waiting; a reply that is overdue gives its place back long before its request is given up.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import deque
from typing import TYPE_CHECKING

from fabricmon.collectors.snmp.fast_path.asks import land
from fabricmon.collectors.snmp.fast_path.security import ReportError
from fabricmon.errors import FormatError, Reason
from fabricmon.formats.snmp import MIN_REQUEST_ID
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.collectors.snmp.config import SnmpConfig
    from fabricmon.collectors.snmp.fast_path.asks import Ask, Bulk
    from fabricmon.collectors.snmp.fast_path.session import FastSession

_SWEEP_S = 0.025
_OVERDUE_S = 0.25
"""After this a reply is not expected to arrive together with the others any more."""
_DRAIN = 256
"""Datagrams read in one go, which is also the batch that decodes cheapest."""
_LATEST_FLUSH_S = 0.005
_MAX_DATAGRAM = 65_535
_BOOKKEEPING = 1_000
"""What the kernel counts for a datagram besides its octets."""


class Wire:
    """Sends asks, matches replies to them, sends again what was lost."""

    def __init__(self, config: SnmpConfig, context: Context) -> None:
        """Nothing is opened before the first ask."""
        self._config, self._context, self._clock = config, context, context.clock
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._pending: dict[bytes, Ask] = {}
        self._ready: deque[FastSession] = deque()
        self._arrived: list[tuple[Bulk, bytes, int]] = []
        self._next_id = secrets.randbelow(MIN_REQUEST_ID)
        self._room = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Close the sockets; whoever waits is told."""
        loop = asyncio.get_running_loop()
        for sock in self._sockets.values():
            loop.remove_reader(sock)
            sock.close()
        for timer in (self._timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._flush_timer = None
        self._sockets.clear()
        for ask in list(self._pending.values()):
            self._drop(ask)
            ask.session.failed(ask, Reason.INTERNAL)
        self._ready.clear()

    def want(self, session: FastSession) -> None:
        """A session has something to send."""
        if not session.waiting:
            session.waiting = True
            self._ready.append(session)
        self._pump()

    def _pump(self) -> None:
        """Send as much as there is room for, one ask of each session in turn."""
        ready = self._ready
        while ready and self._room_left():
            session = ready.popleft()
            delay = session.pause()
            if delay > 0:
                asyncio.get_running_loop().call_later(delay, self._resume, session)
                continue
            ask = session.next_ask()
            if ask is None:
                session.waiting = False
                continue
            self._send(ask)
            ready.append(session)
        if self._pending and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _resume(self, session: FastSession) -> None:
        self._ready.append(session)
        self._pump()

    def _room_left(self) -> bool:
        return self._room > 0 or not self._sockets

    def _send(self, ask: Ask) -> None:
        if not ask.key:
            self._next_id = (self._next_id + 1) % MIN_REQUEST_ID
            ask.key = (MIN_REQUEST_ID + self._next_id).to_bytes(4, "big")
            ask.first_sent = self._clock.monotonic()
        session = ask.session
        ask.sent = self._clock.monotonic()
        try:
            message = session.security.seal(ask.prepared, ask.key)
            sock = self._socket(session.family)
            sock.sendto(message, session.address)
        except (BlockingIOError, InterruptedError):
            pass  # the kernel's own queue is full: as good as lost on the way, so sent again later
        except OSError as error:
            self._pending.pop(ask.key, None)
            session.unsendable(ask, error)
            return
        self._pending[ask.key] = ask
        session.in_flight += 1
        ask.counted = True
        self._room -= 1

    def _socket(self, family: socket.AddressFamily) -> socket.socket:
        sock = self._sockets.get(family)
        if sock is None:
            sock = self._sockets[family] = socket.socket(family, socket.SOCK_DGRAM)
            sock.setblocking(False)  # noqa: FBT003 - the standard library's own signature
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer)
            granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            if len(self._sockets) == 1:
                self._room += max(4, granted // (self._config.reply_octets + _BOOKKEEPING))
            asyncio.get_running_loop().add_reader(sock, self._readable, sock)
        return sock

    def _drop(self, ask: Ask) -> None:
        """Take an ask off the books."""
        if self._pending.pop(ask.key, None) is not None:
            ask.session.in_flight -= 1
            if ask.counted:
                ask.counted = False
                self._room += 1

    def _readable(self, sock: socket.socket) -> None:
        for _ in range(_DRAIN):
            try:
                data, address = sock.recvfrom(_MAX_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                continue  # an ICMP error for some earlier datagram; its ask will time out
            self._take(data, address[:2])
        if len(self._arrived) >= _DRAIN:
            self._flush()
        elif self._arrived and self._flush_timer is None:
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(_LATEST_FLUSH_S, self._flush)
        self._pump()

    def _take(self, data: bytes, address: tuple[str, int]) -> None:
        """Match one datagram to its ask."""
        try:
            ask = self._pending.get(message_key(data))
        except (IndexError, FormatError):
            self.refuse(str(address[0]), "malformed")
            return
        if ask is None:
            self.refuse(str(address[0]), "late or double")
            return
        session = ask.session
        if address != session.address:
            self.refuse(session.name, "forged: it came from another address")
            return
        try:
            payload, at = session.security.open(data)
        except ReportError as report:
            self._drop(ask)
            if session.reported(ask, report):
                self._send(ask)
            return
        except (FormatError, IndexError) as error:
            self.refuse(session.name, str(error))
            return
        self._drop(ask)
        session.heard(ask)
        if ask.bulk is None:
            session.answered(ask, payload, at)
        else:
            self._arrived.append((ask.bulk, payload, at))
        if session.has_more and not session.waiting:
            session.waiting = True
            self._ready.append(session)

    def refuse(self, subject: str, why: str) -> None:
        """Count a reply that was not used."""
        self._context.report.emit(Event.REPLY_REFUSED, subject, why=why)

    def _flush(self) -> None:
        """Decode what has arrived and let the sessions go on."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        arrived, self._arrived = self._arrived, []
        if arrived:
            land(arrived)
        self._pump()

    def _sweep(self) -> None:
        """Send again what is overdue, give up what is beyond its time."""
        self._timer = None
        now = self._clock.monotonic()
        for ask in list(self._pending.values()):
            waited = now - ask.sent
            if ask.counted and waited > _OVERDUE_S:
                ask.counted = False
                self._room += 1
            session = ask.session
            if ask.abandoned:
                self._drop(ask)
            elif now - ask.first_sent >= session.patience_s:
                self._drop(ask)
                session.failed(ask, Reason.TIMEOUT)
            elif waited >= session.overdue_after(ask) and self._room > 0:
                self._drop(ask)
                ask.tries += 1
                self._send(ask)
        self._pump()


def message_key(data: bytes) -> bytes:
    """The four octets that name a message: its request id, in version 3 its message id.

    Raises `IndexError` or `FormatError` for anything else.
    """
    at = 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)
    version = data[at + 2]
    at += 3
    if version != 3:
        at += 2 + data[at + 1]
    at += 2 + (data[at + 1] & 0x7F if data[at + 1] & 0x80 else 0)
    if data[at] != 2 or data[at + 1] != 4:
        raise FormatError("no id of four octets")
    key = data[at + 2 : at + 6]
    if len(key) != 4:
        raise FormatError("cut off within its id")
    return key
