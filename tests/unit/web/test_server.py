"""The server as Prometheus and its operators know exporters."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.selfmon import events
from support.snapshots import make_frame, make_snapshot, make_table
from support.webstate import HandState, Served

from fabricmon.api import Page
from fabricmon.errors import ConfigError, PollError, Reason
from fabricmon.testing.contract import check_lifecycle
from fabricmon.web import WebConfig, WebServer
from fabricmon_exporters.prometheus import exporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from fabricmon.api import Context

    Serve = Callable[..., AbstractAsyncContextManager[Served]]


async def test_the_server_is_a_component(context: Context) -> None:
    """Constructing touches nothing; it stops at once, twice, and starts again."""
    config = WebConfig(listen_address="127.0.0.1:0")
    await check_lifecycle(lambda: WebServer(config, context, HandState(), None))


def test_importing_the_room_does_not_import_aiohttp() -> None:
    """`fabricmon check` builds the server and must not pay half a second for it."""
    code = "import sys, fabricmon.web; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_ready_follows_the_first_poll_cycle(serve: Serve) -> None:
    """Healthy at once; ready only after everything was polled once."""
    async with serve() as served:
        assert (await served.get("/-/healthy"))[0] == 200
        assert (await served.get("/-/ready"))[0] == 503
        served.state.is_ready = True
        assert (await served.get("/-/ready"))[0] == 200


async def test_the_page_is_served_plain_and_gzipped(serve: Serve) -> None:
    """The same metrics either way, with the exposition format's content type."""
    async with serve() as served:
        served.exporter.publish(make_snapshot(make_table([("a", "1")]), make_frame(1)))
        _, plain, headers = await served.get("/metrics", headers={"Accept-Encoding": "identity"})
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "Content-Encoding" not in headers
        _, packed, headers = await served.get("/metrics", headers={"Accept-Encoding": "gzip"})
        assert headers["Content-Encoding"] == "gzip"
        assert packed == plain
        assert 'fabricmon_port_receive_bytes_total{device="a",fabric="pod1",port="1"} 1\n' in plain


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, identity", False),
        ("br", False),
        ("x-gzipped", False),
    ],
)
async def test_gzip_is_sent_to_whoever_takes_it(
    serve: Serve, accepted: str, *, packed: bool
) -> None:
    """By name and weight, not by a word somewhere in the header."""
    async with serve() as served:
        _, text, headers = await served.get("/metrics", headers={"Accept-Encoding": accepted})
        assert (headers.get("Content-Encoding") == "gzip") is packed
        assert "fabricmon_build_info" in text


async def test_openmetrics_is_served_by_accept(serve: Serve) -> None:
    """A scraper that prefers OpenMetrics gets it, ended by # EOF."""
    async with serve() as served:
        accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
        _, text, headers = await served.get("/metrics", headers=accept)
        assert headers["Content-Type"].startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")


async def test_a_large_page_arrives_whole(serve: Serve) -> None:
    """Pages beyond one chunk are streamed, plain and gzipped."""
    async with serve() as served:
        ports = [(f"leaf{i}", f"e{j}") for i in range(100) for j in range(64)]
        served.exporter.publish(make_snapshot(make_table(ports), make_frame(len(ports))))
        for encoding in ("identity", "gzip"):
            _, text, _ = await served.get("/metrics", headers={"Accept-Encoding": encoding})
            assert text.count("\nfabricmon_port_receive_bytes_total{") == 6400


async def test_a_bad_query_is_a_400_with_a_reason(serve: Serve) -> None:
    """Not an empty page, and not a 500."""
    async with serve() as served:
        status, text, _ = await served.get("/metrics?collect[]=nope")
        assert (status, "unknown collect[] 'nope'" in text) == (400, True)


