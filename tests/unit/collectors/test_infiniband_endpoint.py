"""A Prometheus page as the source: UFM, or somebody else's exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.servers import exporter

from fabricmon.api import Context, Target
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.errors import PollError, Reason
from fabricmon.formats.infiniband.tools import ibprom

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = """\
# HELP PortXmitDataExtended words sent
# TYPE PortXmitDataExtended counter
PortXmitDataExtended{node_guid="0xb8cef60300100000",Port_Number="7",node_desc="leaf-1"} 1e3
PortXmitWaitExtended{node_guid="0xb8cef60300100000",Port_Number="7",node_desc="leaf-1"} 41
infiniband_switch_port_transmit_wait_total{guid="0xb8cef60300200000",port="3",switch="s"} 5
infiniband_portxmitdata_total{component="switch",local_guid="0x3",local_port="1"} 9.87e+11
infiniband_portdlidmappingerrors_total{component="switch",local_guid="0x3",local_port="1"} 300
infiniband_scrape_ok 1
"""


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A server with the page at /metrics and nothing else."""
    async with exporter(PAGE) as served:
        yield served


def make(url: str, context: Context) -> tuple[InfinibandCollector, Target]:
    """A collector with the page as its only target."""
    target = Target("pod", "ufm", url)
    return InfinibandCollector(InfinibandCollector.Config(), [target], context), target


async def test_ports_of_any_exporter_become_catalogue_counters(url: str, context: Context) -> None:
    """Words, bytes and ticks land in the right unit; mislabelled detail counters land nowhere."""
    collector, target = make(f"{url}/metrics", context)
    batches = (await collector.poll(target)).batches
    assert await collector.discover(target) is None
    await collector.stop()
    got = {
        (device, port, column.counter.id): int(batch.values[k, i]) * column.scale
        for batch in batches
        for k, column in enumerate(batch.columns)
        for i, (device, port) in enumerate(zip(batch.ports.device, batch.ports.port, strict=True))
        if batch.state[k, i] == 0
    }
    assert got == {
        ("leaf-1", "7", "tx_bytes"): 4000,
        ("leaf-1", "7", "tx_wait_ticks"): 41,
        ("s", "3", "tx_wait_ticks"): 5,
        ("0x0000000000000003", "1", "tx_bytes"): 3_948_000_000_000,
    }


@pytest.mark.parametrize(
    ("path", "reason"), [("/nothing", Reason.UNEXPECTED), (None, Reason.REFUSED)]
)
async def test_a_page_that_cannot_be_had_says_why(
    path: str | None, reason: Reason, url: str, context: Context
) -> None:
    """A wrong path and a closed port are told apart."""
    collector, target = make(f"{url}{path}" if path else "http://127.0.0.1:9/metrics", context)
    with pytest.raises(PollError) as caught:
        await collector.poll(target)
    await collector.stop()
    assert caught.value.reason is reason


def test_samples_without_a_port_are_left_out() -> None:
    """Samples of nodes and of the exporter itself are no ports."""
    page = ['PortXmitData{node_guid="0x1"} 1', "PortXmitData 2"]
    assert list(ibprom.read(page, lambda _: None)) == []
