"""Prometheus' SNMP exporter reads the served fabric, and finds the numbers that we find."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import require
from support.snmp_exporter import exporter
from support.snmp_targets import collector, credential, target

from fabricmon import simulate
from fabricmon.model.counters import NO_QUEUE
from fabricmon.model.readings import State
from fabricmon.simulate.serve import Served
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fabricmon.model.readings import Poll

pytestmark = [pytest.mark.wire, pytest.mark.timeout(180)]

COUNTERS = (
    "rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_discards", "tx_discards", "rx_errors",
    "rx_pfc_frames", "tx_pfc_frames",
)  # fmt: skip
Key = tuple[str, str, int]
"""(counter, port, queue)"""


def by_exporter(samples: Mapping[str, float]) -> dict[Key, int]:
    """What the exporter's page says; its ports are numbers, which `ifName` names."""
    text = "".join(f"{name} {value!r}\n" for name, value in samples.items())
    found = [s for f in text_string_to_metric_families(text) for s in f.samples]
    names = {s.labels["port"]: s.labels["ifName"] for s in found if s.name == "ifName"}
    return {
        (s.name, names[s.labels["port"]], int(s.labels.get("queue", NO_QUEUE))): int(s.value)
        for s in found
        if s.name in COUNTERS and s.labels["port"] in names
    }


def by_us(poll: Poll) -> dict[Key, int]:
    """What our collector's poll says."""
    (batch,) = poll.batches
    return {
        (column.counter.id, port, column.queue): int(batch.values[k, i])
        for k, column in enumerate(batch.columns)
        for i, port in enumerate(batch.ports.port)
        if column.counter.id in COUNTERS and batch.state[k, i] == State.OK
    }


async def test_the_exporter_and_we_read_the_same_of_every_switch(tmp_path: Path) -> None:
    """Every counter of every port and queue, equal to the last unit; and again a poll later."""
    require("prometheus-snmp-exporter")
    clock = ManualClock()
    served = Served(simulate.load("incast"), tmp_path, clock)
    await served.start()
    living = asyncio.ensure_future(served.run())
    try:
        groups = json.loads((tmp_path / "snmp.json").read_text())
        how = credential(tmp_path, {"community": "public"})
        targets = [target(g["targets"][0], how, g["labels"]["name"]) for g in groups]
        with exporter(tmp_path, "sonic", COUNTERS, "public", names=True) as peer:
            async with collector(*targets) as snmp:

                async def both(n: int) -> dict[Key, int]:
                    """The n-th switch by both, who must agree."""
                    samples = await asyncio.to_thread(peer.scrape, targets[n].address)
                    ours = by_us(await snmp.poll(targets[n]))
                    theirs = by_exporter(samples)
                    assert ours == {key: theirs[key] for key in ours}
                    assert {key[0] for key in ours} == set(COUNTERS)
                    return ours

                before = [await both(n) for n in range(len(targets))]
                assert len(before) == 8
                await clock.advance(1.5)
                for _ in range(300):  # the agents take it over in threads of their own
                    if by_us(await snmp.poll(targets[-1])) != before[-1]:
                        break
                    await asyncio.sleep(0.1)
                after = [await both(n) for n in range(len(targets))]
    finally:
        living.cancel()
        await served.stop()
    for old, new in zip(before, after, strict=True):
        assert old.keys() == new.keys()
        assert any(new[key] > old[key] for key in old if key[0] == "tx_bytes")
