"""Many datagrams in one system call: Linux's sendmmsg and recvmmsg on buffers laid out once.

Where a datagram is as small as a counter's, the call costs more than what it carries.
"""

from __future__ import annotations

import ctypes
import errno
import os
from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_DONT_WAIT, _TRUE_LENGTH = 0x40, 0x20


class _Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint32),
        ("pieces", ctypes.c_void_p),
        ("piece_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (("header", _Header), ("length", ctypes.c_uint32))


def _call(name: str, *more: Any) -> Any:
    # The calls below never wait, so the interpreter lock is kept over them.
    function = getattr(ctypes.PyDLL(None, use_errno=True), name)
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, *more]
    return function


_sendmmsg, _recvmmsg = _call("sendmmsg"), _call("recvmmsg", ctypes.c_void_p)


def address_of(buffer: Any) -> int:
    """Where a writable buffer stands. It must stay alive, and keep its size, while that is used."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class _Batch:
    """`room` messages of one piece of `size` bytes each."""

    def __init__(self, size: int, room: int) -> None:
        self.size, self.room = size, room
        self._pieces = (_Piece * room)()
        self._messages = (_Message * room)()
        first = ctypes.addressof(self._pieces)
        for i, (piece, message) in enumerate(zip(self._pieces, self._messages, strict=True)):
            piece.size = size
            message.header.pieces = first + i * ctypes.sizeof(_Piece)
            message.header.piece_count = 1
        self._at = ctypes.addressof(self._messages)
        self._bases = memoryview(self._pieces).cast("B").cast("L")[::2]


class Inbox(_Batch):
    """Takes datagrams of one size into `data`, side by side."""

    def __init__(self, size: int, room: int) -> None:
        """Room for `room` datagrams of `size` bytes."""
        super().__init__(size, room)
        self.data = bytearray(size * room)
        base = address_of(self.data)
        self._bases[:] = array("L", range(base, base + size * room, size))
        every, at = ctypes.sizeof(_Message), _Message.length.offset
        self._lengths = memoryview(self._messages).cast("B").cast("I")[at // 4 :: every // 4]

    def receive(self, fd: int) -> int:
        """Take what has come in, without waiting; how many datagrams now stand in `data`.

        A datagram of another size stands there as zeros. Raises `OSError` of the socket.
        """
        count: int = _recvmmsg(fd, self._at, self.room, _DONT_WAIT | _TRUE_LENGTH, None)
        if count < 0:
            _raise_unless_busy()
            return 0
        if self._lengths[:count].tolist().count(self.size) != count:
            for i in range(count):
                if self._lengths[i] != self.size:
                    self.data[i * self.size : (i + 1) * self.size] = bytes(self.size)
        return count


class Outbox(_Batch):
    """Sends datagrams of one size that stand at regular places of a buffer."""

    def send(self, fd: int, first: int, places: Sequence[int]) -> int:
        """Send `places` (0: the datagram at address `first`), without waiting; how many went.

        Raises `OSError` of the socket, but not where it takes no more for now.
        """
        size, gone = self.size, 0
        while gone < len(places):
            part = places[gone : gone + self.room]
            self._bases[: len(part)] = array("L", [first + size * i for i in part])
            count: int = _sendmmsg(fd, self._at, len(part), _DONT_WAIT)
            if count < 0:
                _raise_unless_busy()
                return gone
            gone += count
            if count < len(part):
                return gone
        return gone


def _raise_unless_busy() -> None:
    code = ctypes.get_errno()
    if code not in {errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR}:
        raise OSError(code, os.strerror(code))
