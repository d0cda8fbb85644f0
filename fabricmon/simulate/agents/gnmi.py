"""Simulated devices that speak gNMI over gRPC: Capabilities, and Subscribe (STREAM, ONCE, POLL).

    agent = GnmiAgent("leaf1", mapping="cumulus")
    address = await agent.start()                # 127.0.0.1:PORT
    agent.update(batches)                        # sends what was subscribed to
    await agent.stop()

Time is that of the readings: a SAMPLE subscription is served when its interval has passed there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_proto import messages
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.mappings.gnmi_write import GnmiWriter
from fabricmon.simulate.agents.gnmi_stream import Leaf, Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Topology


class GnmiAgent:
    """One device. Give it the batches of the whole fabric; it takes what is its own."""

    def __init__(
        self,
        device: str,
        mapping: str = "cumulus",
        *,
        users: Mapping[str, str] | None = None,
        tls: tuple[bytes, bytes, bytes | None] | None = None,
        encodings: Sequence[str] = ("PROTO", "JSON_IETF", "JSON"),
    ) -> None:
        """`users` are names and passwords; `tls` is key, certificate, and the CA of clients."""
        self._encodings = tuple(encodings)
        self.device = device
        self._paths = GnmiPaths.load(mapping)
        self._writer = GnmiWriter(self._paths)
        self._users = dict(users or {})
        self.tls = tls
        """Key, certificate and the CA of clients, as of the next start."""
        self._leaves: dict[str, Leaf] = {}
        self._streams: set[Stream] = set()
        self._server: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.connections = 0
        """Subscriptions that were ever begun."""
        self.silent = False
        """Keep streams open, and send nothing; those begun meanwhile are answered afterwards."""

    async def start(self, address: str = "127.0.0.1:0", connection_age_s: float = 0.0) -> str:
        """Serve; the address with the port that was given.

        A connection older than `connection_age_s` is sent away (GOAWAY), if that is not 0.
        """
        import grpc  # noqa: PLC0415 - 30 MB that only served fabrics need

        age = [("grpc.max_connection_age_ms", round(connection_age_s * 1000))]
        age += [("grpc.max_connection_age_grace_ms", 500)]
        server = grpc.aio.server(options=age if connection_age_s else None)
        server.add_generic_rpc_handlers((_handlers(grpc, self),))
        host, _, _ = address.rpartition(":")
        if self.tls is None:
            port = server.add_insecure_port(address)
        else:
            key, certificate, client_ca = self.tls
            credentials = grpc.ssl_server_credentials(
                [(key, certificate)], client_ca, require_client_auth=client_ca is not None
            )
            port = server.add_secure_port(address, credentials)
        await server.start()
        self._server, self._loop = server, asyncio.get_running_loop()
        return f"{host}:{port}"

    async def stop(self, grace_s: float = 0.0) -> None:
        """End all streams (a GOAWAY, then `grace_s` for them to go)."""
        server, self._server = self._server, None
        for stream in list(self._streams):
            stream.close()
        if server is not None:
            await server.stop(grace_s)

    def neighbours(self, topology: Topology) -> None:
        """What LLDP tells at this device."""
        for link in topology.links:
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if near.device == self.device:
                    said = self._writer.neighbour(self._paths, near.port, far.device, far.port)
                    self._set(said, near.port, 0)

    def update(self, batches: Iterable[ReadingBatch]) -> None:
        """Take new readings, and send them to whoever subscribed. May be called from any thread."""
        loop, batches = self._loop, list(batches)
        if loop is None or loop is _running_loop():
            self._take(batches)
        else:
            loop.call_soon_threadsafe(self._take, batches)

    def _take(self, batches: Sequence[ReadingBatch]) -> None:
        for batch in batches:
            if self.device not in batch.ports.device:
                continue
            for port in self._writer.ports(batch):
                if port.device == self.device and port.leaves:
                    self._set(port.leaves, port.port, port.time_ns)
        if not self.silent:
            for stream in self._streams:
                self._send(stream)

    def _send(self, stream: Stream) -> None:
        stream.send(self._leaves, everything=not stream.synced)
        if not stream.synced:
            stream.sync()

    def say_also(self, path: str, value: float | str, port: str) -> None:
        """A leaf beside those that readings give, such as one that no mapping knows."""
        self._set([(path, value)], port, 0)

    def send_anyway(self, batches: Iterable[ReadingBatch]) -> None:
        """Send readings as they are: late ones, or such as were sent before."""
        for batch in batches:
            for port in self._writer.ports(batch):
                leaves = [
                    Leaf(path, gnmi_path.split(path), port.port, value, port.time_ns)
                    for path, value in port.leaves
                ]
                for stream in self._streams:
                    stream.push(leaves)

    def remove(self, port: str) -> None:
        """A port is gone: its leaves are deleted, and clients are told."""
        gone = [leaf for leaf in self._leaves.values() if leaf.port == port]
        for leaf in gone:
            del self._leaves[leaf.path]
        for stream in self._streams:
            stream.delete(gone)

    def _set(self, said: Iterable[tuple[str, int | float | str]], port: str, time_ns: int) -> None:
        for path, value in said:
            leaf = self._leaves.get(path)
            if leaf is None:
                leaf = Leaf(path, gnmi_path.split(path), port, value, time_ns)
                self._leaves[path] = leaf
            else:
                leaf.changed = leaf.changed or leaf.value != value
                leaf.value, leaf.time_ns = value, time_ns

    def allows(self, metadata: Sequence[tuple[str, str]]) -> bool:
        """Whether the caller's name and password are good."""
        given = dict(metadata)
        if not self._users:
            return True
        password = self._users.get(str(given.get("username")))
        return password is not None and password == given.get("password")

    async def subscribe(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The answers to one Subscribe call."""
        gnmi = messages()
        request = await anext(requests, None)
        if request is None or not request.HasField("subscribe"):
            return
        asked = request.subscribe.encoding
        if asked not in self.capabilities().supported_encodings:
            raise ValueError(f"encoding {asked} is not supported")
        stream = Stream(self.device, request.subscribe, gnmi)
        self.connections += 1
        self._streams.add(stream)
        try:
            if not self.silent:
                self._send(stream)
            if request.subscribe.mode == gnmi.ListMode.ONCE:
                stream.close()
            polling = None
            if request.subscribe.mode == gnmi.ListMode.POLL:
                polling = asyncio.create_task(self._poll(stream, requests))
            async for answer in stream.answers():
                yield answer
            if polling is not None:
                polling.cancel()
        finally:
            self._streams.discard(stream)

    async def _poll(self, stream: Stream, requests: AsyncIterator[Any]) -> None:
        async for request in requests:
            if request.HasField("poll"):
                stream.send(self._leaves, everything=True)
                stream.sync()
        stream.close()

    def capabilities(self) -> Any:
        """The answer to Capabilities."""
        gnmi = messages()
        answer = gnmi.CapabilityResponse(gNMI_version="0.10.0")
        for name in ("openconfig-interfaces", "openconfig-qos", "openconfig-lldp"):
            answer.supported_models.add(name=name, organization="OpenConfig", version="1.0.0")
        answer.supported_encodings.extend(getattr(gnmi.Encoding, name) for name in self._encodings)
        return answer

    def get(self, request: Any) -> Any:
        """The answer to Get: one notification a port with what lies under the paths."""
        gnmi = messages()
        wanted = gnmi.SubscriptionList(prefix=request.prefix, encoding=request.encoding)
        for path in request.path:
            wanted.subscription.add(path=path)
        stream = Stream(self.device, wanted, gnmi)
        stream.send(self._leaves, everything=True)
        return gnmi.GetResponse(notification=[answer.update for answer in stream.pending()])


class GnmiFabric:
    """One agent for each switch of a topology, each on a port of its own."""

    def __init__(self, topology: Topology, mapping: str = "cumulus") -> None:
        """Nothing listens before `start`."""
        self.agents = {
            node.name: GnmiAgent(node.name, mapping)
            for node in topology.nodes
            if node.kind == "switch"
        }
        self.addresses: dict[str, str] = {}
        for agent in self.agents.values():
            agent.neighbours(topology)

    async def start(self, host: str = "127.0.0.1") -> dict[str, str]:
        """Serve; addresses by device."""
        for name, agent in self.agents.items():
            self.addresses[name] = await agent.start(f"{host}:0")
        return self.addresses

    async def stop(self) -> None:
        """End all."""
        await asyncio.gather(*(agent.stop() for agent in self.agents.values()))

    def update(self, batches: Sequence[ReadingBatch]) -> None:
        """Give every agent its readings."""
        for agent in self.agents.values():
            agent.update(batches)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _handlers(grpc: Any, agent: GnmiAgent) -> Any:
    gnmi = messages()

    async def checked(context: Any) -> None:
        if not agent.allows(context.invocation_metadata() or ()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "unknown user or wrong password")

    async def subscribe(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        await checked(context)
        try:
            async for answer in agent.subscribe(aiter(requests)):
                yield answer
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    async def capabilities(_request: Any, context: Any) -> Any:
        await checked(context)
        return agent.capabilities()

    async def get(request: Any, context: Any) -> Any:
        await checked(context)
        return agent.get(request)

    return grpc.method_handlers_generic_handler(
        "gnmi.gNMI",
        {
            "Subscribe": grpc.stream_stream_rpc_method_handler(
                subscribe,
                request_deserializer=gnmi.SubscribeRequest.FromString,
                response_serializer=gnmi.SubscribeResponse.SerializeToString,
            ),
            "Capabilities": grpc.unary_unary_rpc_method_handler(
                capabilities,
                request_deserializer=gnmi.CapabilityRequest.FromString,
                response_serializer=gnmi.CapabilityResponse.SerializeToString,
            ),
            "Get": grpc.unary_unary_rpc_method_handler(
                get,
                request_deserializer=gnmi.GetRequest.FromString,
                response_serializer=gnmi.GetResponse.SerializeToString,
            ),
        },
    )
