"""Many datagrams in one call."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.datagrams import Inbox, Outbox, address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE, ROOM = 24, 8


@pytest.fixture(scope="module")
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    yield pair
    for end in pair:
        end.close()


@given(
    contents=st.lists(st.binary(min_size=SIZE, max_size=SIZE), min_size=1, max_size=40),
    data=st.data(),
)
def test_what_is_sent_arrives_in_order(
    contents: list[bytes], data: st.DataObject, ends: tuple[socket.socket, socket.socket]
) -> None:
    """Any choice of datagrams of a buffer, however many more than fit into one call."""
    places = data.draw(st.lists(st.integers(0, len(contents) - 1), max_size=30))
    buffer = bytearray(b"".join(contents))
    outbox, inbox = Outbox(SIZE, ROOM), Inbox(SIZE, ROOM)
    assert outbox.send(ends[0].fileno(), address_of(buffer), places) == len(places)
    arrived = b""
    while count := inbox.receive(ends[1].fileno()):
        assert count <= ROOM
        arrived += inbox.data[: count * SIZE]
    assert arrived == b"".join(contents[i] for i in places)


def test_a_datagram_of_another_size_is_zeros_and_costs_no_other(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """Too short and too long ones leave their neighbours whole."""
    inbox = Inbox(SIZE, ROOM)
    inbox.data[:] = b"x" * len(inbox.data)
    for content in (b"a" * SIZE, b"short", b"l" * 99, b"b" * SIZE):
        ends[0].send(content)
    assert inbox.receive(ends[1].fileno()) == 4
    assert inbox.data[: 4 * SIZE] == b"a" * SIZE + bytes(2 * SIZE) + b"b" * SIZE


def test_a_full_socket_takes_what_it_can(ends: tuple[socket.socket, socket.socket]) -> None:
    """How many went is told, and the rest goes later."""
    outbox, inbox = Outbox(SIZE, ROOM), Inbox(SIZE, ROOM)
    buffer = bytearray(SIZE)
    gone = outbox.send(ends[0].fileno(), address_of(buffer), [0] * 100_000)
    assert 0 < gone < 100_000
    assert outbox.send(ends[0].fileno(), address_of(buffer), [0]) == 0
    while inbox.receive(ends[1].fileno()):
        gone -= ROOM
    assert gone <= 0
    assert outbox.send(ends[0].fileno(), address_of(buffer), [0]) == 1
    assert inbox.receive(ends[1].fileno()) == 1


def test_a_peer_that_is_gone_is_an_error() -> None:
    """Sending to nobody raises, and so does receiving from a closed descriptor."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    there.close()
    with here, pytest.raises(ConnectionError):
        Outbox(SIZE, ROOM).send(here.fileno(), address_of(bytearray(SIZE)), [0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        Inbox(SIZE, ROOM).receive(here.fileno())
