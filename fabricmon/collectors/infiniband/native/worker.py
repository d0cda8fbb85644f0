"""The datagram pump: a small process that keeps many requests on the wire through libibumad.

A process of its own, since it spends its life inside a C library on a device file: it may need a
privilege that the daemon should not have, can be killed when the library hangs, and never holds up
the daemon's event loop. It knows nothing of attributes: it is handed ready-made datagrams in order
of node, and hands back the replies in the same order. Only the standard library is imported.

Frames on stdin: `HEADER`, and unless the batch is the last one over again: kinds uint8[M],
first uint32[nodes+1], records uint8[M,320].
Frames on stdout: states uint8[M], ages float64[M] (seconds between the answer and the end of the
batch), replies uint8[M,256]. The first line on stdout is JSON: `{}` when the port is open, else
`{"reason", "message"}`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import gc
import json
import os
import struct
import sys
from array import array
from itertools import islice, pairwise
from time import monotonic  # noqa: TID251 - a process of its own that must not import the daemon
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

HEADER = struct.Struct("=IIIIIIII")
"""requests, nodes, first transaction id, window, window per node, timeout in ms, retries,
whether they are the last batch's requests again"""
RECORD, MAD, UMAD = 320, 256, 64
KINDS = (0x04, 0x01, 0x81)
"""Management class of each kind of request: performance, subnet by LID, subnet by direct route."""
ANSWERED, SILENT, REFUSED = 0, 1, 2
"""States: answered; no answer after all retries; the local port would not send it."""
_ON_WIRE, _WAITING = 0xFE, 0xFF
_NONE = -1

_TID_WORD = 3
"""Where the low half of a transaction id stands in a datagram, in 32-bit words."""
_ENDS = struct.Struct(f">4xI{UMAD + 4}xI")
"""Status (whatever its byte order: it is 0 or not) and transaction id of a record."""
_REASONS = {
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.ENODEV: "not_found",
    errno.ENOENT: "not_found",
}


class CannotOpenError(Exception):
    """The port cannot be used; `reason` is one of the collector's reasons."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


Arrival = tuple[tuple[int, int], memoryview]
"""(status, transaction id), datagram"""


class Wire(Protocol):
    """What requests leave by and replies come in by."""

    def load(self, frame: Frame) -> None:
        """Take a frame's requests; they stay until the next."""

    def number(self, tids: array[int]) -> None:
        """Give each request its transaction id, big-endian."""

    def send(self, batch: Sequence[int]) -> list[int]:
        """Send these requests; those that the port would not take."""

    def receive(self, timeout_ms: int) -> Sequence[Arrival]:
        """What has come in.

        Waits where that is nothing, at most so long. A datagram stays until the next call.
        """

    def close(self) -> None:
        """Let go of it."""


