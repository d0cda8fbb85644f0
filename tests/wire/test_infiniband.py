"""The collector against a real subnet in software: ibsim, opensm, ibnetdiscover, perfquery."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import ibsim, require

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.errors import PollError, Reason
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.topology import PortId
from fabricmon.normalize import Normalizer
from fabricmon.selfmon import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fabricmon.model.ports import PortTable
from fabricmon.model.readings import Poll

pytestmark = pytest.mark.wire
TARGET = Target("pod", "subnet", "")


def value(batch: ReadingBatch, device: str, port: str, counter: str) -> tuple[int, State]:
    """Raw count and state of one value; a port that is not in the batch is missing."""
    ports = list(zip(batch.ports.device, batch.ports.port, strict=True))
    if (device, port) not in ports:
        return 0, State.MISSING
    row = ports.index((device, port))
    k = next(i for i, column in enumerate(batch.columns) if column.counter.id == counter)
    return int(batch.values[k, row]), State(batch.state[k, row])


def gauge(batch: ReadingBatch, device: str, port: str, counter: str) -> float:
    """One level."""
    row = list(zip(batch.ports.device, batch.ports.port, strict=True)).index((device, port))
    k = next(i for i, column in enumerate(batch.gauge_columns) if column.counter.id == counter)
    return float(batch.gauges[k, row])


@pytest.fixture(params=["tools", "native"])
def read(request: pytest.FixtureRequest) -> str:
    """Both ways of reading keep the same promises."""
    return str(request.param)


def make(subnet: ibsim.Subnet, read: str = "tools", **config: object) -> InfinibandCollector:
    """A collector that works inside the subnet."""
    clock = SystemClock()
    settings = InfinibandCollector.Config(
        read=read,
        command_prefix=[require("ibsim-run")],
        environment=subnet.environment,
        rediscover=0.001,
        **config,
    )
    return InfinibandCollector(settings, [TARGET], Context(clock, Reporter(clock)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ibsim.Subnet]:
    """Two leaves, two spines, four hosts."""
    require("perfquery")
    net = ibsim.net_text(2, 2, 2)
    with ibsim.subnet(
        net, tmp_path_factory.mktemp("ibsim"), f"H-{ibsim.host_guid(0, 0):016x}"
    ) as world:
        yield world


async def test_every_port_of_the_subnet_is_read_with_its_state_and_speed(
    small: ibsim.Subnet, read: str
) -> None:
    """All switch and host ports come with traffic, state and speed, named by node and port."""
    collector = make(small, read)
    await collector.start()
    try:
        poll = await collector.poll(TARGET)
        topology = await collector.discover(TARGET)
    finally:
        await collector.stop()
    assert poll.lost == {}
    (batch,) = poll.batches
    assert len(batch.ports) == 4 * 40 + 4
    assert value(batch, "leaf-1", "1", "tx_bytes")[0] > 0
    assert value(batch, "gpu0101", "mlx5_0/1", "rx_packets")[0] > 0
    assert gauge(batch, "leaf-1", "1", "oper_up") == 1.0
    assert gauge(batch, "leaf-1", "1", "speed_bps") == 200e9
    assert gauge(batch, "leaf-1", "39", "oper_up") == 0.0
    assert topology is not None
    assert len(topology.nodes) == 8
    assert len(topology.links) == 8
    roles = {node.name: node.role.value for node in topology.nodes}
    assert (roles["leaf-1"], roles["spine-2"], roles["gpu0202"]) == ("leaf", "spine", "host")
    ticks = {(p.id.device, p.id.port): p.tick_bytes for p in topology.ports}
    assert ticks["leaf-1", "1"] == 8.0
    assert ticks["gpu0101", "mlx5_0/1"] == 0.0


async def test_transmit_wait_moves_on_the_driven_port_alone(small: ibsim.Subnet, read: str) -> None:
    """A transmit-wait count set on one port shows there by its amount, and nowhere else."""
    collector = make(small, read)
    leaf, driven = f"S-{ibsim.leaf_guid(1):016x}", 123_456_789 + len(read)
    try:
        before = (await collector.poll(TARGET)).batches[0]
        small.set_counter(leaf, 2, driven)
        after = (await collector.poll(TARGET)).batches[0]
    finally:
        await collector.stop()
    assert before.ports is after.ports
    assert value(after, "leaf-2", "2", "tx_wait_ticks") == (driven, State.OK)
    k = next(i for i, c in enumerate(after.columns) if c.counter.id == "tx_wait_ticks")
    assert int((after.values[k] != before.values[k]).sum()) == 1
    assert (after.columns[k].bits, after.columns[k].saturates) == (32, True)


async def poll_until(
    collector: InfinibandCollector, settled: Callable[[Poll], bool], polls: int = 60
) -> Poll:
    """Poll a tenth of a second apart until the collector has noticed."""
    for _ in range(polls):
        poll = await collector.poll(TARGET)
        if settled(poll):
            return poll
        await asyncio.sleep(0.1)
    raise AssertionError(f"never settled: {poll.lost}")


async def test_a_node_whose_counters_cannot_be_read_costs_only_itself(
    small: ibsim.Subnet, read: str
) -> None:
    """A dead link costs the node behind it, which is counted as lost, and comes back by itself."""
    collector = make(small, read)
    leaf = f"S-{ibsim.leaf_guid(0):016x}"
    try:
        await collector.poll(TARGET)
        small.tell(f'Unlink "{leaf}"[2]')
        first = await collector.poll(TARGET)
        poll = await poll_until(collector, lambda p: p.lost == {Reason.UNREACHABLE: 1})
        small.tell(f'ReLink "{leaf}"[2]')
        small.sweep()
        healed = await poll_until(collector, lambda p: not p.lost)
    finally:
        await collector.stop()
    assert sum(first.lost.values()) == 1
    (batch,) = poll.batches
    assert value(batch, "gpu0102", "mlx5_0/1", "tx_bytes")[1] is State.MISSING
    assert value(batch, "leaf-1", "1", "tx_bytes")[1] is State.OK
    assert gauge(batch, "leaf-1", "2", "oper_up") == 0.0
    assert value(healed.batches[0], "gpu0102", "mlx5_0/1", "tx_bytes")[1] is State.OK


async def test_missing_tools_give_one_clear_message(
    small: ibsim.Subnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without infiniband-diags the poll says what is missing and where it comes from."""
    collector = make(small)
    monkeypatch.setattr("fabricmon.collectors.infiniband.tools.shutil.which", lambda *_, **__: None)
    with pytest.raises(PollError, match="ibnetdiscover is not installed") as caught:
        await collector.poll(TARGET)
    await collector.stop()
    assert caught.value.reason is Reason.NOT_FOUND


