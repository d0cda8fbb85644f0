"""Messages: what was polled comes out as it went in, and what is not ours is refused."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.errors import FormatError, Reason
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.stream import PollFailure, Tick
from fabricmon.model.topology import Job, Link, Node, PortFacts, PortId, Topology
from fabricmon.runtime.cluster.message import HEADER, Stamp, Unpacker, pack, parts, word

COLUMNS = (
    Column(BY_ID["tx_bytes"], bits=32, source="1.3.6.1"),
    Column(BY_ID["ecn_marked_packets"], 3),
)
GAUGES = (Column(BY_ID["speed_bps"]),)


def batch(ports: int, seed: int = 1) -> ReadingBatch:
    """Random counts of some ports."""
    rng = np.random.default_rng(seed)
    names = PortSet(("leaf1",) * ports, tuple(f"Ethernet{i}" for i in range(ports)))
    values = rng.integers(0, 1 << 60, (2, ports), np.uint64)
    state = rng.integers(8, 10, (2, ports)).astype(np.uint8)
    time_ns = rng.integers(1 << 60, 1 << 61, ports)
    levels = rng.random((1, ports))
    return ReadingBatch(
        "leaf1", names, COLUMNS, values, state, time_ns, GAUGES, levels, discontinuity=True
    )


def equal(a: ReadingBatch, b: ReadingBatch) -> bool:
    """The same in every array and name."""
    arrays = ("values", "state", "time_ns", "gauges")
    plain = ("target", "ports", "columns", "gauge_columns", "discontinuity", "partial")
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in arrays) and all(
        getattr(a, n) == getattr(b, n) for n in plain
    )


@pytest.mark.parametrize("ports", [0, 1, 64])
def test_a_batch_comes_out_as_it_went_in(ports: int) -> None:
    """To the bit, with the same objects for the same names."""
    unpacker = Unpacker()
    first, second = (unpacker.item(pack(batch(ports, seed), "f")) for seed in (1, 2))
    assert isinstance(first, ReadingBatch)
    assert isinstance(second, ReadingBatch)
    assert equal(first, batch(ports, 1))
    assert equal(second, batch(ports, 2))
    assert first.ports is second.ports
    assert first.columns is second.columns


@pytest.mark.parametrize(
    "item",
    [
        Tick(1_700_000_000_123_456_789, 10.0),
        PollFailure("leaf1", "snmp", Reason.TIMEOUT, 17, "no answer"),
        Topology((Node("leaf1", "switch"),), (Link(PortId("a", "1"), PortId("b", "2"), 4e11),)),
    ],
)
def test_everything_else_does_too(item: Tick | PollFailure | Topology) -> None:
    """Ticks, failures and shapes."""
    assert Unpacker().item(pack(item, "f")) == item


def test_a_large_batch_goes_in_parts() -> None:
    """Each fits, and together they are the whole."""
    whole = batch(1000)
    found = [part for part in parts(whole, 16_384) if isinstance(part, ReadingBatch)]
    assert len(found) > 3
    assert all(len(pack(part, "f")) <= 16_384 for part in found)
    assert tuple(name for part in found for name in part.ports.port) == whole.ports.port
    assert np.array_equal(np.concatenate([part.values for part in found], axis=1), whole.values)
    assert np.array_equal(np.concatenate([part.time_ns for part in found]), whole.time_ns)


def test_a_large_shape_goes_in_parts() -> None:
    """Merged again they are the whole; jobs go once."""
    ids = [PortId(f"leaf{i}", "1") for i in range(12_000)]
    whole = Topology(
        tuple(Node(port.device, "switch") for port in ids),
        tuple(Link(a, b) for a, b in zip(ids[::2], ids[1::2], strict=True)),
        tuple(PortFacts(port, lanes=4) for port in ids),
        (Job("train", ("h1",)),),
    )
    found = [part for part in parts(whole, 1 << 20) if isinstance(part, Topology)]
    assert len(found) == 3
    assert [bool(part.jobs) for part in found] == [True, False, False]
    assert reduce(Topology.merged, found, Topology()) == whole


@given(st.binary(max_size=200))
def test_bytes_that_are_no_recording_are_refused(body: bytes) -> None:
    """Whoever may write to the log, it costs that message only."""
    with pytest.raises(FormatError):
        Unpacker().item(body)


@given(st.data())
def test_a_damaged_message_is_refused_or_read(data: st.DataObject) -> None:
    """A flipped byte never raises anything else."""
    body = bytearray(pack(batch(4), "f"))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(FormatError):
        Unpacker().item(bytes(body))


def test_a_stamp_survives_the_headers() -> None:
    """And its id differs by target, worker, lease and number."""
    one = Stamp("a-1", 5, 7, 9, 11, "leaf 1.x", "snmp", 0.5)
    assert Stamp.read(one.headers()) == one
    other = Stamp("a-1", 5, 8, 9, 11, "leaf 1.x", "snmp", 0.5)
    assert one.headers()["Nats-Msg-Id"] != other.headers()["Nats-Msg-Id"]


@pytest.mark.parametrize(
    "headers",
    [None, {}, {HEADER: "x"}, {HEADER: "[]"}, {HEADER: "{}"}, {HEADER: '["a",1,2,3]'},
     {HEADER: '["a","x",2,3,4,"t","c",0]'}, {HEADER: '["a",null,2,3,4,"t","c",0]'}],
)  # fmt: skip
def test_a_header_that_is_not_ours_is_refused(headers: dict[str, str] | None) -> None:
    """Foreign messages cost themselves."""
    with pytest.raises(FormatError):
        Stamp.read(headers)


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_words_are_safe_and_apart(one: str, other: str) -> None:
    """One token of a subject, valid in a key, and never the same for two names."""
    assert set(word(one)).isdisjoint(" .*>~%\t\r\n")
    assert (word(one) == word(other)) == (one == other)
