"""Live gNMI over gRPC on loopback: the collector against the simulated devices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.certificates import Authority
from support.gnmi_client import Client, batch, values

from fabricmon.api import Context, Credential, Target
from fabricmon.collectors.gnmi import GnmiCollector, GnmiConfig
from fabricmon.errors import PollError, Reason
from fabricmon.formats.gnmi.gnmi_proto import SERVICE, messages
from fabricmon.model.topology import Link, Node, PortId, Topology
from fabricmon.settings import Secret
from fabricmon.simulate.agents.gnmi import GnmiAgent, GnmiFabric
from fabricmon.testing import check_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fabricmon.testing import ManualClock

# One event loop for all: grpc keeps hold of the first it was used with.
pytestmark = [pytest.mark.wire, pytest.mark.asyncio(loop_scope="module")]


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
