"""Live gNMI over gRPC on loopback: the collector against the simulated devices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import pytest_asyncio
from support.certificates import Authority

from fabricmon.api import Context, Credential, Target
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.errors import PollError, Reason
from fabricmon.formats.gnmi_proto import SERVICE, messages
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.model.topology import Link, Node, PortId, Topology
from fabricmon.settings import Secret
from fabricmon.simulate.agents.gnmi import GnmiAgent, GnmiFabric
from fabricmon.testing import check_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from fabricmon.model.readings import Poll
    from fabricmon.testing import ManualClock

# One event loop for all: grpc keeps hold of the first it was used with.
pytestmark = [pytest.mark.wire, pytest.mark.asyncio(loop_scope="module")]

T0 = 1_764_460_800_000_000_000
S = 1_000_000_000
COLUMNS = (
    Column(BY_ID["rx_bytes"]),
    Column(BY_ID["rx_pfc_frames"], 3),
    Column(BY_ID["rx_pfc_ns"], 3),
)


def batch(
    seconds: float, value: int, ports: tuple[str, ...] = ("swp1", "swp2"), device: str = "leaf1"
) -> ReadingBatch:
    """What a device counts at some time; the same for every counter and port."""
    n = len(ports)
    return ReadingBatch(
        "sim",
        PortSet((device,) * n, ports),
        COLUMNS,
        np.full((3, n), value, np.uint64),
        np.zeros((3, n), np.uint8),
        np.full(n, T0 + round(seconds * S), np.int64),
        (Column(BY_ID["oper_up"]),),
        np.ones((1, n)),
    )


@pytest_asyncio.fixture(loop_scope="module")
async def agent() -> AsyncIterator[GnmiAgent]:
    """A device that serves one reading."""
    device = GnmiAgent("leaf1")
    device.update([batch(0, 5000)])
    yield device
    await device.stop()


class Client:
    """A collector with one target, and what a test asks of it."""

    def __init__(self, address: str, context: Context, **config: Any) -> None:
        """`credential` and `options` go to the target, the rest is the collector's config."""
        credential = config.pop("credential", None)
        options = config.pop("options", {"insecure": True})
        self.target = Target("f", "t", address, credential, "cumulus", options)
        self.collector = GnmiCollector(GnmiConfig(**config), [self.target], context)

    async def poll(self) -> Poll:
        """One poll, bounded."""
        async with asyncio.timeout(10):
            return await self.collector.poll(self.target)

    async def until(self, found: Callable[[Poll | PollError], bool]) -> Poll | PollError:
        """Poll until a result is as wanted."""
        async with asyncio.timeout(20):
            while True:
                try:
                    result: Poll | PollError = await self.collector.poll(self.target)
                except PollError as error:
                    result = error
                if found(result):
                    return result
                await asyncio.sleep(0.02)

    async def value(self, want: int, counter: str = "rx_bytes") -> Poll:
        """Poll until this value has come."""
        poll = await self.until(
            lambda r: not isinstance(r, PollError) and want in values(r, counter)
        )
        assert not isinstance(poll, PollError)
        return poll

    async def failure(self, reason: Reason) -> PollError:
        """Poll until this failure is told."""
        error = await self.until(lambda r: isinstance(r, PollError) and r.reason is reason)
        assert isinstance(error, PollError)
        return error


def values(poll: Poll, counter: str = "rx_bytes", port: str = "swp1") -> list[int]:
    """One counter of one port through the batches of a poll, in catalogue units."""
    found = []
    for one in poll.batches:
        if port not in one.ports.port:
            continue
        n = one.ports.port.index(port)
        for k, column in enumerate(one.columns):
            if column.counter.id == counter and one.state[k, n] == State.OK:
                found.append(int(one.values[k, n]) * column.scale)
    return found


@pytest.mark.parametrize("encoding", ["proto", "json_ietf", "json"])
@pytest.mark.parametrize("mode", ["stream", "poll", "once"])
async def test_every_mode_and_encoding(
    mode: str, encoding: str, agent: GnmiAgent, context: Context
) -> None:
    """The same counters come by every way of asking and in every encoding; µs become ns."""
    client = Client(await agent.start(), context, mode=mode, encoding=encoding)
    await client.collector.start()
    poll = await client.value(5000)
    assert values(poll, "rx_pfc_frames") == [5000]
    assert values(poll, "rx_pfc_ns") == [5000]
    assert poll.batches[0].gauges.tolist() == [[1.0, 1.0]]
    assert set(poll.batches[0].ports.device) == {"leaf1"}
    agent.update([batch(10, 9000)])
    assert values(await client.value(9000), "rx_pfc_ns") == [9000]
    await client.collector.stop()


