"""A server of ibsim's wire protocol: unmodified InfiniBand tools (under `ibsim-run`) talk to it.

A process of its own that only copies bytes (`ibsim_replies`): `python -m … PLAN`. It obeys one
JSON object a line on its input, and answers each with the number of datagrams received so far.
"""

from __future__ import annotations

import json
import random
import select
import socket
import struct
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np

from fabricmon.clock import SystemClock
from fabricmon.datagrams import Inbox, Outbox
from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.tools import ibsim
from fabricmon.simulate.agents.ibsim_replies import Image, Replies, arrived

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_CLIENTS = 64
_ROOM = 256
_STATUS = slice(16, 20)


class Client:
    """One attached client, and what it has not taken yet."""

    def __init__(self, sock: socket.socket, number: int, node: int, replies: Replies) -> None:
        self.sock, self.number, self.node, self.replies = sock, number, node, replies
        self.backlog: deque[NDArray[np.uint8]] = deque()


class Server:
    """Answers until told to stop."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._image = Image(plan)
        self._latency, self._loss, self._timeout = 0.0, 0.0, 0.05
        self._name, self._random = plan["name"], random.Random(plan["seed"])
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._control.bind(ibsim.socket_name(self._name, "ctl"))
        self._control.settimeout(0)
        self._clients: dict[int, Client] = {}
        self._served = 0
        self._inbox, self._outbox = Inbox(ibsim.SIZE, _ROOM), Outbox(ibsim.SIZE, _ROOM)
        self._requests = np.frombuffer(self._inbox.data, np.uint8).reshape(_ROOM, ibsim.SIZE)
        self._monotonic = SystemClock().monotonic
        self._late: deque[tuple[float, Client, NDArray[np.uint8]]] = deque()
        self._lost: deque[tuple[float, Client, NDArray[np.uint8]]] = deque()

    def run(self, commands: BinaryIO, answers: TextIO) -> None:
        """Until there are no more commands."""
        while True:
            by_socket = {client.sock: client for client in self._clients.values()}
            full = [client.sock for client in self._clients.values() if client.backlog]
            reading: list[Any] = [commands, self._control, *by_socket]
            ready, writable, _ = select.select(reading, full, [], self._pause())
            for client_socket in writable:
                self._drain(by_socket[client_socket])
            if commands in ready:
                line = commands.readline()
                if not line:
                    return
                self._obey(json.loads(line))
                answers.write(f"{self._served}\n")
                answers.flush()
            if self._control in ready:
                self._take_control()
            for sock in ready:
                if sock in by_socket:
                    self._serve(by_socket[sock])
            if self._late or self._lost:
                self._release()

    def _pause(self) -> float | None:
        due = [queue[0][0] for queue in (self._late, self._lost) if queue]
        return max(0.0, min(due) - self._monotonic()) if due else None

    def _obey(self, command: dict[str, Any]) -> None:
        """One change of the subnet."""
        image = self._image
        for key, value in command.items():
            match key:
                case "wire":
                    self._latency, self._loss, self._timeout = value
                case "down":
                    image.down = {(node, port) for node, port in value}
                case "silent":
                    image.silent = set(value)
                case "lids":
                    image.take_lids(value)
        for client in self._clients.values():
            client.replies.look()

    def close(self) -> None:
        """Let go of the sockets."""
        for number in list(self._clients):
            self._forget(number)
        self._control.close()

    def _take_control(self) -> None:
        message, sender = self._control.recvfrom(ibsim.CONTROL.size)
        magic, number, kind, size, data = ibsim.CONTROL.unpack(message.ljust(80, b"\0"))
        answer = self._controlled(kind, number, data)
        if answer is None:
            kind, answer = ibsim.ERROR, data
        reply = ibsim.CONTROL.pack(magic, number, kind, size, answer.ljust(64, b"\0")[:64])
        try:
            self._control.sendto(reply, sender)
        except OSError:
            self._clients.pop(number, None)

    def _controlled(self, kind: int, number: int, data: bytes) -> bytes | None:
        if kind == ibsim.CONNECT:
            return self._connect(data)
        client = self._clients.get(number)
        if kind == ibsim.DISCONNECT:
            self._forget(number)
            return data
        if client is None:
            return None
        return self._described(kind, client.node, data)

    def _connect(self, data: bytes) -> bytes | None:
        pid, pair, is_manager = struct.unpack_from("=III", data)
        wanted = data[12:44].split(b"\0", 1)[0].decode("latin-1")
        node = self._image.names.get(wanted) if wanted else self._image.host
        number = next((i for i in range(_MAX_CLIENTS) if i not in self._clients), None)
        if node is None or number is None:
            return None
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.bind(ibsim.socket_name(self._name, f"out{number}"))
            sock.connect(ibsim.socket_name(self._name, f"in{pid}"))
        except OSError:
            sock.close()
            return None
        sock.settimeout(0)
        replies = Replies(self._image, node, whole=bool(pair & ibsim.WHOLE_DATAGRAMS))
        self._clients[number] = Client(sock, number, node, replies)
        name = next(n for n, i in self._image.names.items() if i == node and n[1:2] == "-")
        return struct.pack("=III", number, pair, is_manager) + name.encode().ljust(32, b"\0")

    def _forget(self, number: int) -> None:
        client = self._clients.pop(number, None)
        if client is not None:
            client.sock.close()

    def _described(self, kind: int, node: int, data: bytes) -> bytes | None:
        image = self._image
        info = image.node_attribute(mad.NODE_INFO, node) or b""
        local = 0 if image.nodes[node][2] else 1
        vendor, device = int.from_bytes(info[37:40]), int.from_bytes(info[30:32])
        wanted = image.port_attribute(mad.PORT_INFO, node, data[0] or local)
        described = {
            ibsim.GET_VENDOR: struct.pack(
                "=IIIxxxxQ", vendor, device, int.from_bytes(info[32:36]), 1
            ),
            ibsim.GET_NODEINFO: arrived(info, local),
            ibsim.GET_PORTINFO: wanted or b"",
            ibsim.SET_ISSM: data,
            ibsim.GET_PKEYS: b"\xff\xff",
        }
        return described.get(kind)

    # Datagrams

    def _serve(self, client: Client) -> None:
        """Take what has come in; a socket holds few datagrams, so this does not starve others."""
        try:
            while count := self._inbox.receive(client.sock.fileno()):
                self._served += count
                self._reply(client, self._requests[:count])
        except OSError:
            self._forget(client.number)

    def _reply(self, client: Client, requests: NDArray[np.uint8]) -> None:
        replies, lost = client.replies.answer(requests)
        if self._loss:
            unlucky = np.array([self._random.random() < self._loss for _ in requests])
            replies[unlucky] = requests[unlucky]
            replies[unlucky, _STATUS] = np.frombuffer(ibsim.TIMED_OUT, np.uint8)
            lost = unlucky if lost is None else lost | unlucky
        if lost is not None:
            self._lost.append((self._monotonic() + self._timeout, client, replies[lost]))
            replies = replies[~lost]
        if not len(replies):
            return
        if self._latency:
            self._late.append((self._monotonic() + self._latency, client, replies))
        else:
            self._send(client, replies)

    def _send(self, client: Client, replies: NDArray[np.uint8]) -> None:
        client.backlog.append(replies)
        self._drain(client)

    def _drain(self, client: Client) -> None:
        backlog, fd = client.backlog, client.sock.fileno()
        try:
            while backlog:
                replies = backlog[0]
                gone = self._outbox.send(fd, replies.ctypes.data, range(len(replies)))
                if gone < len(replies):
                    backlog[0] = replies[gone:]
                    return
                backlog.popleft()
        except OSError:
            self._forget(client.number)

    def _release(self) -> None:
        """Send what is due."""
        now = self._monotonic()
        for queue in (self._late, self._lost):
            while queue and queue[0][0] <= now:
                _, client, replies = queue.popleft()
                if client.sock.fileno() >= 0:
                    self._send(client, replies)


if __name__ == "__main__":
    server = Server(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.run(sys.stdin.buffer, sys.stdout)
