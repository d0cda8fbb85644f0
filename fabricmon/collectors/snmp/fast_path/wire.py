"""The wire: one unconnected UDP socket for all agents, and the books of what is under way on it.

What may be in flight is bounded twice: per agent, so that none is overrun, and in all, so that the
replies fit the kernel's receive buffer. Agents take turns, those that answer first, so a dead or
slow one keeps only its own requests waiting; a reply that is overdue gives its place back long
before its request is given up.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING

from fabricmon.collectors.snmp.fast_path.asks import land
from fabricmon.collectors.snmp.fast_path.security import ReportError
from fabricmon.errors import FormatError, Reason
from fabricmon.formats.snmp.snmp import MIN_REQUEST_ID
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.collectors.snmp.config import SnmpConfig
    from fabricmon.collectors.snmp.fast_path.asks import Arrived, Ask
    from fabricmon.collectors.snmp.fast_path.session import FastSession

_SWEEP_S = 0.025
_OVERDUE_S = 0.25
"""After this a reply is not expected to arrive together with the others any more."""
_BATCH = 256
"""Datagrams read in one go, and the batch that decodes cheapest."""
_MOST_BATCHES = 64
"""Of them in one go; more than any receive buffer holds."""
_LATEST_FLUSH_S = 0.005
_MAX_DATAGRAM = 65_535
_BOOKKEEPING = 1_000
"""What the kernel counts for a datagram besides its octets."""


class Refused(StrEnum):
    """Why a reply was not used. Closed: it becomes a metric label."""

    LATE = "late"
    """Nobody waits for it (any more): late, double, or never asked for."""
    FORGED = "forged"
    """It came from another address than it was asked of."""
    UNTRUSTED = "untrusted"
    """Of another community or engine, or not signed as it must be."""
    MALFORMED = "malformed"
    """Not SNMP."""


class Wire:
    """Sends asks, matches replies to them, sends again what was lost."""

    def __init__(self, config: SnmpConfig, context: Context) -> None:
        """Nothing is opened before the first ask."""
        self._config, self._context = config, context
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._is_closed = False
        self._pending: dict[bytes, Ask] = {}
        self._ready: deque[FastSession] = deque()
        self._unsure: deque[FastSession] = deque()
        """Sessions that want to send and have not been heard of lately: they wait for the others,
        and never have more than half of the room."""
        self._arrived: list[Arrived] = []
        self._next_id = secrets.randbelow(MIN_REQUEST_ID)
        self._room = self._window = 1
        """Replies that still fit the receive buffer, and that fit it in all."""
        self._lent = 0
        """Of the places taken, those of sessions that are not heard of."""
        self._timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Close the sockets, for good; whoever waits is told."""
        self._is_closed = True
        for sock in self._sockets.values():
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        for timer in (self._timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._flush_timer = None
        for ask in list(self._pending.values()):
            self._drop(ask)
            ask.session.failed(ask, Reason.INTERNAL)
        self._sockets.clear()
        self._ready.clear()
        self._unsure.clear()

    def want(self, session: FastSession) -> None:
        """A session has something to send."""
        if self._is_closed:
            session.close()
        elif not session.waiting:
            self._line_up(session)
        self._pump()

    def _line_up(self, session: FastSession) -> None:
        session.waiting = True
        (self._ready if session.is_heard else self._unsure).append(session)

    def _next(self) -> FastSession | None:
        """Whose turn it is."""
        if self._ready:
            return self._ready.popleft()
        if self._unsure and self._lent <= self._window // 2:
            return self._unsure.popleft()
        return None

    def _pump(self) -> None:
        """Send as much as there is room for; sessions take turns, a few asks at a time."""
        now = _now()
        while self._room > 0 and (session := self._next()) is not None:
            delay = session.pause(now)
            if delay > 0:
                asyncio.get_running_loop().call_later(delay, self._resume, session)
                continue
            session.waiting = False
            for ask in session.next_asks(self._room, now):
                self._send(ask, now)
        if self._pending and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _resume(self, session: FastSession) -> None:
        session.waiting = False
        self.want(session)

    def _send(self, ask: Ask, now: float) -> None:
        session = ask.session
        if not ask.key:
            self._next_id = (self._next_id + 1) % MIN_REQUEST_ID
            ask.key = (MIN_REQUEST_ID + self._next_id).to_bytes(4, "big")
            ask.first_sent = now
        ask.sent = now
        sock = self._sockets.get(session.family) or self._open(session.family)
        try:
            sock.sendto(session.security.seal(ask.prepared, ask.key), session.address)
        except (BlockingIOError, InterruptedError):
            pass  # the kernel's own queue is full: as good as lost on the way, so sent again later
        except OSError as error:
            session.unsendable(ask, error)
            return
        self._pending[ask.key] = ask
        session.in_flight += 1
        ask.counted, ask.lent = True, not session.is_heard
        self._room -= 1
        self._lent += ask.lent

    def _give_back(self, ask: Ask) -> None:
        """Its place in the receive window."""
        if ask.counted:
            self._room += 1
            self._lent -= ask.lent
            ask.counted = ask.lent = False

    def _open(self, family: socket.AddressFamily) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer)
        granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if not self._sockets:
            window = max(4, granted // (2 * self._config.reply_octets + _BOOKKEEPING))
            self._room, self._window = self._room + window - self._window, window
        self._sockets[family] = sock
        asyncio.get_running_loop().add_reader(sock, self._readable, sock)
        return sock

    def _drop(self, ask: Ask) -> None:
        """Take an ask off the books; its session may send another."""
        if self._pending.pop(ask.key, None) is None:
            return
        session = ask.session
        session.in_flight -= 1
        self._give_back(ask)
        if session.has_more and not session.waiting:
            self._line_up(session)

    def _readable(self, sock: socket.socket) -> None:
        self._drain(sock)
        if len(self._arrived) >= _BATCH:
            self._flush()
            return
        if self._arrived and self._flush_timer is None:
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(_LATEST_FLUSH_S, self._flush)
        self._pump()

    def _drain(self, sock: socket.socket) -> int:
        """Take up to _BATCH datagrams; how many there were."""
        receive, now = sock.recvfrom, _now()
        for count in range(_BATCH):
            try:
                data, address = receive(_MAX_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                return count
            except OSError:
                continue  # an ICMP error for some earlier datagram; its ask will time out
            try:
                ask = self._pending.get(message_key(data))
            except IndexError:
                self.refuse(str(address[0]), Refused.MALFORMED)
                continue
            if ask is None:
                self.refuse(str(address[0]), Refused.LATE)
            elif address[:2] != ask.session.address and not self._config.any_source:
                self.refuse(ask.session.name, Refused.FORGED)
            else:
                self._take(ask, data, now)
        return _BATCH

    def _take(self, ask: Ask, data: bytes, now: float) -> None:
        """Open the reply to an ask and pass it on."""
        session = ask.session
        try:
            payload, at = session.security.open(data)
        except ReportError as report:
            self._drop(ask)
            if session.reported(ask, report):
                self._send(ask, now)
            return
        except (FormatError, IndexError) as error:
            self.refuse(session.name, Refused.UNTRUSTED, str(error))
            return
        self._drop(ask)
        session.heard(ask, now)
        if ask.reading is None:
            session.answered(ask, payload, at)
        else:
            self._arrived.append((ask, payload, at))

    def refuse(self, subject: str, reason: Refused, why: str = "") -> None:
        """Count a reply that was not used."""
        report = self._context.report
        report.metrics.replies_refused.labels("snmp", reason.value).inc()
        report.emit(Event.REPLY_REFUSED, subject, reason=reason.value, why=why)

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
        """Send again what is overdue, give up what is beyond its time.

        Replies that already wait in the kernel are taken first: that this process was busy is not
        the agent's fault.
        """
        self._timer = None
        for sock in self._sockets.values():
            for _ in range(_MOST_BATCHES):  # somebody may send without end
                if self._drain(sock) < _BATCH:
                    break
                self._flush()
        now = _now()
        for ask in list(self._pending.values()):
            waited, session = now - ask.sent, ask.session
            if waited > _OVERDUE_S:
                self._give_back(ask)
            if ask.abandoned:
                self._drop(ask)
            elif now - ask.first_sent >= session.patience_s:
                self._drop(ask)
                session.failed(ask, Reason.TIMEOUT)
            elif waited >= session.overdue_after(ask) and self._room > 0:
                self._drop(ask)
                ask.tries += 1
                self._send(ask, now)
        self._flush()


def _now() -> float:
    """The event loop's time: the network takes real time, whatever clock a program is given."""
    return asyncio.get_running_loop().time()


def message_key(data: bytes) -> bytes:
    """The four octets that name a message: its request id, in version 3 its message id.

    Raises `IndexError` for what is too short. Octets that are no id match no request.
    """
    size = data[1]
    at = 2 if size < 0x80 else size - 0x7E
    if data[at + 2] == 3:
        at += 3
    else:
        at += 5 + data[at + 4]
    size = data[at + 1]
    at += 4 if size < 0x80 else size - 0x7C
    return data[at : at + 4]