async def test_the_encoding_is_what_the_device_has(context: Context) -> None:
    """A device without PROTO is asked for JSON by itself; one asked for the wrong one says so."""
    device = GnmiAgent("leaf1", encodings=["JSON"])
    device.update([batch(0, 5000)])
    address = await device.start()
    client = Client(address, context)
    await client.collector.start()
    await client.value(5000)
    await client.collector.stop()
    client = Client(address, context, encoding="proto")
    await client.collector.start()
    assert "not supported" in str(await client.failure(Reason.UNEXPECTED))
    await client.collector.stop()
    await device.stop()


async def test_what_was_asked_for_names_nobody(context: Context) -> None:
    """Where a device wants a word as target and repeats it, the device keeps its own name."""
    device = GnmiAgent("nvos")
    device.update([batch(0, 5000, device="nvos")])
    options = {"insecure": True, "target": "nvos"}
    client = Client(await device.start(), context, options=options)
    await client.collector.start()
    poll = await client.value(5000)
    assert set(poll.batches[0].ports.device) == {"t"}
    await client.collector.stop()
    await device.stop()


async def test_keeps_the_promises_of_a_collector(agent: GnmiAgent, context: Context) -> None:
    """Lifecycle, config and cancellation are as every collector promises."""
    target = Target("f", "t", await agent.start(), None, "cumulus", {"insecure": True})
    await check_collector(lambda: GnmiCollector(GnmiConfig(), [target], context), target)


