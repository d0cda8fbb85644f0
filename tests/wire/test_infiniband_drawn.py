"""The public GB200 fabric, read over the wire and drawn in a real browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from support import require, samples
from support.chromium import chromium
from support.snapshots import make_frame, make_snapshot, make_table
from support.webstate import HandState, Served

from fabricmon.api import Target
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.formats.infiniband.tools import ibnetdiscover
from fabricmon.simulate.agents.ibsim import IbsimAgent
from fabricmon.web import WebConfig, WebServer

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.topology import Topology

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]
TARGET = Target("gb200", "subnet", "any")


def dump() -> str:
    """What ibnetdiscover printed there."""
    return samples("infiniband", "public", "topograph", "example.out").read_text("latin-1")


async def discovered(context: Context) -> Topology:
    """The fabric of the dump, served by our own server and discovered by our own datagrams."""
    require("ibsim-run")
    bad: list[object] = []
    fabric = ibnetdiscover.read(dump().splitlines(), bad.append)
    assert bad == []
    with IbsimAgent(fabric) as agent:
        settings = InfinibandCollector.Config(read="native", environment=agent.environment)
        collector = InfinibandCollector(settings, [TARGET], context)
        try:
            poll = await collector.poll(TARGET)
        finally:
            await collector.stop()
    assert poll.lost == {}
    assert poll.topology is not None
    return poll.topology


async def test_the_gb200_fabric_is_drawn_as_it_is_written(context: Context, tmp_path: Path) -> None:
    """Tiers have as many nodes, and nodes as many links, as the text itself counts."""
    topology = await discovered(context)
    switches = re.findall(r'^Switch\t\d+ "S-', dump(), re.MULTILINE)
    adapters = re.findall(r'^Ca\t\d+ "H-\w+"\s+# "([^"]*)"', dump(), re.MULTILINE)
    sharp = sum("Aggregation" in name for name in adapters)
    nameless = sum(name.startswith("MT4129 ") for name in adapters)
    named = {name.partition(" ")[0] for name in adapters if re.search(r" (mlx5_|HCA-)\d+$", name)}
    hosts = len(named) + nameless  # an adapter under its maker's name is a host of its own
    ends = re.findall(r"^\[\d+\]", dump(), re.MULTILINE)
    table = make_table([])
    table.adopt(topology)
    state = HandState()
    state.is_ready = True
    snapshot = make_snapshot(table, make_frame(len(table)), topology=topology)
    state.latest[snapshot.fabric] = snapshot
    server = WebServer(WebConfig(listen_address="127.0.0.1:0"), context, state, None)
    await server.start()
    try:
        server.publish(snapshot)
        served = Served(server, state, None)  # type: ignore[arg-type] - nothing is scraped here
        _, text, _ = await served.get(f"/api/v1/topology?fabric={snapshot.fabric}")
        drawn = json.loads(text)
        kinds = [kind for _, kind, _ in drawn["nodes"]]
        assert kinds.count("switch") == len(switches) == 40
        assert kinds.count("host") == hosts
        assert kinds.count("aggregation") == sharp == 40
        assert len(drawn["links"]) == len(ends) // 2
        assert {link.speed_bps for link in topology.links} == {400e9}
        async with chromium(tmp_path) as page:
            await page.goto(served.url)
            await page.until("performance.getEntriesByName('fabric-drawn').length > 0")
            await page.eval("document.querySelectorAll('details').forEach((d) => d.open = true)")
            told = await page.text()
            tiers = [tier for _, _, tier in drawn["nodes"]]
            leaves, spines = tiers.count(1), tiers.count(2)
            assert leaves + spines == len(switches)
            for count, tier in ((leaves, "leaf"), (spines, "spine"), (hosts, "host")):
                assert re.search(rf"\b{count} \S {tier}\b", told)
            assert page.errors == []
    finally:
        await server.stop()
