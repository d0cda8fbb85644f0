"""The datagram pump: a small process that keeps many requests on the wire through libibumad.

A process of its own, since it spends its life inside a C library on a device file: it may need a
privilege that the daemon should not have, can be killed when the library hangs, and never holds up
the daemon's event loop. It knows nothing of attributes: it is handed ready-made datagrams in order
of node, and hands back the replies in the same order. Only the standard library is imported.

Frames on stdin: `HEADER`, kinds uint8[M], first uint32[nodes+1], records uint8[M,320].
Frames on stdout: states uint8[M], ages float64[M] (seconds between the answer and the end of the
batch), replies uint8[M,256]. The first line on stdout is JSON: `{}` when the port is open, else
`{"reason", "message"}`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import json
import os
import select
import socket
import struct
import sys
from array import array
from collections import deque
from time import monotonic  # noqa: TID251 - a process of its own that must not import the daemon
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

HEADER = struct.Struct("=IIIIIII")
"""requests, nodes, first transaction id, window, window per node, timeout in ms, retries"""
RECORD, MAD, UMAD = 320, 256, 64
KINDS = (0x04, 0x01, 0x81)
"""Management class of each kind of request: performance, subnet by LID, subnet by direct route."""
SIM_CONTROL = struct.Struct("=IIII64s")
SIM_MAGIC, SIM_CONNECT, SIM_DISCONNECT = 0xDEADBEEF, 1, 2
SIM_TAIL = bytes(8) + (256).to_bytes(8)
"""Status, padding and length of a simulated request."""
WHOLE_DATAGRAMS = 0x100
"""Told at attaching: this client sees all 256 bytes of a datagram."""
ANSWERED, SILENT, REFUSED = 0, 1, 2
"""States: answered; no answer after all retries; the local port would not send it."""

_TID = struct.Struct(">I")
_STATUS = struct.Struct("=I")
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


class Port:
    """One open HCA port with an agent for each kind of request."""

    def __init__(self, adapter: str, port: int) -> None:
        """Open `adapter` (empty: the first active one), port number 0 for any."""
        self.library = _library()
        name = adapter.encode() if adapter else None
        if self.library.umad_init() < 0:
            raise CannotOpenError("not_found", "umad is not there: is the module ib_umad loaded?")
        self.fd = self.library.umad_open_port(name, port)
        if self.fd < 0:
            code = -self.fd if self.fd not in {-1, -errno.EIO} else ctypes.get_errno()
            why = os.strerror(code) if code else "there is no active InfiniBand port"
            where = f"{adapter or 'the default port'}{f':{port}' if port else ''}"
            raise CannotOpenError(_REASONS.get(code, "not_found"), f"cannot open {where}: {why}")
        self.agents = [self.library.umad_register(self.fd, kind, 1, 0, None) for kind in KINDS]
        if self.agents[0] < 0:
            raise CannotOpenError("permission", "the port refuses management datagrams")


class SimulatedPort:
    """The same for a simulated subnet: ibsim's protocol (`IBSIM_SOCKNAME`), without its shim.

    The shim, libumad2sim, hands on 224 of a datagram's 256 bytes, and so never the 64-bit
    transmit-wait. It stands in for the library: `umad_send` and `umad_recv` are its own.
    """

    agents = (0, 1, 2)
    fd = -1

    def __init__(self, name: str, host: str) -> None:
        """Attach to the subnet `name` at the node `host` (empty: the subnet's choice)."""
        self.library = self
        self._waiting: deque[bytes] = deque()
        pid = os.getpid()
        self._control, self._data = self._bound(f"{name}:ctl{pid}"), self._bound(f"{name}:in{pid}")
        try:
            self._connect(self._control, f"{name}:ctl")
            self._control.settimeout(10)
            info = struct.pack("=III32s", pid, WHOLE_DATAGRAMS, 0, host.encode())
            told = self._ask(0, SIM_CONNECT, info)
            self._number = struct.unpack_from("=I", told)[0]
            self._connect(self._data, f"{name}:out{self._number}")
        except CannotOpenError:
            self._control.close()
            self._data.close()
            raise
        self._data.settimeout(0)

    @staticmethod
    def _bound(own: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.bind(f"\0{own}\0".encode())
        return made

    @staticmethod
    def _connect(made: socket.socket, peer: str) -> None:
        try:
            made.connect(f"\0{peer}\0".encode())
        except ConnectionRefusedError:
            raise CannotOpenError("refused", f"no simulated subnet listens at {peer}") from None

    def _ask(self, number: int, kind: int, data: bytes) -> bytes:
        self._control.send(SIM_CONTROL.pack(SIM_MAGIC, number, kind, len(data), data))
        _, _, answer, _, told = SIM_CONTROL.unpack(self._control.recv(512))
        if answer != kind:
            raise CannotOpenError("refused", "the simulated subnet refuses this client")
        return bytes(told)

    def close(self) -> None:
        """Detach, so that the server's place is free again."""
        self._ask(self._number, SIM_DISCONNECT, b"")
        self._control.close()
        self._data.close()

    def umad_send(self, _fd: int, _agent: int, address: int, *_: int) -> int:
        """As the library's. While the server takes nothing more, what it sends is taken in."""
        record = ctypes.string_at(address, RECORD)
        lid, pair = record[28:30], record[20:24]
        source = b"\xff\xff\0\0" if lid == b"\xff\xff" else b"\0\0\0\0"
        message = b"".join((lid, b"\0\0", source, pair, pair, SIM_TAIL, record[UMAD:]))
        while True:
            try:
                self._data.send(message)
            except BlockingIOError:
                if select.select([self._data], [self._data], [], 1.0)[0]:
                    self._waiting.append(self._data.recv(512))
            except OSError:
                return -errno.EIO
            else:
                return 0

    def umad_recv(self, _fd: int, address: int, _length: Any, timeout_ms: int) -> int:
        """As the library's."""
        if self._waiting:
            message = self._waiting.popleft()
        else:
            if timeout_ms and not select.select([self._data], [], [], timeout_ms / 1000)[0]:
                return -errno.ETIMEDOUT
            try:
                message = self._data.recv(512)
            except BlockingIOError:
                return -errno.EWOULDBLOCK
        ctypes.memmove(address + 4, message[16:20][::-1], 4)
        ctypes.memmove(address + UMAD, message[32:288], MAD)
        return 0


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


class Job:
    """One batch of requests, sent and collected."""

    def __init__(self, port: Port | SimulatedPort, frame: Frame) -> None:
        """Everything is laid out once; the loop touches only lists and buffers."""
        self._frame = frame
        self._send_call, self._receive_call = port.library.umad_send, port.library.umad_recv
        self._fd, self._agents = port.fd, port.agents
        self._records = (ctypes.c_char * len(frame.records)).from_buffer(frame.records)
        self._base = ctypes.addressof(self._records)
        self.states = bytearray(b"\xff" * frame.count)
        self.replies = bytearray(frame.count * MAD)
        self.times = array("d", bytes(8 * frame.count))
        self._tries = bytearray(frame.count)
        self._next = list(frame.first[:-1])
        self._heard = bytearray(frame.nodes)
        self._node_of = array("I", bytes(4 * frame.count))
        for node in range(frame.nodes):
            for i in range(frame.first[node], frame.first[node + 1]):
                self._node_of[i] = node
        self._active = 0
        self._on_wire = 0

    def run(self) -> None:
        """Until every request has a state. The common case, an answer, is all in this loop."""
        incoming = bytearray(UMAD + MAD)
        address = ctypes.addressof((ctypes.c_char * len(incoming)).from_buffer(incoming))
        length = ctypes.c_int(MAD)
        length_ref = ctypes.byref(length)
        receive, fd, wait_ms = self._receive_call, self._fd, self._frame.timeout_ms
        first_tid, count = self._frame.first_tid, self._frame.count
        states, times, replies = self.states, self.times, self.replies
        node_of, heard, advance = self._node_of, self._heard, self._advance
        taken = memoryview(incoming)[UMAD:]
        tid_at, status_at = _TID.unpack_from, _STATUS.unpack_from
        self._launch()
        while self._on_wire:
            length.value = MAD
            if receive(fd, address, length_ref, 0) < 0:
                length.value = MAD
                if receive(fd, address, length_ref, wait_ms) < 0:
                    self._give_up_waiting()
                    continue
            i = tid_at(incoming, UMAD + 12)[0] - first_tid
            if not 0 <= i < count or states[i] != 0xFF:
                continue  # an answer to a batch before, or a second answer
            if status_at(incoming, 4)[0]:
                self._failed(i)
                continue
            replies[i * MAD : i * MAD + MAD] = taken
            states[i], times[i] = ANSWERED, monotonic()
            node = node_of[i]
            heard[node] = 1
            advance(node)

    def _launch(self) -> None:
        """Start on new nodes while the window has room."""
        frame = self._frame
        while self._on_wire < frame.window and self._active < frame.nodes:
            node = self._active
            self._active += 1
            for _ in range(frame.node_window):
                if not self._start_next(node):
                    break

    def _start_next(self, node: int) -> bool:
        i, end = self._next[node], self._frame.first[node + 1]
        while i < end:
            self._next[node] = i + 1
            if self._transmit(i):
                self._on_wire += 1
                return True
            self.states[i] = REFUSED
            i += 1
        return False

    def _transmit(self, i: int) -> bool:
        frame = self._frame
        agent = self._agents[frame.kinds[i]]
        at = self._base + i * RECORD
        sent: int = self._send_call(self._fd, agent, at, MAD, frame.timeout_ms, 0)
        return sent == 0

    def _advance(self, node: int) -> None:
        """A place on the wire has become free: the same node's next request, or another node."""
        self._on_wire -= 1
        if not self._start_next(node):
            self._launch()

    def _failed(self, i: int) -> None:
        node = self._node_of[i]
        if self._tries[i] < self._frame.retries:
            self._tries[i] += 1
            if self._transmit(i):
                return
        self.states[i] = SILENT
        if not self._heard[node]:
            # Nothing was ever heard of this node: the rest of it would only wait in vain.
            for j in range(self._next[node], self._frame.first[node + 1]):
                self.states[j] = SILENT
            self._next[node] = self._frame.first[node + 1]
        self._advance(node)

    def _give_up_waiting(self) -> None:
        """Nothing came for a whole timeout: what is on the wire is lost."""
        for node in range(self._active):
            for i in range(self._frame.first[node], self._next[node]):
                if self.states[i] == 0xFF:
                    self._failed(i)


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
        ) = HEADER.unpack(head)
        self.kinds = read(self.count)
        self.first = array("I", read(4 * (self.nodes + 1))).tolist()
        self.records = bytearray(read(self.count * RECORD))


def serve(port: Port | SimulatedPort, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Batches until the daemon closes the pipe."""
    while len(head := incoming.read(HEADER.size)) == HEADER.size:
        job = Job(port, Frame(head, incoming.read))
        job.run()
        end = monotonic()
        outgoing.write(job.states)
        outgoing.write(array("d", [end - time for time in job.times]))
        outgoing.write(job.replies)
        outgoing.flush()


def main() -> None:
    """`worker ADAPTER PORT`."""
    adapter, number = sys.argv[1], int(sys.argv[2])
    out = sys.stdout.buffer
    name = os.environ.get("IBSIM_SOCKNAME", "")
    port: Port | SimulatedPort
    try:
        if name and "umad2sim" not in os.environ.get("LD_PRELOAD", ""):
            port = SimulatedPort(name, os.environ.get("SIM_HOST", ""))
        else:
            port = Port(adapter, number)
    except CannotOpenError as error:
        out.write(json.dumps({"reason": error.reason, "message": str(error)}).encode() + b"\n")
        return
    out.write(b"{}\n")
    out.flush()
    serve(port, sys.stdin.buffer, out)
    if isinstance(port, SimulatedPort):
        port.close()


if __name__ == "__main__":
    main()