class Port:
    """One open HCA port with an agent for each kind of request."""

    def __init__(self, adapter: str, port: int) -> None:
        """Open `adapter` (empty: the first active one), port number 0 for any."""
        self._library = _library()
        name = adapter.encode() if adapter else None
        if self._library.umad_init() < 0:
            raise CannotOpenError("not_found", "umad is not there: is the module ib_umad loaded?")
        self._fd = self._library.umad_open_port(name, port)
        if self._fd < 0:
            code = -self._fd if self._fd not in {-1, -errno.EIO} else ctypes.get_errno()
            why = os.strerror(code) if code else "there is no active InfiniBand port"
            where = f"{adapter or 'the default port'}{f':{port}' if port else ''}"
            raise CannotOpenError(_REASONS.get(code, "not_found"), f"cannot open {where}: {why}")
        self._agents = [self._library.umad_register(self._fd, kind, 1, 0, None) for kind in KINDS]
        if self._agents[0] < 0:
            raise CannotOpenError("permission", "the port refuses management datagrams")
        self._send, self._receive = self._library.umad_send, self._library.umad_recv
        self._incoming = bytearray(UMAD + MAD)
        self._taken = memoryview(self._incoming)[UMAD:]
        self._address = _address_of(self._incoming)
        self._length = ctypes.c_int(MAD)
        self._length_at = ctypes.byref(self._length)

    def load(self, frame: Frame) -> None:
        """As `Wire`."""
        self._frame = frame
        self._base = _address_of(frame.records)
        self._agent_of = [self._agents[kind] for kind in frame.kinds]

    def number(self, tids: array[int]) -> None:
        """As `Wire`."""
        words = memoryview(self._frame.records).cast("I")
        words[UMAD // 4 + _TID_WORD :: RECORD // 4] = memoryview(tids)

    def send(self, batch: Sequence[int]) -> list[int]:
        """As `Wire`."""
        fd, base, agents, wait = self._fd, self._base, self._agent_of, self._frame.timeout_ms
        send = self._send
        return [i for i in batch if send(fd, agents[i], base + i * RECORD, MAD, wait, 0)]

    def receive(self, timeout_ms: int) -> Sequence[Arrival]:
        """As `Wire`. One at a time: asking for more would cost a call that mostly finds nothing."""
        take, fd, address, length = self._receive, self._fd, self._address, self._length_at
        if take(fd, address, length, 0) < 0:
            self._length.value = MAD
            if take(fd, address, length, timeout_ms) < 0:
                self._length.value = MAD
                return ()
        ends = _ENDS.unpack_from(self._incoming)
        if ends[0]:
            self._length.value = MAD  # what timed out comes back without its end
        return ((ends, self._taken),)

    def close(self) -> None:
        """As `Wire`."""
        self._library.umad_close_port(self._fd)


def _address_of(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _library() -> Any:
    for name in ("libibumad.so.3", ctypes.util.find_library("ibumad")):
        if not name:
            continue
        try:
            # Every call is short and this process has one thread: keeping the interpreter lock
            # over it saves more than the call costs.
            library = ctypes.PyDLL(name, use_errno=True)
        except OSError:
            continue
        number, pointer = ctypes.c_int, ctypes.c_void_p
        library.umad_open_port.argtypes = [ctypes.c_char_p, number]
        library.umad_send.argtypes = [number, number, pointer, number, number, number]
        library.umad_recv.argtypes = [number, pointer, ctypes.POINTER(number), number]
        return library
    raise CannotOpenError("not_found", "libibumad is not installed (package libibumad3)")


class Frame:
    """One batch as it was handed in."""

    def __init__(self, head: bytes, read: Callable[[int], bytes]) -> None:
        (
            self.count,
            self.nodes,
            self.first_tid,
            self.window,
            self.node_window,
            self.timeout_ms,
            self.retries,
            self.again,
        ) = HEADER.unpack(head)
        if self.again:
            return
        self.kinds = read(self.count)
        self.first = array("I", read(4 * (self.nodes + 1)))
        self.records = bytearray(read(self.count * RECORD))

    def order(self) -> Order:
        """What may be sent when."""
        return Order(self.first, self.node_window)


class Order:
    """Which request follows which, so that no node has more than its window to answer at once.

    A node's requests are as many chains as its window is wide: an answer to one sends the next of
    its chain. What of all this is on the wire is the batch's own window: `heads` wait for room.
    """

    def __init__(self, first: Sequence[int], node_window: int) -> None:
        self.follower = array("i", range(node_window, node_window + first[-1]))
        self.node_of = array("I", bytes(4 * first[-1]))
        self.heads = array("I")
        for node, (begin, end) in enumerate(pairwise(first)):
            inner = max(begin, end - node_window)
            self.follower[inner:end] = array("i", [_NONE]) * (end - inner)
            self.node_of[begin:end] = array("I", [node]) * (end - begin)
            self.heads.extend(range(begin, min(begin + node_window, end)))


class Job:
    """One batch of requests, sent and collected."""

    def __init__(self, wire: Wire, frame: Frame, first: Sequence[int], order: Order) -> None:
        """`wire` holds the requests; `first` is where each node's begin, `order` their order."""
        self._wire, self._frame, self._first, self._order = wire, frame, first, order
        self.states = bytearray([_WAITING]) * frame.count
        self.replies = bytearray(frame.count * MAD)
        self.times = array("d", bytes(8 * frame.count))
        self._tries = bytearray(frame.count)
        self._on_wire = 0
        self._heads = self._waiting_heads()
        tids = array("I", range(frame.first_tid, frame.first_tid + frame.count))
        if sys.byteorder == "little":
            tids.byteswap()
        wire.number(tids)

    def run(self) -> None:
        """Until every request has a state. Every datagram goes through the loop in here."""
        states, replies, times, heads = self.states, self.replies, self.times, self._heads
        follower, first_tid, count = self._order.follower, self._frame.first_tid, self._frame.count
        receive, wait = self._wire.receive, self._frame.timeout_ms
        self._start(list(islice(heads, self._frame.window)))
        while self._on_wire:
            following: list[int] = []
            lost: list[int] = []
            arrived = receive(wait)
            now = monotonic()
            for (status, tid), datagram in arrived:
                i = tid - first_tid
                if not 0 <= i < count or states[i] != _ON_WIRE:
                    continue  # an answer to a batch before, or a second answer
                if status:
                    lost.append(i)
                    continue
                replies[i * MAD : i * MAD + MAD] = datagram
                states[i], times[i] = ANSWERED, now
                i = follower[i]
                following.append(i if i >= 0 and states[i] == _WAITING else next(heads, _NONE))
            self._on_wire -= len(following)
            self._start(following)
            for i in lost if arrived else self._overdue():
                self._failed(i)

    def _start(self, batch: list[int]) -> None:
        """Send requests for the first time; where the port will not, those that follow them."""
        states = self.states
        while batch:
            if _NONE in batch:
                batch = [i for i in batch if i >= 0]
            for i in batch:
                states[i] = _ON_WIRE
            refused = self._wire.send(batch)
            self._on_wire += len(batch) - len(refused)
            for i in refused:
                states[i] = REFUSED
            batch = [self._next_after(i) for i in refused]

    def _next_after(self, i: int) -> int:
        following = self._order.follower[i]
        if following >= 0 and self.states[following] == _WAITING:
            return following
        return next(self._heads, _NONE)

    def _waiting_heads(self) -> Iterator[int]:
        return (i for i in self._order.heads if self.states[i] == _WAITING)

    def _failed(self, i: int) -> None:
        """Send it again, or give it up: sooner where nothing at all was heard of its node."""
        node = self._order.node_of[i]
        begin, end = self._first[node], self._first[node + 1]
        heard = self.states.find(ANSWERED, begin, end) >= 0
        if self._tries[i] < (self._frame.retries if heard else min(self._frame.retries, 1)):
            self._tries[i] += 1
            if not self._wire.send([i]):
                return
        self.states[i] = SILENT
        self._on_wire -= 1
        if not heard:  # the rest of it would only wait in vain
            rest = self.states[begin:end]
            self.states[begin:end] = rest.replace(bytes([_WAITING]), bytes([SILENT]))
        self._start([self._next_after(i)])

    def _overdue(self) -> list[int]:
        """Nothing came for a whole timeout: what is on the wire is lost."""
        return [i for i, state in enumerate(self.states) if state == _ON_WIRE]


def serve(wire: Wire, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Batches until the daemon closes the pipe."""
    first: Sequence[int] = ()
    order: Order | None = None
    while len(head := incoming.read(HEADER.size)) == HEADER.size:
        frame = Frame(head, incoming.read)
        if not frame.again:
            first, order = frame.first, frame.order()
            wire.load(frame)
        assert order is not None
        job = Job(wire, frame, first, order)
        job.run()
        end = monotonic()
        outgoing.write(job.states)
        outgoing.write(array("d", [end - time for time in job.times]))
        outgoing.write(job.replies)
        outgoing.flush()


def main(opened: Callable[[], Wire]) -> None:
    """Open, tell whether that went well, and serve."""
    gc.disable()  # a tuple for each datagram would set it off all the time, for nothing
    out = sys.stdout.buffer
    try:
        wire = opened()
    except CannotOpenError as error:
        out.write(json.dumps({"reason": error.reason, "message": str(error)}).encode() + b"\n")
        return
    out.write(b"{}\n")
    out.flush()
    serve(wire, sys.stdin.buffer, out)
    wire.close()


if __name__ == "__main__":  # worker ADAPTER PORT
    main(lambda: Port(sys.argv[1], int(sys.argv[2])))
