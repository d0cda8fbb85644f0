"""Tools that fail, in each way they can: the collector's own tools are put in their place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from fabricmon.api import Target
from fabricmon.collectors.infiniband import InfinibandCollector
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import Poll, State

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

NET = "".join(
    f"""
vendid=0x2c9
devid=0xd2f2
sysimgguid=0xb{i}
switchguid=0xb{i}(b{i})
Switch	2 "S-00000000000000b{i}"		# "leaf-{i}" enhanced port 0 lid {i} lmc 0
[1]	"S-00000000000000b{a}"[2]		# "leaf-{a}" lid {a} 4xNDR
[2]	"S-00000000000000b{b}"[1]		# "leaf-{b}" lid {b} 4xNDR
"""
    for i, a, b in ((1, 2, 3), (2, 3, 1), (3, 1, 2))
)
BLOCK = """\
echo "# Port extended counters: Lid $LID port $PORT (CapMask: 0x5300 CapMask2: 0x0000002)"
echo "PortXmitData:....................4$PORT"
echo "PortXmitWait:....................$PORT"
"""
PERFQUERY = """\
for LID; do [ "${LID#-}" = "$LID" ] && break; done
"""


def make(folder: Path, context: Context, perfquery: str) -> tuple[InfinibandCollector, Target]:
    """A collector that finds these tools first; `$LID` is the LID asked for."""
    (folder / "net").write_text(NET)
    for name, body in (
        ("ibnetdiscover", f"cat {folder}/net\n"),
        ("perfquery", PERFQUERY + perfquery),
    ):
        tool = folder / name
        tool.write_text(f"#!/bin/sh\n{body}")
        tool.chmod(0o755)
    target = Target("pod", "subnet", "any")
    config = InfinibandCollector.Config(read="tools", tool_timeout=5)
    return InfinibandCollector(config, [target], context), target


@pytest.fixture(autouse=True)
def _first_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def both_ports() -> str:
    """Counters of ports 1 and 2."""
    return f"for PORT in 1 2; do\n{BLOCK}done\n"


def read(poll: Poll) -> dict[tuple[str, str], int]:
    """{(device, port): wait} of what was read."""
    return {
        (device, port): int(batch.values[k, i])
        for batch in poll.batches
        for k, column in enumerate(batch.columns)
        if column.counter.id == "tx_wait_ticks"
        for i, (device, port) in enumerate(zip(batch.ports.device, batch.ports.port, strict=True))
        if batch.state[k, i] == State.OK
    }


async def test_a_lid_that_fails_costs_only_its_own_ports(tmp_path: Path, context: Context) -> None:
    """One switch does not answer perfquery: two ports are lost with a reason, four are read."""
    failing = '[ "$LID" = 2 ] && { echo "perfquery: iberror: failed: query" >&2; exit 255; }\n'
    collector, target = make(tmp_path, context, failing + both_ports())
    poll = await collector.poll(target)
    await collector.stop()
    assert poll.lost == {Reason.TIMEOUT: 2}
    assert sorted(read(poll)) == [(f"leaf-{i}", p) for i in (1, 3) for p in ("1", "2")]


async def test_an_answer_that_breaks_off_counts_the_ports_that_are_missing(
    tmp_path: Path, context: Context
) -> None:
    """Perfquery gives up at the first port that fails; what it printed before is kept."""
    cut = f'[ "$LID" = 3 ] && {{ PORT=1\n{BLOCK}exit 255; }}\n'
    collector, target = make(tmp_path, context, cut + both_ports())
    poll = await collector.poll(target)
    await collector.stop()
    assert poll.lost == {Reason.TRUNCATED: 1}
    assert len(read(poll)) == 5


async def test_when_every_lid_fails_the_tools_own_reason_is_told(
    tmp_path: Path, context: Context
) -> None:
    """One clear message instead of an empty poll."""
    failing = 'echo "perfquery: iberror: failed: classportinfo query" >&2; exit 255\n'
    collector, target = make(tmp_path, context, failing)
    with pytest.raises(PollError, match=r"perfquery of LID \d: classportinfo query"):
        await collector.poll(target)
    await collector.stop()


async def test_noise_on_stderr_and_garbage_on_stdout_cost_nothing(
    tmp_path: Path, context: Context
) -> None:
    """Warnings, blank lines and half a line do not take a port with them."""
    noise = 'echo "ibwarn: [1] mad_rpc: recv failed" >&2\necho ""\necho "PortXm"\n'
    collector, target = make(tmp_path, context, noise + both_ports())
    poll = await collector.poll(target)
    await collector.stop()
    assert poll.lost == {}
    assert len(read(poll)) == 6


async def test_a_subnet_without_lids_asks_for_a_subnet_manager(
    tmp_path: Path, context: Context
) -> None:
    """All LIDs are 0: nothing is asked, and the message says what is missing."""
    collector, target = make(tmp_path, context, both_ports())
    text = NET
    for i in (1, 2, 3):
        text = text.replace(f" lid {i} ", " lid 0 ")
    (tmp_path / "net").write_text(text)
    with pytest.raises(PollError, match="is a subnet manager running"):
        await collector.poll(target)
    await collector.stop()
