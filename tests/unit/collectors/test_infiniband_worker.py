"""The datagram worker and the subnet server, in one process so that both can be looked into."""

from __future__ import annotations

import io
import json
import os
import threading
from array import array
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.collectors.infiniband.native import worker
from fabricmon.collectors.infiniband.native.simulated import SimulatedPort
from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.ibfabric import IbFabric
from fabricmon.simulate.agents import ibsim_server
from fabricmon.simulate.agents.ibsim_image import SubnetImage
from fabricmon.simulate.agents.ibsim_replies import IMAGE_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

SWITCH, HOST = 0xB8, 0xC42
EXTENDED = mad.ATTRIBUTES["PortCountersExtended"]


class Subnet:
    """A host on port 1 of a switch, served from a thread."""

    def __init__(self, scratch: Path, name: str) -> None:
        """Not yet started."""
        fabric = IbFabric()
        fabric.node(SWITCH, "switch").description = "leaf"
        fabric.node(HOST, "host").description = "gpu mlx5_0"
        fabric.connect((SWITCH, 1), (HOST, 1))
        for node in fabric.nodes.values():
            node.port_count = 4 if node.kind == "switch" else 1
            node.ports[1].width, node.ports[1].speed = "4x", "XDR"
        fabric.give_lids()
        image = SubnetImage(fabric, wide=True)
        plan = image.plan()
        path = scratch / "image"
        path.write_bytes(bytes(IMAGE_HEADER) + image.bank() * 2)
        told = json.dumps({**plan, "name": name, "seed": 1, "image": str(path)})
        reading, self._tell = os.pipe()
        self._told, answering = os.pipe()
        self.name = name
        self._input = os.fdopen(reading, "rb")
        self._output = os.fdopen(answering, "w")
        self.server = ibsim_server.Server(json.loads(told))
        self._thread = threading.Thread(target=self.server.run, args=(self._input, self._output))
        self._thread.start()

    def tell(self, **command: object) -> int:
        """Have the server obey; how many datagrams it has received."""
        os.write(self._tell, json.dumps(command).encode() + b"\n")
        return int(os.read(self._told, 64))

    def stop(self) -> None:
        """End the thread."""
        os.close(self._tell)
        self._thread.join(5)
        self.server.close()
        self._input.close()
        self._output.close()
        os.close(self._told)


@pytest.fixture
def subnet(tmp_path: Path) -> Iterator[Subnet]:
    """A running subnet."""
    made = Subnet(tmp_path, f"fabricmon-unit-{os.getpid()}-{tmp_path.name}")
    yield made
    made.stop()


@pytest.fixture
def port(subnet: Subnet) -> Iterator[SimulatedPort]:
    """A client on the host."""
    made = SimulatedPort(subnet.name, f"H-{HOST:016x}")
    yield made
    made.close()


def frame(
    mads: NDArray[np.uint8], lids: list[int], *, kind: int = 0, first_tid: int = 1, retries: int = 1
) -> tuple[bytes, bytes]:
    """Header and body of one batch, each request a node of its own."""
    count = len(mads)
    pairs = np.full(count, int(kind == 0), np.uint8)
    records = mad.umad_records(mads, np.array(lids, np.uint16), pairs)
    tids = np.arange(first_tid, first_tid + count, dtype=np.uint32)
    records[:, 76:80] = tids.astype(">u4").view(np.uint8).reshape(-1, 4)
    head = worker.HEADER.pack(count, count, first_tid, 8, 2, 100, retries, 0)
    first = array("I", range(count + 1)).tobytes()
    return head, bytes([kind] * count) + first + records.tobytes()


def run(port: SimulatedPort, head: bytes, body: bytes) -> worker.Job:
    """Send one batch and collect it."""
    frame = worker.Frame(head, io.BytesIO(body).read)
    port.load(frame)
    job = worker.Job(port, frame, frame.first, frame.order())
    job.run()
    return job


def counters(ports: list[int]) -> NDArray[np.uint8]:
    """Requests for extended counters of these ports."""
    return mad.counter_requests(EXTENDED, np.array(ports, np.uint32))


def test_a_batch_is_answered_in_its_own_order(port: SimulatedPort) -> None:
    """Every request has its reply in its place, whatever order they came in."""
    job = run(port, *frame(counters([1, 2, 3, 4]), [1] * 4))
    replies = np.frombuffer(job.replies, np.uint8).reshape(-1, 256)
    assert list(job.states) == [worker.ANSWERED] * 4
    assert replies[:, mad.DATA + 1].tolist() == [1, 2, 3, 4]
    assert (mad.status(replies) == 0).all()