async def test_an_address_that_is_taken_is_one_clear_error(serve: Serve, context: Context) -> None:
    """It names the address, and what was begun is let go."""
    async with serve() as served:
        config = WebConfig(listen_address=f"127.0.0.1:{served.server.port}")
        with pytest.raises(ConfigError, match=r"web.listen_address: cannot listen on 127.0.0.1:"):
            await WebServer(config, context, HandState(), None).start()


async def test_fifty_scrapes_at_once_share_one_render(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All get the same page, which is put together once."""
    async with serve(max_concurrent_scrapes=50) as served:
        served.exporter.publish(make_snapshot(make_table([("a", "1")]), make_frame(1)))
        made: list[int] = []
        assemble = exporter.assemble
        monkeypatch.setattr(
            exporter,
            "assemble",
            lambda parts, *, openmetrics: (
                made.append(1),
                assemble(parts, openmetrics=openmetrics),
            )[1],
        )
        answers = await asyncio.gather(*(served.get("/metrics") for _ in range(50)))
        assert {status for status, _, _ in answers} == {200}
        assert len({text for _, text, _ in answers}) == 1
        assert len(made) == 1


class _Slow:
    """A page source that waits to be let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def page(self, query: Mapping[str, Sequence[str]], *, openmetrics: bool) -> Page:
        """Wait."""
        del query, openmetrics
        self.begun.release()
        self.go.wait(10)
        return Page(b"x 1\n", "text/plain", gzip.compress(b"x 1\n"))


async def test_scrapes_beyond_the_cap_are_refused_not_queued(context: Context) -> None:
    """The third scrape of two gets 503 with Retry-After at once; the refusal is counted."""
    source = _Slow()
    config = WebConfig(listen_address="127.0.0.1:0", max_concurrent_scrapes=2)
    server = WebServer(config, context, HandState(), source)
    await server.start()
    try:
        served = Served(server, HandState(), source)  # type: ignore[arg-type]
        waiting = [asyncio.ensure_future(served.get("/metrics")) for _ in range(2)]
        for _ in range(2):
            await asyncio.to_thread(source.begun.acquire, timeout=10)
        status, _, headers = await served.get("/metrics")
        assert (status, headers["Retry-After"]) == (503, "1")
        source.go.set()
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200, 200]
        assert events(context, "scrape_refused") == 1
    finally:
        source.go.set()
        await server.stop()


@pytest.fixture
def many_files() -> Iterator[None]:
    """A limit of open files that a thousand connections fit in."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _quickest(served: Served) -> float:
    """The least that a scrape takes, seconds; of several, since the machine may be busy."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        status, _, _ = await served.get("/metrics")
        times.append(time.perf_counter() - begun)
        assert status == 200
    return min(times)


@pytest.mark.usefixtures("many_files")
async def test_a_thousand_slow_connections_do_not_delay_a_scrape(serve: Serve) -> None:
    """Half-open ones give way, the longest idle first; a scrape takes no second longer."""
    async with serve() as served:
        served.exporter.publish(make_snapshot(make_table([("a", "1")]), make_frame(1)))
        alone = await _quickest(served)
        slow = []
        for _ in range(1000):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
            slow.append((reader, writer))
        assert await _quickest(served) - alone < 1
        async with asyncio.timeout(20):
            assert await slow[0][0].read() == b""
        for _, writer in slow:
            writer.close()


class _Large:
    """A page that no socket's buffers hold."""

    def page(self, query: Mapping[str, Sequence[str]], *, openmetrics: bool) -> Page:
        """The same each time."""
        del query, openmetrics
        return _LARGE


_LARGE = Page(b"x 1\n" * (1 << 22), "text/plain", gzip.compress(b"x 1\n" * 64))