async def test_a_tool_that_hangs_is_killed_at_its_deadline(small: ibsim.Subnet) -> None:
    """A client without a server waits for ever; the collector does not."""
    collector = make(small, tool_timeout=0.5)
    collector._config.environment["IBSIM_SOCKNAME"] = "fabricmon-nobody-listens"
    with pytest.raises(PollError, match=r"did not end within 0\.5 s") as caught:
        await collector.poll(TARGET)
    await collector.stop()
    assert caught.value.reason is Reason.TIMEOUT


async def test_the_stall_of_the_driven_port_rises_by_the_right_amount_and_of_no_other(
    small: ibsim.Subnet, read: str
) -> None:
    """Ticks of 8 bytes at 200 Gb/s over the measured time; a full counter is saturated."""
    collector = make(small, read)
    leaf, table = f"S-{ibsim.leaf_guid(0):016x}", PortTable()
    normalizer = Normalizer(table, "pod", collector._context)
    frames = []
    try:
        shape = await collector.discover(TARGET)
        assert shape is not None
        table.adopt(shape)
        small.set_counter(leaf, 1, 0)
        times = []
        for ticks in (0, 1_000_000_000, 0xFFFFFFFF):
            small.set_counter(leaf, 1, ticks)
            (batch,) = (await collector.poll(TARGET)).batches
            normalizer.absorb(batch)
            at = int(batch.time_ns[batch.ports.device.index("leaf-1")])
            times.append(at)
            frames.append(normalizer.tick(at + 1, 1.0))
            await asyncio.sleep(0.7)
    finally:
        await collector.stop()
    row = table.row(PortId("leaf-1", "1"))
    assert row is not None
    elapsed = (times[1] - times[0]) / 1e9
    stall = frames[1].ratios.stall
    assert stall[row] == pytest.approx(1e9 * 8 / (25e9 * elapsed), rel=0.05)
    others = np.delete(stall, row)
    assert np.nansum(others) == 0.0
    wait = frames[2].row("tx_wait_ticks")
    assert wait is not None
    assert frames[2].state[wait, row] == State.SATURATED