def test_a_lid_that_nobody_has_is_silent_and_costs_no_other(
    subnet: Subnet, port: SimulatedPort
) -> None:
    """It is sent again once, since nothing at all was heard of it, then given up."""
    subnet.tell(wire=[0.0, 0.0, 0.01])
    before = subnet.tell()
    job = run(port, *frame(counters([1, 1, 1]), [1, 999, 2], retries=2))
    assert list(job.states) == [worker.ANSWERED, worker.SILENT, worker.ANSWERED]
    assert subnet.tell() - before == 4


def test_what_never_comes_back_is_given_up_after_the_timeout(
    subnet: Subnet, port: SimulatedPort
) -> None:
    """A network that swallows requests without a word ends a batch too."""
    subnet.tell(wire=[0.0, 1.0, 60.0])
    job = run(port, *frame(counters([1, 2]), [1, 1], retries=0))
    assert list(job.states) == [worker.SILENT] * 2


def test_answers_to_an_earlier_batch_are_not_taken_for_this_one(
    subnet: Subnet, port: SimulatedPort
) -> None:
    """Transaction ids tell batches apart."""
    subnet.tell(wire=[0.15, 0.0, 1.0])
    late = run(port, *frame(counters([1]), [1], first_tid=1, retries=0))
    subnet.tell(wire=[0.0, 0.0, 1.0])
    job = run(port, *frame(counters([3]), [1], first_tid=2))
    assert list(late.states) == [worker.SILENT]
    assert job.replies[mad.DATA + 1] == 3


@pytest.mark.parametrize(
    ("attribute", "status"), [("PortRcvConCtrl", 12), ("PortCountersExtended", 28)]
)
def test_the_server_refuses_as_devices_do(attribute: str, status: int, port: SimulatedPort) -> None:
    """An attribute it does not have, and a port that is not there, have their own status."""
    mads = mad.counter_requests(mad.ATTRIBUTES[attribute], np.array([77], np.uint32))
    job = run(port, *frame(mads, [1]))
    replies = np.frombuffer(job.replies, np.uint8).reshape(-1, 256)
    assert mad.status(replies).tolist() == [status]


def test_management_by_lid_and_by_direct_route_reaches_the_same_node(
    port: SimulatedPort,
) -> None:
    """NodeInfo of the switch is the same both ways; speed and state of its port are right."""
    none = np.zeros(1, np.uint32)
    by_lid = run(port, *frame(mad.requests(mad.SMI_LID, mad.NODE_INFO, none), [1], kind=1))
    direct = mad.direct_requests(mad.NODE_INFO, none, [b"\1"])
    by_route = run(port, *frame(direct, [0xFFFF], kind=2, first_tid=9))
    guids = [
        mad.decode(
            np.frombuffer(j.replies, np.uint8).reshape(-1, 256)[:, 64:], mad.NODE_INFO_FIELDS
        )[3]
        for j in (by_lid, by_route)
    ]
    assert [int(g[0]) for g in guids] == [SWITCH, SWITCH]
    info = mad.direct_requests(mad.PORT_INFO, np.array([1], np.uint32), [b"\1"])
    job = run(port, *frame(info, [0xFFFF], kind=2, first_tid=20))
    replies = np.frombuffer(job.replies, np.uint8).reshape(-1, 256)
    found = mad.port_of(1, mad.decode(replies[:, 64:], mad.PORT_INFO_FIELDS)[:, 0])
    assert (found.width, found.speed, found.up) == ("4x", "XDR", True)
    assert found.speed_bps == 800e9


def test_a_cut_cable_makes_what_is_behind_it_silent(subnet: Subnet, port: SimulatedPort) -> None:
    """Neither by LID nor by direct route does anything come back."""
    subnet.tell(wire=[0.0, 0.0, 0.01], down=[[0, 1]])
    job = run(port, *frame(counters([1]), [1], retries=0))
    route = mad.direct_requests(mad.NODE_INFO, np.zeros(1, np.uint32), [b"\1"])
    direct = run(port, *frame(route, [0xFFFF], kind=2, first_tid=9, retries=0))
    assert list(job.states) == list(direct.states) == [worker.SILENT]


