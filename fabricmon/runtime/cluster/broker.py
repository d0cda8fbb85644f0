"""NATS JetStream as the cluster uses it: one log and two buckets of keys. The only NATS in here.

Servers before 2.10 take settings they do not know and say nothing. So only what 2.9 has is asked
for, and everything is read back: what differs is refused, naming the field.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fabricmon.errors import ConfigError
from fabricmon.runtime.cluster.follower import (
    MOST_FETCHED,
    BrokerError,
    Follower,
    library_errors,
)
from fabricmon.runtime.cluster.message import word
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabricmon.api import Context
    from fabricmon.config import ClusterConfig

_TIMEOUT_S = 2.0
_FORGOTTEN_S = 600.0
"""The server drops the consumer of a judge that has not asked for so long."""
_DUPLICATES_S = 120.0


@dataclass(frozen=True, slots=True)
class Kept:
    """One key of a bucket."""

    revision: int
    value: bytes


class Broker:
    """A connection that comes back by itself. Every call may raise `BrokerError`."""

    def __init__(self, config: ClusterConfig, context: Context) -> None:
        """Store; nothing else."""
        self._config, self._context = config, context
        self._client: Any = None
        self._stream_context: Any = None
        self.cluster = config.name
        self.prefix = f"fabricmon.{config.name}"
        self.log = f"fabricmon_{config.name}_log"
        self.leases, self.state = (
            f"fabricmon_{config.name}_leases",
            f"fabricmon_{config.name}_state",
        )
        self.store = 0
        """When the bucket of leases was made, microseconds; another one begins to count anew."""
        self.log_made = 0
        """The same of the log."""
        self.version = ""
        self.most_bytes = 1 << 20

    @property
    def connected(self) -> bool:
        """Whether there is a server at the other end now."""
        return self._client is not None and bool(self._client.is_connected)

    # --- life -------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Reach a server; later the library comes back by itself.

        Raises `ConfigError` where nats-py is missing.
        """
        if find_spec("nats") is None:
            raise ConfigError("this needs nats-py: install fabricmon[cluster]", key="cluster")
        if self._client is None:
            with library_errors():
                self._client = await self._reach()
            self._stream_context = self._client.jetstream(timeout=_TIMEOUT_S)
        if not self.connected:
            raise BrokerError("not connected")
        self.version = str(self._client.connected_server_version).strip("<>").split()[-1]
        self.most_bytes = min(int(self._client.max_payload), 64 << 20)

    async def _reach(self) -> Any:
        from nats.aio.client import Client  # noqa: PLC0415 - an extra, and 0.3 s

        client: Any = Client()
        try:
            async with asyncio.timeout(_TIMEOUT_S):  # by itself it tries for ever
                await client.connect(
                    servers=self._config.servers,
                    name="fabricmon",
                    connect_timeout=_TIMEOUT_S,
                    reconnect_time_wait=0.25,
                    max_reconnect_attempts=-1,
                    ping_interval=10,
                    max_outstanding_pings=2,
                    error_cb=self._trouble,
                    **self._config.access(),
                )
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self) -> None:
        """Let go."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # it is let go in any case, and says itself what it lost
                await asyncio.wait_for(client.close(), 0.5)

    async def _trouble(self, error: Exception) -> None:
        """The library reports here, again and again while a server is away."""
        self._context.report.emit(Event.CLUSTER_AWAY, error=str(error) or type(error).__name__)

    def _jetstream(self) -> Any:
        if not self.connected:
            raise BrokerError("not connected")
        return self._stream_context

    # --- what the server keeps --------------------------------------------------------------

    async def ensure(self) -> None:
        """Make the log and the buckets where they are not. Raises `ConfigError` if they differ."""
        config = self._config
        log = await self._stream(
            self.log,
            [f"{self.prefix}.>"],
            max_age=config.history,
            max_bytes=config.max_bytes,
            duplicate_window=min(_DUPLICATES_S, config.history),
        )
        about = f"{config.shards} shards, ttl {config.ttl:g}s"
        leases = await self._bucket(self.leases, about)
        await self._bucket(self.state, "config and open incidents")
        self.log_made, self.store = (
            round(info.created.timestamp() * 1e6) for info in (log, leases)
        )

    async def _bucket(self, name: str, description: str) -> Any:
        """A key-value bucket as the NATS tools know it, without what 2.9 does not."""
        from nats.js import api  # noqa: PLC0415 - see `connect`

        return await self._stream(
            f"KV_{name}",
            [f"$KV.{name}.>"],
            description=description,
            max_msgs_per_subject=1,
            allow_rollup_hdrs=True,
            deny_delete=True,
            discard=api.DiscardPolicy.NEW,
        )

    async def _stream(self, name: str, subjects: list[str], **asked: Any) -> Any:
        from nats.js import api  # noqa: PLC0415 - see `connect`
        from nats.js.errors import NotFoundError  # noqa: PLC0415

        asked = {
            "storage": api.StorageType.FILE,
            "retention": api.RetentionPolicy.LIMITS,
            "num_replicas": self._config.replicas,
            "subjects": subjects,
            **asked,
        }
        with library_errors():
            stream = self._jetstream()
            try:
                info = await stream.stream_info(name)
            except NotFoundError:
                await stream.add_stream(api.StreamConfig(name=name, **asked))
                info = await stream.stream_info(name)
        differing(f"stream {name}", asked, info.config)
        return info

    # --- keys -------------------------------------------------------------------------------

    async def keys(self, bucket: str) -> dict[str, Kept]:
        """Every key of a bucket as it stands now."""
        with library_errors():
            kv = self._key_value(bucket)
            watcher = await kv.watchall(ignore_deletes=True, inactive_threshold=5)
            found: dict[str, Kept] = {}
            try:
                while (entry := await watcher.updates(timeout=_TIMEOUT_S)) is not None:
                    found[entry.key] = Kept(entry.revision, entry.value or b"")
            finally:
                await watcher.stop()
            return found

    async def get(self, bucket: str, key: str) -> Kept | None:
        """One key, or None."""
        from nats.js.errors import KeyNotFoundError  # noqa: PLC0415 - see `connect`

        with library_errors():
            kv = self._key_value(bucket)
            try:
                entry = await kv.get(key)
            except KeyNotFoundError:
                return None
            return Kept(entry.revision, entry.value or b"")

    async def swap(self, bucket: str, key: str, value: bytes, last: int) -> int | None:
        """Write a key whose revision is `last` (0: it is new). The new one; None if it is not."""
        from nats.js.errors import KeyWrongLastSequenceError  # noqa: PLC0415 - see `connect`

        with library_errors():
            kv = self._key_value(bucket)
            try:
                return int(await kv.update(key, value, last=last))
            except KeyWrongLastSequenceError:
                return None

    async def put(self, bucket: str, key: str, value: bytes) -> int:
        """Write a key, whatever it was. Gives its revision."""
        with library_errors():
            kv = self._key_value(bucket)
            return int(await kv.put(key, value))

    async def purge(self, bucket: str, key: str) -> None:
        """Forget a key without a trace: a marker would keep it from being new again."""
        with library_errors():
            await self._jetstream().purge_stream(f"KV_{bucket}", subject=f"$KV.{bucket}.{key}")

    def _key_value(self, bucket: str) -> Any:
        from nats.js.kv import KeyValue  # noqa: PLC0415 - see `connect`

        pre = f"$KV.{bucket}."
        return KeyValue(bucket, f"KV_{bucket}", pre, self._jetstream(), direct=False)

    # --- the log ----------------------------------------------------------------------------

    async def append(self, subject: str, body: bytes, headers: dict[str, str]) -> bool:
        """Put a message into the log and wait until the server has it. False if it had it."""
        with library_errors():
            ack = await self._jetstream().publish(
                subject, body, stream=self.log, headers=headers, timeout=_TIMEOUT_S
            )
        return not ack.duplicate

    async def listen(self, subject: str, told: Any) -> None:
        """Call `told` with each message that comes from now on, reconnects included."""
        with library_errors():
            await self._client.subscribe(subject, cb=told)

    async def follow(self, fabric: str, worker: str, after: int) -> Follower:
        """Read the log of one fabric from the message behind `after` on, by a durable consumer."""
        from nats.js import api  # noqa: PLC0415 - see `connect`

        start: dict[str, Any] = {"deliver_policy": api.DeliverPolicy.ALL}
        if after:
            start = {
                "deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE,
                "opt_start_seq": after + 1,
            }
        name = f"{word(fabric)}-{worker}"
        asked = {
            **start,
            "filter_subject": f"{self.prefix}.{word(fabric)}.*",
            "ack_policy": api.AckPolicy.ALL,
            "ack_wait": 30.0,
            "max_ack_pending": 4 * MOST_FETCHED,
            "inactive_threshold": _FORGOTTEN_S,
        }
        with library_errors():
            stream = self._jetstream()
            with suppress(self._not_found()):
                await stream.delete_consumer(self.log, name)
            await stream.add_consumer(self.log, api.ConsumerConfig(durable_name=name, **asked))
            info = await stream.consumer_info(self.log, name)
            differing(f"consumer {name}", asked, info.config)
            subscription = await stream.pull_subscribe_bind(consumer=name, stream=self.log)
        return Follower(self, subscription, name, int(info.num_pending or 0))

    async def pending(self, name: str) -> int:
        """How many messages a consumer has not been given yet."""
        with library_errors():
            info = await self._jetstream().consumer_info(self.log, name)
            return int(info.num_pending or 0)

    async def forget(self, name: str) -> None:
        """Delete a consumer."""
        with library_errors():
            await self._jetstream().delete_consumer(self.log, name)

    @staticmethod
    def _not_found() -> type[Exception]:
        from nats.js.errors import NotFoundError  # noqa: PLC0415 - see `connect`

        error: type[Exception] = NotFoundError
        return error


def differing(what: str, asked: Mapping[str, Any], got: Any) -> None:
    """Compare what was asked of the server with what it says it has. Raises `ConfigError`."""
    for field, wanted in asked.items():
        has = getattr(got, field)
        same = abs(has - wanted) < 1e-6 if isinstance(wanted, float) and has else has == wanted
        if not same:
            raise ConfigError(
                f"{what}: {field} is {_plain(has)} on the server, not {_plain(wanted)}; "
                "it was made otherwise, or this server cannot do it",
                key="cluster",
            )


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)
