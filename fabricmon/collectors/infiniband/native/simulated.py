"""The datagram pump on a simulated subnet: ibsim's protocol itself, without its shim.

Many datagrams cross in one system call, and all 256 bytes of each arrive. Unlike the worker on a
real port this one needs no privilege, and may import the project's own modules.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.collectors.infiniband.native import worker
from fabricmon.datagrams import Inbox, Outbox, address_of
from fabricmon.formats.infiniband.tools import ibsim

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ROOM = 256
_ENDS = struct.Struct(f">16xI{ibsim.HEADER - 8}xI{worker.MAD - 16}x")
"""Status and transaction id of a message."""


class SimulatedPort:
    """A `worker.Wire` into the subnet that `ibsim`, or our own server of it, serves."""

    def __init__(self, name: str, host: str) -> None:
        """Attach to the subnet `name` at the node `host` (empty: the subnet's choice)."""
        pid = os.getpid()
        self._control, self._data = _bound(name, f"ctl{pid}"), _bound(name, f"in{pid}")
        try:
            _connect(self._control, name, "ctl")
            self._control.settimeout(10)
            info = struct.pack("=III32s", pid, ibsim.WHOLE_DATAGRAMS, 0, host.encode())
            self._number = int.from_bytes(self._ask(0, ibsim.CONNECT, info)[:4], sys.byteorder)
            _connect(self._data, name, f"out{self._number}")
        except worker.CannotOpenError:
            self._control.close()
            self._data.close()
            raise
        self._fd = self._data.fileno()
        self._inbox, self._outbox = Inbox(ibsim.SIZE, _ROOM), Outbox(ibsim.SIZE, _ROOM)
        data = memoryview(self._inbox.data)
        self._taken = [
            data[at + ibsim.HEADER : at + ibsim.SIZE] for at in range(0, len(data), ibsim.SIZE)
        ]
        self._early: list[worker.Arrival] = []

    def _ask(self, number: int, kind: int, data: bytes) -> bytes:
        self._control.send(ibsim.CONTROL.pack(ibsim.MAGIC, number, kind, len(data), data))
        _, _, answer, _, told = ibsim.CONTROL.unpack(self._control.recv(512))
        if answer != kind:
            raise worker.CannotOpenError("refused", "the simulated subnet refuses this client")
        return bytes(told)

    def close(self) -> None:
        """Detach, so that the server's place is free again."""
        self._ask(self._number, ibsim.DISCONNECT, b"")
        self._control.close()
        self._data.close()

    def load(self, frame: worker.Frame) -> None:
        """As `Wire`."""
        records = np.frombuffer(frame.records, np.uint8).reshape(-1, worker.RECORD)
        lids = records[:, 28:30].copy().view(">u2")[:, 0].astype(np.uint16)
        made: NDArray[np.uint8] = ibsim.messages(records[:, worker.UMAD :], lids, records[:, 23])
        self._messages = bytearray(made.tobytes())
        self._first = address_of(self._messages) if made.size else 0

    def number(self, tids: array[int]) -> None:
        """As `Wire`."""
        words = memoryview(self._messages).cast("I")
        words[ibsim.HEADER // 4 + 3 :: ibsim.SIZE // 4] = memoryview(tids)

    def send(self, batch: Sequence[int]) -> list[int]:
        """As `Wire`. While the server takes nothing more, what it sends is taken in."""
        gone = 0
        while True:
            try:
                gone += self._outbox.send(self._fd, self._first, batch[gone:])
            except OSError:  # nobody is there any more
                return list(batch[gone:])
            if gone == len(batch):
                return []
            select.select([self._data], [self._data], [])
            self._early += [(ends, memoryview(bytes(d))) for ends, d in self._arrived()]

    def receive(self, timeout_ms: int) -> Sequence[worker.Arrival]:
        """As `Wire`."""
        if self._early:
            early, self._early = self._early, []
            return early
        arrived = self._arrived()
        if not arrived:
            select.select([self._data], [], [], timeout_ms / 1000)
            arrived = self._arrived()
        return arrived

    def _arrived(self) -> list[worker.Arrival]:
        try:
            count = self._inbox.receive(self._fd)
        except OSError:  # nobody is there any more
            return []
        told = _ENDS.iter_unpack(memoryview(self._inbox.data)[: count * ibsim.SIZE])
        return list(zip(told, self._taken, strict=False))


def _bound(subnet: str, end: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(ibsim.socket_name(subnet, end))
    return made


def _connect(made: socket.socket, subnet: str, end: str) -> None:
    try:
        made.connect(ibsim.socket_name(subnet, end))
    except ConnectionRefusedError:
        raise worker.CannotOpenError(
            "refused", f"no simulated subnet listens at {subnet}:{end}"
        ) from None


if __name__ == "__main__":
    worker.main(lambda: SimulatedPort(os.environ["IBSIM_SOCKNAME"], os.environ.get("SIM_HOST", "")))
