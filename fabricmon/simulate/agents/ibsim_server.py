"""A server of ibsim's wire protocol: unmodified InfiniBand tools (under `ibsim-run`) talk to it.

A process of its own that only copies bytes: every attribute of every port stands ready-made in a
mapped image, written by `ibsim.IbsimAgent`, in two banks of which one is current. Standard library
only. The protocol (linux-rdma/ibsim, `include/ibsim.h`) is datagrams in the abstract namespace:
`NAME:ctl` takes 80-byte control messages; `NAME:out<i>` and the client's `NAME:in<pid>` exchange
requests of five 32-bit words, padding, a 64-bit length, and the 256 bytes of the datagram.
"""

from __future__ import annotations

import json
import mmap
import random
import select
import socket
import struct
import sys
from collections import deque
from pathlib import Path
from time import monotonic  # noqa: TID251 - a process of its own that must not import the daemon
from typing import Any, BinaryIO, TextIO

_CONTROL = struct.Struct("=IIII64s")
ERROR, CONNECT, DISCONNECT, GET_VENDOR = 0, 1, 2, 4
GET_NODEINFO, GET_PORTINFO, SET_ISSM, GET_PKEYS = range(7, 11)
_MAX_CLIENTS = 64
# Said by clients that see all of a datagram. libumad2sim cuts it before the 64-bit transmit-wait.
_WHOLE_DATAGRAMS = 0x100
_CLASS_PORT_INFO = 1
_REQUEST, _MAD = 288, 32
_PERFORMANCE, _SMI, _DIRECT, _ADMINISTRATION = 0x04, 0x01, 0x81, 0x03
_PATH_RECORD = 0x35
_GET, _NODE_INFO, _PORT_INFO = 0x01, 0x11, 0x15
_UNSUPPORTED_METHOD, _UNSUPPORTED_ATTRIBUTE, _BAD_PARAMETER = 2 << 2, 3 << 2, 7 << 2
_TIMED_OUT = (110).to_bytes(4, "big")
IMAGE_HEADER = 16