async def test_a_restart_is_survived(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """A server that goes (with a GOAWAY) and comes back: down at once, up again, no old value."""
    address = await agent.start()
    client = Client(address, context)
    await client.collector.start()
    await client.value(5000)
    await agent.stop()
    await client.failure(Reason.UNREACHABLE)
    await agent.start(address)
    agent.update([batch(30, 12)])
    async with asyncio.timeout(20):
        while agent.connections < 2:
            await clock.advance(5)
            await asyncio.sleep(0.02)
    assert values(await client.value(12)) == [12]
    await client.collector.stop()


async def test_silence_is_noticed_and_ended(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """An open stream that says nothing is down after the silence, and is subscribed anew."""
    client = Client(await agent.start(), context, silence="30s")
    await client.collector.start()
    await client.value(5000)
    agent.silent = True
    await clock.advance(31)
    assert "silent" in str(await client.failure(Reason.NO_DATA))
    agent.silent = False
    agent.update([batch(60, 6000)])
    async with asyncio.timeout(20):
        while agent.connections < 2:
            await clock.advance(5)
            await asyncio.sleep(0.02)
    await client.value(6000)
    await client.collector.stop()


async def test_silence_is_two_sample_intervals(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """It is told then and not before; a device that is merely slower than asked gets longer."""
    client = Client(await agent.start(), context, interval="10s")
    await client.collector.start()
    for second in (10, 20):
        await client.value(5000 if second == 10 else 5010)
        agent.update([batch(second, 5000 + second)])
    await client.value(5020)
    agent.silent = True
    await clock.advance(19.5)
    assert not (await client.poll()).batches
    await clock.advance(0.5)
    with pytest.raises(PollError, match="silent"):
        await client.poll()
    agent.silent = False
    agent.update([batch(60, 6000)])
    async with asyncio.timeout(20):
        while agent.connections < 2:
            await clock.advance(1)
            await asyncio.sleep(0.02)
    await client.value(6000)
    await clock.advance(20)
    await client.failure(Reason.NO_DATA)
    agent.update([batch(100, 7000)])
    async with asyncio.timeout(20):
        while agent.connections < 3:
            await clock.advance(1)
            await asyncio.sleep(0.02)
    await client.value(7000)
    await clock.advance(39.5)
    assert not (await client.poll()).batches
    await client.collector.stop()


async def test_who_is_sent_away_comes_back_unseen(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """A stream that ends after a while is begun anew at once, and a poll meanwhile waits for it."""
    client = Client(await agent.start(), context)
    await client.collector.start()
    await client.value(5000)
    await clock.advance(11)
    agent.update([batch(20, 6000)])
    await client.value(6000)
    for stream in list(agent._streams):
        stream.close()
    session = client.collector._session(client.target)
    for _ in range(500):
        if not session.synced:
            break
        await asyncio.sleep(0.02)
    agent.update([batch(30, 7000)])
    poll = asyncio.create_task(client.poll())
    for _ in range(500):
        if poll.done():
            break
        await clock.advance(1)
        await asyncio.sleep(0.02)
    assert values(await poll) == [7000]
    await client.collector.stop()


async def test_connected_is_not_synchronised(
    agent: GnmiAgent, context: Context, clock: ManualClock
) -> None:
    """A device that accepts the stream and never ends its first answer is not up."""
    agent.silent = True
    client = Client(await agent.start(), context, sync_timeout="20s")
    await client.collector.start()
    poll = asyncio.create_task(client.poll())
    for _ in range(500):
        if agent.connections:
            break
        await asyncio.sleep(0.02)
    assert not poll.done()
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await clock.advance(21)
    session = client.collector._session(client.target)
    session._watch()
    error = await client.failure(Reason.NO_DATA)
    assert "not synchronised" in str(error)
    await client.collector.stop()


async def test_repeated_and_late_updates_change_nothing(agent: GnmiAgent, context: Context) -> None:
    """The same sample again, and an older one after a newer, are dropped: no wrong rate."""
    client = Client(await agent.start(), context)
    await client.collector.start()
    await client.value(5000)
    agent.update([batch(20, 9000)])
    await client.value(9000)
    agent.update([batch(20, 9000)])
    stream = next(iter(agent._streams))
    old = stream._notification([leaf for leaf in agent._leaves.values() if leaf.port == "swp1"])
    old.update.timestamp = T0 + 10 * S
    stream._queue.put_nowait(old)
    agent.update([batch(30, 9500)])
    poll = await client.value(9500)
    assert values(poll) == [9500]
    await client.collector.stop()


async def test_deletes_end_series(agent: GnmiAgent, context: Context) -> None:
    """After a delete a port is named no longer; a state that was not sent again stays."""
    client = Client(await agent.start(), context)
    await client.collector.start()
    await client.value(5000)
    agent.remove("swp1")
    agent.update([batch(20, 7000, ("swp2",))])
    poll = await client.until(
        lambda r: not isinstance(r, PollError) and 7000 in values(r, port="swp2")
    )
    assert not isinstance(poll, PollError)
    (one,) = poll.batches
    assert one.ports.port == ("swp2",)
    assert one.gauges.tolist() == [[1.0]]
    agent.update([batch(30, 8000)])
    poll = await client.value(8000)
    assert set(poll.batches[-1].ports.port) == {"swp1", "swp2"}
    await client.collector.stop()


async def test_a_full_buffer_drops_visibly(agent: GnmiAgent, context: Context) -> None:
    """What nobody polls is dropped from the old end, and the loss is counted."""
    client = Client(await agent.start(), context, buffer=1000, interval="1s")
    await client.collector.start()
    await client.value(5000)
    for i in range(600):
        agent.update([batch(10 + i, 6000 + i)])
        if i % 50 == 0:
            await asyncio.sleep(0.01)
    lost = 0
    session = client.collector._session(client.target)
    for _ in range(1000):
        if session._lost:
            break
        await asyncio.sleep(0.02)
    async with asyncio.timeout(20):
        while True:
            await asyncio.sleep(0.1)
            poll = await client.poll()
            lost += poll.lost.get(Reason.LIMIT, 0)
            if 6599 in values(poll):
                break
    assert lost > 0
    await client.collector.stop()


async def test_names_and_passwords(tmp_path: Path, context: Context) -> None:
    """A wrong password is an authentication failure; the right one, from a file, gets in."""
    device = GnmiAgent("leaf1", users={"admin": "s3cret"})
    device.update([batch(0, 5000)])
    address = await device.start()
    for password, good in (("wrong", False), ("s3cret", True)):
        file = tmp_path / password
        file.write_text(password + "\n")
        credential = Credential("c", {"password": Secret(file=file)}, {"username": "admin"})
        client = Client(address, context, credential=credential)
        await client.collector.start()
        if good:
            await client.value(5000)
        else:
            error = await client.failure(Reason.AUTHENTICATION)
            assert "wrong\n" not in str(error)
        await client.collector.stop()
    await device.stop()


async def test_a_device_that_repeats_the_password(tmp_path: Path, context: Context) -> None:
    """What a device says in an error is told, but not the secret it was given."""
    import grpc

    async def subscribe(_requests: Any, call: Any) -> AsyncIterator[Any]:
        given = dict(call.invocation_metadata())
        await call.abort(grpc.StatusCode.PERMISSION_DENIED, f"no {given['password']} here\nmore")
        yield b""

    handler = grpc.stream_stream_rpc_method_handler(subscribe)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("gnmi.gNMI", {"Subscribe": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    file = tmp_path / "password"
    file.write_text("canary-4711\n")
    credential = Credential("c", {"password": Secret(file=file)}, {"username": "admin"})
    client = Client(f"127.0.0.1:{port}", context, credential=credential)
    await client.collector.start()
    error = await client.failure(Reason.PERMISSION)
    assert "no <secret> here" in str(error)
    assert "4711" not in str(error)
    assert error.__cause__ is None
    await client.collector.stop()
    await server.stop(0)


async def test_mutual_tls_and_renewed_certificates(
    tmp_path: Path, context: Context, clock: ManualClock
) -> None:
    """A client without a good certificate stays out; one renewed on disk gets in, by itself."""
    good, other = Authority(tmp_path, "good"), Authority(tmp_path, "other")
    certificate, key = (file.read_bytes() for file in good.issue("leaf1"))
    device = GnmiAgent("leaf1", tls=(key, certificate, good.file.read_bytes()))
    device.update([batch(0, 5000)])
    address = await device.start()
    names = {word: tmp_path / word for word in ("ca", "cert", "key")}
    names["ca"].write_bytes(good.file.read_bytes())
    for name, file in zip(("cert", "key"), other.issue("stranger"), strict=True):
        names[name].write_bytes(file.read_bytes())
    credential = Credential(
        "c",
        {"key": Secret(file=names["key"])},
        {"ca": str(names["ca"]), "cert": str(names["cert"])},
    )
    client = Client(address, context, credential=credential, options={})
    await client.collector.start()
    await client.until(lambda r: isinstance(r, PollError))
    for name, file in zip(("cert", "key"), good.issue("fabricmon"), strict=True):
        names[name].write_bytes(file.read_bytes())
    async with asyncio.timeout(20):
        while device.connections < 1:
            await clock.advance(5)
            await asyncio.sleep(0.05)
    await client.value(5000)
    await client.collector.stop()
    await device.stop()


async def test_a_plain_client_reads_the_simulated_fabric() -> None:
    """Capabilities, Get, and Subscribe ONCE by nothing but grpc and the messages; LLDP included."""
    import grpc

    link = Link(PortId("leaf1", "swp1"), PortId("gpu1", "eth0"))
    nodes = (Node("leaf1", "switch"), Node("gpu1", "host"))
    fabric = GnmiFabric(Topology(nodes, (link,)))
    (address,) = (await fabric.start()).values()
    fabric.update([batch(0, 77)])
    gnmi = messages()
    async with grpc.aio.insecure_channel(address) as channel:
        capabilities = channel.unary_unary(
            f"{SERVICE}Capabilities",
            request_serializer=gnmi.CapabilityRequest.SerializeToString,
            response_deserializer=gnmi.CapabilityResponse.FromString,
        )
        answer = await capabilities(gnmi.CapabilityRequest())
        assert gnmi.Encoding.PROTO in answer.supported_encodings
        subscribe = channel.stream_stream(
            f"{SERVICE}Subscribe",
            request_serializer=gnmi.SubscribeRequest.SerializeToString,
            response_deserializer=gnmi.SubscribeResponse.FromString,
        )
        request = gnmi.SubscribeRequest()
        request.subscribe.mode = gnmi.ListMode.ONCE
        request.subscribe.encoding = gnmi.Encoding.PROTO
        request.subscribe.subscription.add().path.elem.add(name="interfaces")
        request.subscribe.subscription.add().path.elem.add(name="lldp")
        call = subscribe()
        await call.write(request)
        leaves: dict[str, Any] = {}
        synced = False
        while (message := await call.read()) is not grpc.aio.EOF:
            synced = synced or message.sync_response
            for update in message.update.update:
                name = "/".join(elem.name for elem in update.path.elem)
                leaves[name] = getattr(update.val, update.val.WhichOneof("value"))
    assert synced
    assert leaves["interfaces/interface/state/counters/in-octets"] == 77
    assert leaves["lldp/interfaces/interface/neighbors/neighbor/state/system-name"] == "gpu1"
    await fabric.stop()


async def test_topology_from_lldp(context: Context) -> None:
    """The cables that a device's LLDP names are what the collector discovers."""
    link = Link(PortId("leaf1", "swp1"), PortId("gpu1", "eth0"))
    device = GnmiAgent("leaf1")
    device.neighbours(Topology((), (link,)))
    device.update([batch(0, 5000)])
    client = Client(await device.start(), context)
    await client.collector.start()
    await client.value(5000)
    topology = await client.collector.discover(client.target)
    assert topology is not None
    assert topology.links == (link,)
    await client.collector.stop()
    await device.stop()


async def test_nobody_there(context: Context) -> None:
    """A refused connection says so at once, and the mapping's name is checked."""
    client = Client("127.0.0.1:1", context)
    await client.collector.start()
    error = await client.until(lambda r: isinstance(r, PollError))
    assert isinstance(error, PollError)
    assert error.reason in (Reason.REFUSED, Reason.UNREACHABLE)
    await client.collector.stop()
    bad = GnmiCollector(GnmiConfig(), [Target("f", "x", "h:1", mapping="nonsense")], context)
    with pytest.raises(PollError, match="nonsense"):
        await bad.poll(Target("f", "x", "h:1", mapping="nonsense"))
