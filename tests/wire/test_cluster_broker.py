"""The broker against a real nats-server: keys, log, and refusal of what is not as it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import pytest
from nats.js import api
from support.cluster import NatsServer

from fabricmon.api import Context
from fabricmon.config import ClusterConfig
from fabricmon.errors import ConfigError
from fabricmon.runtime.cluster.broker import Broker, differing
from fabricmon.runtime.cluster.follower import BrokerError
from fabricmon.runtime.cluster.shared import SharedConfig
from fabricmon.yamlfile import Document, loads

pytestmark = [pytest.mark.wire, pytest.mark.asyncio(loop_scope="function")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One server with an empty store."""
    made = NatsServer(tmp_path)
    made.start()
    yield made
    made.kill()


@pytest.fixture
async def broker(server: NatsServer, context: Context) -> AsyncIterator[Broker]:
    """A connection, with the log and the buckets made."""
    made = Broker(ClusterConfig(servers=[server.url]), context)
    await made.connect()
    await made.ensure()
    yield made
    await made.close()


async def test_a_key_is_written_by_who_knows_its_revision(broker: Broker) -> None:
    """New where it is new, then only over the latest; a purged key is new again."""
    first = await broker.swap(broker.leases, "shard.0", b"a", 0)
    assert first
    assert await broker.swap(broker.leases, "shard.0", b"b", 0) is None
    second = await broker.swap(broker.leases, "shard.0", b"b", first)
    assert second
    assert second > first
    assert await broker.swap(broker.leases, "shard.0", b"c", first) is None
    kept = await broker.keys(broker.leases)
    assert {key: (one.revision, one.value) for key, one in kept.items()} == {
        "shard.0": (second, b"b")
    }
    await broker.purge(broker.leases, "shard.0")
    assert await broker.keys(broker.leases) == {}
    assert await broker.swap(broker.leases, "shard.0", b"d", 0)


async def test_every_key_is_seen(broker: Broker) -> None:
    """More keys than the library holds back at once."""
    for number in range(400):
        await broker.put(broker.state, f"key.{number}", b"x")
    assert len(await broker.keys(broker.state)) == 400
    assert (await broker.get(broker.state, "key.7")) is not None
    assert await broker.get(broker.state, "nothing") is None


async def test_the_log_is_read_in_order_and_once(broker: Broker) -> None:
    """By two at their own pace, each from where it was; what is sent twice is stored once."""
    for number in range(600):
        headers = {"Nats-Msg-Id": f"m-{number}"}
        subject = f"{broker.prefix}.f.{number % 3}"
        assert await broker.append(subject, b"%d" % number, headers)
        if number % 100 == 0:
            assert not await broker.append(subject, b"again", headers)
    await broker.append(f"{broker.prefix}.other.0", b"of another fabric", {})
    for worker in ("a-1", "b-1"):
        follower = await broker.follow("f", worker, 0)
        seen: list[bytes] = []
        while messages := await follower.fetch():
            seen += [message.body for message in messages]
            await follower.done(messages[-1])
        assert seen == [b"%d" % number for number in range(600)]
        assert follower.pending == 0
        await follower.close()
    later = await broker.follow("f", "a-1", 590)
    assert [message.sequence for message in await later.fetch()] == list(range(591, 601))


async def test_a_consumer_that_is_gone_is_an_error_and_no_silence(
    broker: Broker, server: NatsServer
) -> None:
    """Somebody deleted it: reading does not wait for ever."""
    follower = await broker.follow("f", "a-1", 0)
    client = await nats.connect(server.url)
    await client.jetstream().delete_consumer(broker.log, "f-a-1")
    await client.close()

    async def read_on() -> None:
        for _ in range(20):
            await follower.fetch()

    with pytest.raises(BrokerError):
        await read_on()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"shards": 16}, "description is 32 shards, ttl 10s"),
        ({"ttl": 5.0}, "description is 32 shards, ttl 10s"),
        ({"history": 600.0}, "max_age is 1200"),
        ({"max_bytes": 1 << 30}, "max_bytes is"),
    ],
)
async def test_a_worker_with_other_settings_is_refused(
    broker: Broker, server: NatsServer, context: Context, changed: dict[str, float], words: str
) -> None:
    """What all must agree on is read back from the server, and named where it differs."""
    del broker
    config = ClusterConfig.model_validate({"servers": [server.url], **changed})
    other = Broker(config, context)
    await other.connect()
    with pytest.raises(ConfigError, match=words):
        await other.ensure()
    await other.close()


async def test_a_server_that_ignores_what_it_is_asked_is_refused(server: NatsServer) -> None:
    """Before 2.10 a setting that is not known is taken without a word; reading back tells."""
    client = await nats.connect(server.url)
    stream = client.jetstream()
    asked = {"subjects": ["x.>"], "compression": api.StoreCompression.S2}
    await stream.add_stream(api.StreamConfig(name="x", **asked))
    got = (await stream.stream_info("x")).config
    version = client.connected_server_version
    if (version.major, version.minor) < (2, 10):
        with pytest.raises(ConfigError, match="compression is None on the server, not s2"):
            differing("stream x", asked, got)
    else:
        differing("stream x", asked, got)
    await client.close()


async def test_clusters_of_other_names_do_not_meet(
    broker: Broker, server: NatsServer, context: Context
) -> None:
    """Two on one server, with settings of their own."""
    await broker.put(broker.state, "config", b"x")
    other = Broker(ClusterConfig(servers=[server.url], name="two", shards=8), context)
    await other.connect()
    await other.ensure()
    assert await other.keys(other.state) == {}
    await other.close()


class TestSharedConfig:
    """What is one cluster's config, and when a worker's file is news."""

    @staticmethod
    def file(interval: str, web: str = ":1") -> Document:
        """A worker's config file."""
        return loads(f"interval: {interval}\nweb: {{listen_address: '{web}'}}\n", file="f.yaml")

    async def test_the_first_file_becomes_everybody_s(self, broker: Broker) -> None:
        """One that joins with another file that is news changes it for all."""
        a, b = SharedConfig(broker), SharedConfig(broker)
        assert a.merged(self.file("10s")).data["interval"] == "10s"
        assert not await a.sync()
        b.merged(self.file("20s"))
        assert not await b.sync()
        assert await a.sync()
        merged = a.merged(self.file("10s", web=":7"))
        assert merged.data == {"interval": "20s", "web": {"listen_address": ":7"}}

    async def test_an_old_file_does_not_come_back_with_a_restart(self, broker: Broker) -> None:
        """A worker that was away while the others changed finds the cluster's config."""
        a, b = SharedConfig(broker), SharedConfig(broker)
        for one, interval in ((a, "10s"), (b, "10s"), (b, "20s")):
            one.merged(self.file(interval))
            await one.sync()
        restarted = SharedConfig(broker)
        restarted.merged(self.file("10s"))
        assert await restarted.sync()
        assert restarted.merged(self.file("10s")).data["interval"] == "20s"

    async def test_a_file_that_changes_back_is_news(self, broker: Broker) -> None:
        """An operator who takes a change back does so by the same way."""
        a, b = SharedConfig(broker), SharedConfig(broker)
        for interval in ("10s", "20s", "10s"):
            a.merged(self.file(interval))
            assert not await a.sync()
        b.merged(self.file("20s"))
        assert await b.sync()
        assert b.merged(self.file("20s")).data["interval"] == "10s"