class Image:
    """The mapped file and the structure of the subnet."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """`plan` is what the agent wrote beside the image."""
        with Path(plan["image"]).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._bank_size: int = plan["bank_size"]
        self._port_attributes = {int(k): tuple(v) for k, v in plan["port_attributes"].items()}
        self._node_attributes = {int(k): tuple(v) for k, v in plan["node_attributes"].items()}
        self.nodes: list[tuple[int, int, bool]] = [tuple(n) for n in plan["nodes"]]
        """(row of the first port, number of ports, whether it is a switch)"""
        self.names: dict[str, int] = plan["names"]
        self.host: int = plan["host"]
        self.links: dict[tuple[int, int], tuple[int, int]] = {}
        for a, port_a, b, port_b in plan["links"]:
            self.links[a, port_a], self.links[b, port_b] = (b, port_b), (a, port_a)
        self.down: set[tuple[int, int]] = set()
        self.silent: set[int] = set()
        self.lids: dict[bytes, tuple[int, int]] = {}
        self.take_lids(plan["lids"])

    def take_lids(self, lids: list[list[int]]) -> None:
        """[lid, node, port] for every LID."""
        self.lids = {lid.to_bytes(2, "big"): (node, port) for lid, node, port in lids}

    def port_attribute(self, code: int, node: int, port: int) -> bytes | None:
        """An attribute of one port, without its padding; None where there is none."""
        place = self._port_attributes.get(code)
        first, count, switch = self.nodes[node]
        row = port if switch else port - 1
        if place is None or not 0 <= row < count:
            return None
        offset, size = place
        at = self._base() + offset + (first + row) * size
        return self._map[at : at + size]

    def node_attribute(self, code: int, node: int) -> bytes | None:
        """An attribute of one node."""
        if code not in self._node_attributes:
            return None
        offset, size = self._node_attributes[code]
        at = self._base() + offset + node * size
        return self._map[at : at + size]

    def _base(self) -> int:
        return IMAGE_HEADER + self._map[0] * self._bank_size

    def walk(self, start: int, path: bytes) -> tuple[int, int] | None:
        """(node, port of arrival) at the end of a direct route; None where it is broken."""
        node, port = start, 0 if self.nodes[start][2] else 1
        for hop in path:
            if (node, hop) in self.down:
                return None
            end = self.links.get((node, hop))
            if end is None or end in self.down:
                return None
            node, port = end
        return None if node in self.silent else (node, port)

    def reachable(self, start: int) -> set[int]:
        """Nodes that a packet from `start` gets to."""
        onward: dict[int, list[int]] = {}
        for (node, port), end in self.links.items():
            if (node, port) not in self.down and end not in self.down:
                onward.setdefault(node, []).append(end[0])
        seen = {start}
        queue = deque(seen)
        while queue:
            for other in onward.get(queue.popleft(), ()):
                if other not in seen and other not in self.silent:
                    seen.add(other)
                    queue.append(other)
        return seen


class Client:
    """One attached client, and what it has not taken yet."""

    def __init__(self, sock: socket.socket, number: int, node: int, *, whole: bool) -> None:
        self.sock, self.number, self.node, self.whole = sock, number, node, whole
        self.reachable: set[int] = set()
        self.backlog: deque[bytes] = deque()


class Server:
    """Answers until told to stop."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._image = Image(plan)
        self._latency, self._loss, self._timeout = 0.0, 0.0, 0.05
        self._name, self._random = plan["name"], random.Random(plan["seed"])
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._control.bind(f"\0{plan['name']}:ctl\0".encode())
        self._control.settimeout(0)
        self._clients: dict[int, Client] = {}
        self._served = 0
        self._late: deque[tuple[float, Client, bytes]] = deque()
        self._lost: deque[tuple[float, Client, bytes]] = deque()

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
        return max(0.0, min(due) - monotonic()) if due else None

    def _obey(self, command: dict[str, Any]) -> None:
        """One change of the subnet; answered with the number of datagrams received so far."""
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
            client.reachable = image.reachable(client.node)

    def close(self) -> None:
        """Let go of the sockets."""
        for number in list(self._clients):
            self._forget(number)
        self._control.close()

    def _take_control(self) -> None:
        message, sender = self._control.recvfrom(_CONTROL.size)
        magic, number, kind, size, data = _CONTROL.unpack(message.ljust(80, b"\0"))
        answer = self._controlled(kind, number, data)
        if answer is None:
            kind, answer = ERROR, data
        reply = _CONTROL.pack(magic, number, kind, size, answer.ljust(64, b"\0")[:64])
        try:
            self._control.sendto(reply, sender)
        except OSError:
            self._clients.pop(number, None)

    def _controlled(self, kind: int, number: int, data: bytes) -> bytes | None:
        if kind == CONNECT:
            return self._connect(data)
        client = self._clients.get(number)
        if kind == DISCONNECT:
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
            sock.bind(f"\0{self._name}:out{number}\0".encode())
            sock.connect(f"\0{self._name}:in{pid}\0".encode())
        except OSError:
            sock.close()
            return None
        sock.settimeout(0)
        client = Client(sock, number, node, whole=bool(pair & _WHOLE_DATAGRAMS))
        client.reachable = self._image.reachable(node)
        self._clients[number] = client
        name = next(n for n, i in self._image.names.items() if i == node and n[1:2] == "-")
        return struct.pack("=III", number, pair, is_manager) + name.encode().ljust(32, b"\0")

    def _forget(self, number: int) -> None:
        client = self._clients.pop(number, None)
        if client is not None:
            client.sock.close()

    def _described(self, kind: int, node: int, data: bytes) -> bytes | None:
        image = self._image
        info = image.node_attribute(_NODE_INFO, node) or b""
        local = 0 if image.nodes[node][2] else 1
        vendor, device = int.from_bytes(info[37:40]), int.from_bytes(info[30:32])
        wanted = image.port_attribute(_PORT_INFO, node, data[0] or local)
        described = {
            GET_VENDOR: struct.pack("=IIIxxxxQ", vendor, device, int.from_bytes(info[32:36]), 1),
            GET_NODEINFO: _arrived(info, local),
            GET_PORTINFO: wanted or b"",
            SET_ISSM: data,
            GET_PKEYS: b"\xff\xff",
        }
        return described.get(kind)

    # Datagrams

    def _serve(self, client: Client) -> None:
        """Take what has come in; a socket holds few datagrams, so this does not starve others."""
        receive = client.sock.recv
        while True:
            try:
                request = receive(512)
            except BlockingIOError:
                return
            except OSError:
                self._forget(client.number)
                return
            if len(request) != _REQUEST:
                continue
            self._served += 1
            reply = self._answer(client, request)
            if reply is None or (self._loss and self._random.random() < self._loss):
                # As the kernel does: the request comes back, marked as timed out.
                lost = request[:16] + _TIMED_OUT + request[20:]
                self._lost.append((monotonic() + self._timeout, client, lost))
            elif self._latency:
                self._late.append((monotonic() + self._latency, client, reply))
            else:
                self._send(client, reply)

    def _answer(self, client: Client, request: bytes) -> bytes | None:
        """The reply, or None where the request gets nowhere."""
        class_ = request[_MAD + 1]
        code = request[_MAD + 16] << 8 | request[_MAD + 17]
        if class_ == _DIRECT:
            hops = request[_MAD + 7]
            place = self._image.walk(client.node, request[_MAD + 129 : _MAD + 129 + hops])
        else:
            place = self._image.lids.get(request[:2])
            if place is not None and place[0] not in client.reachable:
                place = None
        if place is None:
            return None
        if class_ == _ADMINISTRATION and code == _PATH_RECORD:
            return _paths(request)
        if request[_MAD + 3] != _GET:
            return _reply(request, _UNSUPPORTED_METHOD, request[_MAD + 64 :])
        if class_ == _PERFORMANCE:
            return self._performance(request, place, code, whole=client.whole)
        if class_ in {_SMI, _DIRECT}:
            return self._management(request, place, code)
        return None

    def _performance(
        self, request: bytes, place: tuple[int, int], code: int, *, whole: bool
    ) -> bytes:
        port = request[_MAD + 65]
        data = self._image.port_attribute(code | _PERFORMANCE << 8, place[0], port)
        if data is not None:
            return _reply(request, 0, request[_MAD + 64 : _MAD + 66] + data[2:])
        data = self._image.node_attribute(code | _PERFORMANCE << 8, place[0])
        if data is not None:
            if code != _CLASS_PORT_INFO:
                data = request[_MAD + 64 : _MAD + 66] + data[2:]
            elif not whole:  # do not claim what the client would read as garbage
                data = data[:4] + bytes(4) + data[8:]
            return _reply(request, 0, data)
        known = self._image.port_attribute(code | _PERFORMANCE << 8, place[0], 1)
        status = _UNSUPPORTED_ATTRIBUTE if known is None else _BAD_PARAMETER
        return _reply(request, status, request[_MAD + 64 :])

    def _management(self, request: bytes, place: tuple[int, int], code: int) -> bytes:
        node, arrival = place
        modifier = int.from_bytes(request[_MAD + 20 : _MAD + 24], "big")
        switch = self._image.nodes[node][2]
        if code == _PORT_INFO:
            wanted = modifier if switch else modifier or arrival
            data = self._image.port_attribute(code, node, wanted)
            if data is not None:
                data = data[:28] + bytes([arrival]) + data[29:]
        else:
            data = self._image.node_attribute(code, node)
            if data is not None and code == _NODE_INFO:
                data = _arrived(data, arrival)
        status = _UNSUPPORTED_ATTRIBUTE if data is None else 0
        data = data or b""
        return _reply(request, status, data + request[_MAD + 64 + len(data) :])

    def _send(self, client: Client, reply: bytes) -> None:
        client.backlog.append(reply)
        self._drain(client)

    def _drain(self, client: Client) -> None:
        try:
            while client.backlog:
                client.sock.send(client.backlog[0])
                client.backlog.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._forget(client.number)

    def _release(self) -> None:
        """Send what is due."""
        now = monotonic()
        for queue in (self._late, self._lost):
            while queue and queue[0][0] <= now:
                _, client, reply = queue.popleft()
                if client.sock.fileno() >= 0:
                    self._send(client, reply)


