"""A subnet that loses datagrams, moves, falls silent or is cut: each costs only itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.ibsim_agent import TARGET, expected, good, make, reading, topology

from fabricmon.selfmon import Event
from fabricmon.simulate.agents.ibsim import IbsimAgent

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.wire


async def test_lost_datagrams_are_sent_again(served: IbsimAgent) -> None:
    """One reply in twenty is lost, and still every port is read."""
    fed = reading(3)
    served.update([fed])
    collector, _ = make(served, retries=6)
    try:
        await collector.discover(TARGET)
        served.set_wire(loss=0.05, timeout_s=0.01)
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    got, want = good(poll), expected(fed)
    assert {key: got.get(key) for key in want} == want


async def test_a_new_subnet_manager_and_new_names_change_no_identity(served: IbsimAgent) -> None:
    """All LIDs move and a leaf is renamed: within two polls every port is back under its name."""
    fed = reading(4)
    served.update([fed])
    collector, _ = make(served)
    try:
        await collector.poll(TARGET)
        served.rename(next(iter(served.fabric.nodes)), "another name")
        served.restart_manager(first_lid=7)
        between = good(await collector.poll(TARGET))
        after = await collector.poll(TARGET)
        shape = await collector.discover(TARGET)
    finally:
        await collector.stop()
    want = expected(fed)
    # While LIDs are in flux a value may be missing, but it is never somebody else's.
    assert {key: value for key, value in between.items() if key in want}.items() <= want.items()
    got = good(after)
    assert {key: got.get(key) for key in want} == want
    assert after.lost == {}
    assert shape is not None
    assert {node.name for node in shape.nodes} == {node.name for node in topology().nodes}


async def test_silent_nodes_are_counted_and_the_others_are_read(served: IbsimAgent) -> None:
    """A spine that stops answering costs its own ports, and the poll says how many."""
    fed = reading(5)
    served.update([fed])
    spine = next(g for g, n in served.fabric.nodes.items() if n.description == "spine-1")
    collector, _ = make(served, retries=0)
    try:
        await collector.poll(TARGET)
        served.silence(spine)
        poll = await collector.poll(TARGET)
        await collector.poll(TARGET)
        later = await collector.poll(TARGET)
        shape = await collector.discover(TARGET)
    finally:
        await collector.stop()
    want = {key: v for key, v in expected(fed).items() if key[0] != "spine-1"}
    for result in (poll, later):
        got = good(result)
        assert {key: got.get(key) for key in want} == want
        assert sum(result.lost.values()) == served.fabric.nodes[spine].port_count
    assert shape is not None
    assert "spine-1" in {node.name for node in shape.nodes}


async def test_a_cable_that_is_pulled_shows_as_down_on_both_ends(served: IbsimAgent) -> None:
    """After the next sweep both ports of the cable are down, and all counters are still read."""
    served.update([reading(6)])
    leaf = next(n for n in served.fabric.nodes.values() if n.description == "leaf-1")
    collector, _ = make(served)
    try:
        await collector.poll(TARGET)
        served.cut(leaf.guid, 11)
        await collector.discover(TARGET)
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    (batch,) = poll.batches
    names = list(zip(batch.ports.device, batch.ports.port, strict=True))
    up = dict(zip(names, batch.gauges[0].tolist(), strict=True))
    assert up["leaf-1", "11"] == up["spine-1", "1"] == 0.0
    assert up["leaf-1", "12"] == 1.0
    assert poll.lost == {}


async def test_a_dead_worker_is_replaced(served: IbsimAgent) -> None:
    """Killing the datagram worker costs at most one poll."""
    served.update([reading(7)])
    collector, _ = make(served)
    try:
        await collector.poll(TARGET)
        pump = collector._ways[TARGET.name]._pump  # type: ignore[attr-defined]
        pump._process.kill()
        pump._process.wait()
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    assert poll.lost == {}


async def test_without_libibumad_the_tools_are_used_and_it_says_why(
    served: IbsimAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where datagrams of our own cannot be sent, perfquery is used and the event is reported."""
    broken = tmp_path / "worker.py"
    broken.write_text('print(\'{"reason": "permission", "message": "cannot open mlx5_0"}\')\n')
    monkeypatch.setattr("fabricmon.collectors.infiniband.native.pump.worker.__file__", str(broken))
    fed = reading(8, narrow=True)
    served.update([fed])
    collector, context = make(served, shim=True, read="auto")
    try:
        poll = await collector.poll(TARGET)
    finally:
        await collector.stop()
    got, want = good(poll), expected(fed)
    assert {key: got.get(key) for key in want} == want
    fallback = context.report.metrics.events.labels(Event.FALLBACK.label)
    assert fallback._value.get() == 1
