"""What a simulated InfiniBand subnet answers: bytes that stand ready-made in a mapped image.

The image is written by `ibsim.IbsimAgent`, in two banks of which one is current. Single requests
are answered one by one; what a fast client sends comes many at a time and is answered by columns.
"""

from __future__ import annotations

import mmap
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.tools import ibsim

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMAGE_HEADER = 16
"""Bytes before the first bank; the first says which one is current."""

_MAD = ibsim.HEADER
_DATA = _MAD + mad.DATA
_PORT = _DATA + 1
_ADMINISTRATION, _PATH_RECORD = 0x03, 0x35
_REPLY = 0x81
_UNSUPPORTED_METHOD, _UNSUPPORTED_ATTRIBUTE, _BAD_PARAMETER = 2 << 2, 3 << 2, 7 << 2
_WORTH_COLUMNS = 8
"""From so many requests at a time on, columns cost less than rows."""


class Image:
    """The mapped file and the structure of the subnet."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """`plan` is what the agent wrote beside the image."""
        with Path(plan["image"]).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._bank_size: int = plan["bank_size"]
        self._port_attributes = {int(k): tuple(v) for k, v in plan["port_attributes"].items()}
        self._node_attributes = {int(k): tuple(v) for k, v in plan["node_attributes"].items()}
        self.nodes: list[tuple[int, int, bool]] = [tuple(n) for n in plan["nodes"]]
        """(row of the first port, number of ports, whether it is a switch)"""
        self._shape = np.array(self.nodes, np.int64)
        self.names: dict[str, int] = plan["names"]
        self.host: int = plan["host"]
        self.links: dict[tuple[int, int], tuple[int, int]] = {}
        for a, port_a, b, port_b in plan["links"]:
            self.links[a, port_a], self.links[b, port_b] = (b, port_b), (a, port_a)
        self.down: set[tuple[int, int]] = set()
        self.silent: set[int] = set()
        self.take_lids(plan["lids"])

    def take_lids(self, lids: list[list[int]]) -> None:
        """[lid, node, port] for every LID."""
        self.lids = {lid.to_bytes(2, "big"): (node, port) for lid, node, port in lids}
        self._node_at = np.full(1 << 16, -1, np.int64)
        for lid, node, _ in lids:
            self._node_at[lid] = node

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

    def rows_of(self, nodes: NDArray[np.int64], ports: NDArray[np.uint8]) -> NDArray[np.int64]:
        """int64[M]: where ports of nodes stand in the image; -1 where there is no such port."""
        first, count, switch = self._shape[nodes].T
        row = ports + switch - 1
        there = (nodes >= 0) & (row >= 0) & (row < count)
        return np.where(there, first + row, -1)

    def node_at(self, lids: NDArray[np.uint16], reachable: NDArray[np.bool_]) -> NDArray[np.int64]:
        """int64[M]: the node that answers at each LID; -1 where none does."""
        nodes = self._node_at[lids]
        return np.where(reachable[nodes], nodes, -1)

    def table(self, code: int) -> NDArray[np.uint8] | None:
        """uint8[ports,size]: an attribute of every port; None where ports have no such."""
        if code not in self._port_attributes:
            return None
        offset, size = self._port_attributes[code]
        rows = int(self._shape[-1, :2].sum())
        at = self._base() + offset
        return self._bytes[at : at + rows * size].reshape(rows, size)

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

    def reachable(self, start: int) -> NDArray[np.bool_]:
        """bool[nodes]: whether a packet from `start` gets to each."""
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
        found = np.zeros(len(self.nodes), np.bool_)
        found[list(seen)] = True
        return found


class Replies:
    """Answers what one client asks."""

    def __init__(self, image: Image, node: int, *, whole: bool) -> None:
        """The client sits on `node`; `whole`: it sees all of a datagram."""
        self._image, self._node, self._whole = image, node, whole
        self.look()

    def look(self) -> None:
        """The subnet has changed: find out again who can be reached."""
        self._reachable = self._image.reachable(self._node)

    def answer(
        self, requests: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
        """uint8[M,288]: replies, and bool[M]: which requests get nowhere, None where all do.

        Those are given back as they came, marked as timed out: so the kernel does it.
        """
        if len(requests) < _WORTH_COLUMNS:
            done = np.zeros(len(requests), np.bool_)
            out = requests.copy()
        else:
            out, done = self._counted(requests)
        lost = np.zeros(len(requests), np.bool_)
        for i in np.flatnonzero(~done).tolist():
            request = requests[i].tobytes()
            reply = self.answer_one(request)
            if reply is None:
                reply, lost[i] = timed_out(request), True
            out[i] = np.frombuffer(reply, np.uint8)
        return out, lost if lost.any() else None

    def _counted(self, requests: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Replies to those that ask for counters of ports that are there, and which these are."""
        image = self._image
        out = ibsim.turn_round(requests)
        out[:, _MAD + 3] = _REPLY
        codes = requests[:, _MAD + 16].astype(np.int64) << 8 | requests[:, _MAD + 17]
        lids = requests[:, :2].copy().view(">u2")[:, 0].astype(np.uint16)
        nodes = image.node_at(lids, self._reachable)
        rows = image.rows_of(nodes, requests[:, _PORT])
        wanted = (requests[:, _MAD + 1] == mad.PERFORMANCE) & (requests[:, _MAD + 3] == mad.GET)
        wanted &= rows >= 0
        done = np.zeros(len(requests), np.bool_)
        for code in np.unique(codes[wanted]).tolist():
            table = image.table(code | mad.PERFORMANCE << 8)
            if table is not None:
                at = np.flatnonzero(wanted & (codes == code))
                out[at, _DATA + 2 : _DATA + table.shape[1]] = table[rows[at], 2:]
                done[at] = True
        return out, done

    def answer_one(self, request: bytes) -> bytes | None:
        """The reply, or None where the request gets nowhere."""
        class_ = request[_MAD + 1]
        code = request[_MAD + 16] << 8 | request[_MAD + 17]
        if class_ == mad.SMI_DIRECT:
            hops = request[_MAD + 7]
            place = self._image.walk(self._node, request[_MAD + 129 : _MAD + 129 + hops])
        else:
            place = self._image.lids.get(request[:2])
            if place is not None and not self._reachable[place[0]]:
                place = None
        if place is None:
            return None
        if class_ == _ADMINISTRATION and code == _PATH_RECORD:
            return _paths(request)
        if request[_MAD + 3] != mad.GET:
            return _reply(request, _UNSUPPORTED_METHOD, request[_DATA:])
        if class_ == mad.PERFORMANCE:
            return self._performance(request, place, code)
        if class_ in {mad.SMI_LID, mad.SMI_DIRECT}:
            return self._management(request, place, code)
        return None

    def _performance(self, request: bytes, place: tuple[int, int], code: int) -> bytes:
        port, whole_code = request[_PORT], code | mad.PERFORMANCE << 8
        data = self._image.port_attribute(whole_code, place[0], port)
        if data is not None:
            return _reply(request, 0, request[_DATA : _DATA + 2] + data[2:])
        data = self._image.node_attribute(whole_code, place[0])
        if data is not None:
            if code != mad.CLASS_PORT_INFO:
                data = request[_DATA : _DATA + 2] + data[2:]
            elif not self._whole:  # do not claim what the client would read as garbage
                data = data[:4] + bytes(4) + data[8:]
            return _reply(request, 0, data)
        known = self._image.port_attribute(whole_code, place[0], 1)
        status = _UNSUPPORTED_ATTRIBUTE if known is None else _BAD_PARAMETER
        return _reply(request, status, request[_DATA:])

    def _management(self, request: bytes, place: tuple[int, int], code: int) -> bytes:
        node, arrival = place
        modifier = int.from_bytes(request[_MAD + 20 : _MAD + 24], "big")
        switch = self._image.nodes[node][2]
        if code == mad.PORT_INFO:
            wanted = modifier if switch else modifier or arrival
            data = self._image.port_attribute(code, node, wanted)
            if data is not None:
                data = data[:28] + bytes([arrival]) + data[29:]
        else:
            data = self._image.node_attribute(code, node)
            if data is not None and code == mad.NODE_INFO:
                data = arrived(data, arrival)
        status = _UNSUPPORTED_ATTRIBUTE if data is None else 0
        data = data or b""
        return _reply(request, status, data + request[_DATA + len(data) :])


def timed_out(request: bytes) -> bytes:
    """The request as it comes back when nobody answered."""
    return request[:16] + ibsim.TIMED_OUT + request[20:]


def arrived(info: bytes, port: int) -> bytes:
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
    direction = 0x80 if request[_MAD + 1] == mad.SMI_DIRECT else 0
    made = b"".join(
        (
            request[4:8],
            request[0:4],
            request[12:16],
            request[8:12],
            b"\0\0\0\0",
            request[20 : _MAD + 3],
            bytes((_REPLY, direction | status >> 8, status & 0xFF)),
            request[_MAD + 6 : _DATA],
            data,
        )
    )
    return made if len(made) == ibsim.SIZE else made + bytes(ibsim.SIZE - len(made))