async def test_slow_readers_do_not_keep_a_scrape_out(context: Context) -> None:
    """Those who ask for a large page and do not read it hold no slot that a scrape needs."""
    config = WebConfig(listen_address="127.0.0.1:0", max_concurrent_scrapes=4)
    server = WebServer(config, context, HandState(), _Large())
    await server.start()
    try:
        readers = []
        for _ in range(40):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            readers.append(writer)
        served = Served(server, HandState(), _Large())  # type: ignore[arg-type]
        status, text, _ = await served.get("/metrics")
        assert (status, text) == (200, "x 1\n" * 64)
        for writer in readers:
            writer.close()
    finally:
        await server.stop()


async def test_a_request_that_drips_is_cut_off(serve: Serve) -> None:
    """Sending one byte now and then does not keep a connection beyond the request time-out."""
    async with serve(request_timeout="300ms") as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nX: ")

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        dripping.cancel()
        writer.close()


async def test_reload_needs_the_lifecycle_api(serve: Serve) -> None:
    """Off by default; POST and PUT when on; GET never."""
    async with serve() as served:
        assert (await served.ask("POST", "/-/reload"))[0] == 403
        assert served.state.reloads == 0
    async with serve(enable_lifecycle=True) as served:
        assert (await served.ask("POST", "/-/reload"))[0] == 200
        assert (await served.ask("PUT", "/-/reload"))[0] == 200
        assert (await served.get("/-/reload"))[0] == 405
        assert served.state.reloads == 2


async def test_a_refused_reload_says_why(serve: Serve) -> None:
    """The answer is not 2xx and carries file, line and key."""
    async with serve(enable_lifecycle=True) as served:
        served.state.reload_error = ConfigError("unknown key", file="f.yaml", line=3, key="x")
        status, text, _ = await served.ask("POST", "/-/reload")
        assert (status, "f.yaml:3: x: unknown key" in text) == (500, True)


async def test_probe_takes_configured_names_only(serve: Serve) -> None:
    """An address is not a name: nothing is ever connected to that was not configured."""
    async with serve() as served:
        status, text, _ = await served.get("/probe?target=leaf1")
        assert (status, "fabricmon_probe_success 1" in text) == (200, True)
        for target in ("192.0.2.1:161", "169.254.169.254", "http://localhost/"):
            assert (await served.get(f"/probe?target={target}"))[0] == 404
        assert (await served.get("/probe"))[0] == 400


async def test_a_failed_probe_is_a_page_that_says_so(serve: Serve) -> None:
    """Prometheus sees success 0, and the error's text stays out of the page."""
    async with serve() as served:
        served.state.probe_error = PollError(Reason.TIMEOUT, "community hunter2 at 192.0.2.1")
        status, text, _ = await served.get("/probe?target=leaf1")
        assert (status, "fabricmon_probe_success 0" in text) == (200, True)
        assert "hunter2" not in text


async def test_discovery_out_is_http_sd(serve: Serve) -> None:
    """Targets by name, and this server once per shard, as Prometheus' http_sd reads it."""
    async with serve() as served:
        _, text, headers = await served.get("/sd/targets")
        assert headers["Content-Type"].startswith("application/json")
        assert [group["targets"] for group in json.loads(text)] == [["leaf1"]]
        groups: list[dict[str, Any]] = json.loads((await served.get("/sd/shards?n=3"))[1])
        shards = [group["labels"]["__param_shard"] for group in groups]
        assert shards == ["0/3", "1/3", "2/3"]
        assert groups[0]["targets"] == [f"127.0.0.1:{served.server.port}"]
        assert (await served.get("/sd/shards?n=0"))[0] == 400


async def test_every_answer_carries_the_security_headers(serve: Serve) -> None:
    """Pages, refusals and errors alike."""
    async with serve() as served:
        for path in ("/", "/metrics", "/nowhere", "/-/ready"):
            _, _, headers = await served.get(path)
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("address", ["10077", "host:", "host:99999", "host:http"])
def test_a_listen_address_is_checked(address: str) -> None:
    """A wrong address is an error of the config, not of the start."""
    with pytest.raises(ValueError, match="not an address"):
        WebConfig(listen_address=address)