def _arrived(info: bytes, port: int) -> bytes:
    """NodeInfo as seen through one port: adapters tell that port's number and GUID."""
    guid = info[20:28] if info[2] == 2 else (int.from_bytes(info[12:20]) + port).to_bytes(8)
    return info[:20] + guid + info[28:36] + bytes([port]) + info[37:]


def _paths(request: bytes) -> bytes:
    """The table of paths as subnet administration gives it: all on service level 0."""
    made = bytearray(_reply(request, 0, b""))
    made[_MAD + 3] = request[_MAD + 3] | 0x80
    made[_MAD + 24 : _MAD + 36] = bytes((1, 1, 7, 0, 0, 0, 0, 1, 0, 0, 0, 220))  # one segment
    made[_MAD + 44 : _MAD + 46] = bytes((0, 8))  # a record is 64 bytes
    return bytes(made)


def _reply(request: bytes, status: int, data: bytes) -> bytes:
    """The request turned round: addresses swapped, method, status and attribute replaced."""
    direction = 0x80 if request[_MAD + 1] == _DIRECT else 0
    made = b"".join(
        (
            request[4:8],
            request[0:4],
            request[12:16],
            request[8:12],
            b"\0\0\0\0",
            request[20 : _MAD + 3],
            bytes((0x81, direction | status >> 8, status & 0xFF)),
            request[_MAD + 6 : _MAD + 64],
            data,
        )
    )
    return made if len(made) == _REQUEST else made + bytes(_REQUEST - len(made))


if __name__ == "__main__":
    server = Server(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.run(sys.stdin.buffer, sys.stdout)