async def test_every_port_of_a_large_subnet_is_right(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """1,680 switch ports, each with counts of its own: all come back, with state and speed."""
    net = ibsim.net_text(28, 8, 14)
    scratch, host = tmp_path_factory.mktemp("large"), f"H-{ibsim.host_guid(0, 0):016x}"
    switches = {f"leaf-{i + 1}": (ibsim.leaf_guid(i), 8 + 14) for i in range(28)}
    switches |= {f"spine-{i + 1}": (ibsim.spine_guid(i), 28) for i in range(14)}
    with ibsim.subnet(net, scratch, host) as world:
        wanted: dict[tuple[str, str], int] = {}
        commands = []
        for n, (name, (guid, _)) in enumerate(switches.items()):
            for port in range(1, 41):
                wanted[name, str(port)] = count = 1_000_000 * n + 1000 * port + 7
                where = f'PerformanceSet "S-{guid:016x}"[{port}] '
                commands += [
                    f"{where}PortCounters.PortXmitWait={count}",
                    f"{where}PortCountersExtended.PortXmitData={count << 32}",
                ]
        world.tell(*commands)
        collector = make(world, "native")
        try:
            (batch,) = (await poll_until(collector, lambda p: not p.lost)).batches
        finally:
            await collector.stop()
    rows = {key: i for i, key in enumerate(zip(batch.ports.device, batch.ports.port, strict=True))}
    column = {c.counter.id: k for k, c in enumerate(batch.columns)}
    at = [rows[key] for key in wanted]
    waits = batch.values[column["tx_wait_ticks"], at].tolist()
    assert waits == list(wanted.values())
    sent = batch.values[column["tx_bytes"], at].astype(np.float64)
    assert sent == pytest.approx(np.array(list(wanted.values())) * 2.0**32, rel=1e-3)
    up = batch.gauges[0, at]
    linked = [int(port) <= switches[name][1] for name, port in wanted]
    assert up.tolist() == [float(is_linked) for is_linked in linked]
    assert set(batch.gauges[1, at][up == 1.0].tolist()) == {200e9}


@pytest.mark.parametrize(
    ("written", "bps"), [("4xFDR10", 40e9), ("4xQDR", 32e9), ("2xHDR", 100e9), ("4xEDR", 100e9)]
)
async def test_widths_and_speeds_are_the_same_in_both_ways(
    written: str, bps: float, read: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """FDR10, which calls itself QDR, half-wide HDR and old QDR have their effective rate."""
    host = f"H-{ibsim.host_guid(0, 0):016x}"
    net = ibsim.net_text(1, 2, speed=written)
    with ibsim.subnet(net, tmp_path_factory.mktemp("speed"), host) as world:
        collector = make(world, read)
        try:
            shape = await collector.discover(TARGET)
        finally:
            await collector.stop()
    assert shape is not None
    assert {link.speed_bps for link in shape.links} == {bps}


async def test_accidents_of_a_real_subnet_change_no_identity(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """New LIDs, cleared counters, a cut trunk and a dead leaf under ibsim and opensm.

    Every value read is the one of the port it is told for, nothing is told that is not so, and one
    poll after each accident coverage and link states are right.
    """
    scratch, host = tmp_path_factory.mktemp("accidents"), f"H-{ibsim.host_guid(0, 0):016x}"
    leaf, other = f"S-{ibsim.leaf_guid(1):016x}", f"S-{ibsim.leaf_guid(2):016x}"
    spine = f"S-{ibsim.spine_guid(0):016x}"
    marks = {
        (f"leaf-{i + 1}", str(port)): 1_000_000 * (i + 1) + 100 * port
        for i in range(3)
        for port in range(1, 41)
    }
    with ibsim.subnet(ibsim.net_text(3, 4, 2), scratch, host) as world:
        world.tell(
            *(
                f'PerformanceSet "S-{ibsim.leaf_guid(int(name[-1]) - 1):016x}"[{port}] '
                f"PortCounters.PortXmitWait={count}"
                for (name, port), count in marks.items()
            )
        )
        collector = make(world, "native", timeout=0.5)

        def waits(poll: Poll) -> dict[tuple[str, str], int]:
            (batch,) = poll.batches
            return {end: value(batch, *end, "tx_wait_ticks")[0] for end in marks}

        def missing(poll: Poll) -> int:
            return sum(poll.lost.values())

        try:
            before = await collector.poll(TARGET)
            assert (waits(before), missing(before)) == (marks, 0)
            lids = {node.lid for node in collector._ways[TARGET.name].known.fabric.nodes.values()}

            world.sweep("-l", "1", "-r")  # another subnet manager: two LIDs a port, all anew
            moved = await collector.poll(TARGET)
            assert {end: n for end, n in waits(moved).items() if n}.items() <= marks.items()
            after = await collector.poll(TARGET)
            assert (waits(after), missing(after)) == (marks, 0)
            now = {node.lid for node in collector._ways[TARGET.name].known.fabric.nodes.values()}
            assert now != lids

            world.tell(f'Unlink "{leaf}"[5]')  # one of two ways to the spines
            world.sweep("-l", "1")
            for end in (f'"{leaf}"[5]', f'"{spine}"[2]'):  # ibsim does not, but devices count it
                world.tell(f"PerformanceSet {end} PortCounters.LinkDownedCounter=1")
            await collector.poll(TARGET)
            cut = await collector.poll(TARGET)
            assert missing(cut) == 0
            assert gauge(cut.batches[0], "leaf-2", "5", "oper_up") == 0.0
            assert gauge(cut.batches[0], "spine-1", "2", "oper_up") == 0.0
            assert waits(cut) == marks

            world.tell(*(f'Unlink "{other}"[{port}]' for port in (5, 6)))  # a leaf, its hosts
            await collector.poll(TARGET)
            dead = await collector.poll(TARGET)
            assert missing(dead) == 40 + 4  # its own ports and its four hosts'
            alive = {end: n for end, n in marks.items() if end[0] != "leaf-3"}
            assert {end: n for end, n in waits(dead).items() if n} == alive

            cleared = world.run(require("perfquery"), "-a", "-R", str(min(now - {0})))
            assert cleared.returncode == 0, cleared.stderr
            reset = waits(await collector.poll(TARGET))
            assert sum(n == 0 for n in reset.values()) > 40  # the dead leaf's, and what was cleared
        finally:
            await collector.stop()
