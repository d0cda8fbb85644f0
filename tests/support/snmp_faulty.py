"""An SNMP agent in the test's own event loop, whose replies a test can spoil."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.formats.snmp import snmp
from fabricmon.mappings.snmp import SnmpMappings
from fabricmon.model.readings import State
from fabricmon.simulate.agents.snmp.content import Content, Neighbour, Switch
from fabricmon.simulate.agents.snmp.responder import Responder
from support.snmp_targets import credential, target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from fabricmon.api import Target
    from fabricmon.formats.snmp.snmp import Pdu, Varbind
    from fabricmon.model.readings import Poll

COMMUNITY = "public"
MANY = tuple(f"Ethernet1/{i}" for i in range(1, 65))
"""Names of ports for more than one reply."""
QUEUES = (0, 3, 4)
COUNTED = {
    **dict.fromkeys(("rx_bytes", "tx_bytes", "rx_discards", "oper_up"), (-1,)),
    **dict.fromkeys(("rx_pfc_frames", "tx_pfc_frames"), QUEUES),
}
_MAPPINGS = SnmpMappings()


class FaultyAgent(asyncio.DatagramProtocol):
    """Answers from a table; `fault` turns a request and its reply into what is really sent."""

    def __init__(self, shown: Switch, flavour: str, counted: Mapping[str, tuple[int, ...]]) -> None:
        self.uptime_cs = 100_000
        self.fault: Any = lambda _request, reply: [reply]
        self.requests = 0
        self.transport: asyncio.DatagramTransport | None = None
        self.show(shown, flavour, counted)

    def show(
        self,
        switch: Switch,
        flavour: str = "nxos",
        counted: Mapping[str, tuple[int, ...]] = COUNTED,
    ) -> None:
        """Become this switch."""
        self.content = Content(switch, _MAPPINGS.profile(flavour), counted)
        self.table = self.content.table()
        self.responder = Responder(self.table, COMMUNITY.encode(), lambda: self.uptime_cs)
        self.set(lambda slot: 1_000 * (slot.port + 1) + slot.queue + len(slot.counter))

    def set(self, value: Callable[[Any], int]) -> None:
        """Give every moving object a value, by its slot."""
        slots = self.content.slots
        numbers = [1 if slot.wanted is not None else value(slot) for slot in slots]
        self.table.refresh(np.array(numbers, np.uint64))

    def connection_made(self, transport: Any) -> None:
        """Asyncio's."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Answer, as spoiled as the test wants it."""
        self.requests += 1
        assert self.transport is not None
        for reply in self.fault(data, self.responder.answer(data)):
            if reply is not None:
                self.transport.sendto(reply, addr)

    @property
    def address(self) -> str:
        """host:port, as a target's address."""
        assert self.transport is not None
        host, port = self.transport.get_extra_info("sockname")
        return f"{host}:{port}"


def switch(
    ports: Sequence[str] = ("Ethernet1/1", "Ethernet1/2", "Ethernet1/3"),
    name: str = "leaf1",
    neighbours: Sequence[Neighbour | None] = (),
) -> Switch:
    """A switch with these ports."""
    far = tuple(neighbours) or (None,) * len(ports)
    return Switch(name, tuple(ports), (400e9,) * len(ports), far)


@contextlib.asynccontextmanager
async def faulty(
    shown: Switch | None = None,
    flavour: str = "nxos",
    counted: Mapping[str, tuple[int, ...]] = COUNTED,
) -> AsyncIterator[FaultyAgent]:
    """Run one agent."""
    loop = asyncio.get_running_loop()
    transport, agent = await loop.create_datagram_endpoint(
        lambda: FaultyAgent(shown or switch(), flavour, counted), local_addr=("127.0.0.1", 0)
    )
    try:
        yield agent
    finally:
        transport.close()


def pdu(message: bytes) -> Pdu:
    """The PDU of a v2c message."""
    return snmp.decode(message, snmp.pdu_of(message)[1])


def rewrite(reply: bytes, varbinds: Sequence[Varbind], *, status: int = 0) -> bytes:
    """The same reply with other contents."""
    body = b"".join(map(snmp.encode_varbind, varbinds))
    made = snmp.response(pdu(reply).request_id, body, status=status)
    return snmp.message(COMMUNITY.encode(), made)


def here(agent: FaultyAgent, folder: Path, name: str = "leaf1") -> Target:
    """The target that an agent is."""
    return target(agent.address, credential(folder, {"community": COMMUNITY}), name)


def assert_whole(agent: FaultyAgent, poll: Poll) -> None:
    """The poll holds every value of the agent."""
    assert poll.lost == {}
    batch = poll.batches[0]
    assert (batch.state == State.OK).all()
    for k, column in enumerate(batch.columns):
        for slot in agent.content.slots:
            if (slot.counter, slot.queue) == (column.counter.id, column.queue):
                n = batch.ports.port.index(agent.content.switch.ports[slot.port])
                value = 1_000 * (slot.port + 1) + slot.queue + len(slot.counter)
                assert batch.values[k, n] == value


def is_bulk(request: bytes) -> bool:
    """Whether a request is a GETBULK."""
    return pdu(request).type == snmp.PduType.GETBULK