def test_batches_are_served_until_the_pipe_ends(port: SimulatedPort) -> None:
    """States, ages and replies follow each other for each batch."""
    body = b"".join(frame(counters([1, 2]), [1, 1])) + b"".join(
        frame(counters([3]), [1], first_tid=3)
    )
    out = io.BytesIO()
    worker.serve(port, io.BytesIO(body), out)
    assert len(out.getvalue()) == 3 * (1 + 8 + 256)
    assert out.getvalue()[:2] == b"\0\0"


def test_the_last_batch_is_sent_again_without_its_requests(port: SimulatedPort) -> None:
    """A header that says so is enough; the answers are new ones, by their transaction ids."""
    head, body = frame(counters([1, 2]), [1, 1])
    again = worker.HEADER.pack(2, 2, 7, 8, 2, 100, 1, 1)
    out = io.BytesIO()
    worker.serve(port, io.BytesIO(head + body + again), out)
    first, second = out.getvalue()[: 2 * 265], out.getvalue()[2 * 265 :]
    assert first[:2] == second[:2] == bytes([worker.ANSWERED] * 2)
    mads = np.frombuffer(second[18:], np.uint8).reshape(2, 256)
    assert mads[:, 15].tolist() == [7, 8]
    assert mads[:, mad.DATA + 1].tolist() == [1, 2]


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=9),
    window=st.integers(1, 9),
    node_window=st.integers(1, 4),
    deaf=st.sets(st.integers(0, 8)),
)
def test_no_node_and_no_wire_has_more_to_bear_than_its_window(
    sizes: list[int], window: int, node_window: int, deaf: set[int]
) -> None:
    """Every request is answered or given up, and neither window is ever exceeded."""
    wire = Loopback(sizes, deaf)
    count = sum(sizes)
    head = worker.HEADER.pack(count, len(sizes), 1, window, node_window, 1, 1, 0)
    first = np.cumsum([0, *sizes], dtype=np.uint32)
    body = io.BytesIO(bytes(count) + first.tobytes() + bytes(count * worker.RECORD))
    made = worker.Frame(head, body.read)
    job = worker.Job(wire, made, made.first, made.order())
    job.run()
    dead = [node in deaf for node in wire.node_of]
    assert [state == worker.SILENT for state in job.states] == dead
    assert [state == worker.ANSWERED for state in job.states] == [not d for d in dead]
    assert max(wire.most_at_once, default=0) <= node_window
    assert wire.most <= window


class Loopback:
    """A wire that answers one request at a time, last come first served, but not for the deaf."""

    def __init__(self, sizes: list[int], deaf: set[int]) -> None:
        """`sizes`: requests of each node."""
        self.node_of = [node for node, size in enumerate(sizes) for _ in range(size)]
        self._deaf, self._tids, self._open = deaf, array("I"), list[int]()
        self.most_at_once = [0] * len(sizes)
        self.most = 0

    def load(self, frame: worker.Frame) -> None:
        """Nothing of the requests matters."""

    def number(self, tids: array[int]) -> None:
        """Remember the ids as they stand on the wire."""
        self._tids = array("I", tids)
        self._tids.byteswap()

    def send(self, batch: Sequence[int]) -> list[int]:
        """Take requests and see how many there are at once."""
        self._open += batch
        self.most = max(self.most, len(self._open))
        for i in batch:
            node = self.node_of[i]
            now = sum(self.node_of[k] == node for k in self._open)
            self.most_at_once[node] = max(self.most_at_once[node], now)
        return []

    def receive(self, _timeout_ms: int) -> Sequence[worker.Arrival]:
        """An answer, or the request itself, marked as timed out."""
        i = self._open.pop()
        return [((110 * (self.node_of[i] in self._deaf), self._tids[i]), memoryview(bytes(256)))]

    def close(self) -> None:
        """Nothing is open."""


def test_a_subnet_that_is_not_there_is_told(subnet: Subnet) -> None:
    """No server, and a node the server does not know, are refused with a reason."""
    with pytest.raises(worker.CannotOpenError, match="no simulated subnet listens"):
        SimulatedPort("fabricmon-nobody", "")
    with pytest.raises(worker.CannotOpenError, match="refuses this client"):
        SimulatedPort(subnet.name, "H-unknown")


def test_without_a_port_the_library_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that cannot open anything gives a reason of the closed list."""

    class NoPorts:
        def umad_init(self) -> int:
            return 0

        def umad_open_port(self, _name: bytes | None, _port: int) -> int:
            return -13

    monkeypatch.setattr(worker, "_library", NoPorts)
    with pytest.raises(worker.CannotOpenError, match="cannot open mlx5_0:1") as caught:
        worker.Port("mlx5_0", 1)
    assert caught.value.reason == "permission"
