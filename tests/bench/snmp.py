"""SNMP polling: CPU of the client per varbind, against pysnmp and prometheus-snmp-exporter.

All clients read the same agents, which run in a process of their own, in turns. Only the CPU time
of the client's process counts; the agents' is printed beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _figures import row
from support.snmp_exporter import exporter
from support.snmp_load import AUTH_KEY, COMMUNITY, COUNTED, PRIV_KEY, USER, Load, cpu_of, load
from support.snmp_targets import collector, credential, target

from fabricmon.mappings.snmp import SnmpMappings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fabricmon.api import Target
    from fabricmon.collectors.snmp import SnmpCollector

PER_PORT = 40
ROUNDS = 3
INTERVAL_S = 10.0


def run() -> Iterator[dict[str, Any]]:
    """Every figure."""
    yield from asyncio.run(_peers())
    yield from asyncio.run(_scale())
    yield from asyncio.run(_lossy())


@contextlib.asynccontextmanager
async def surveyed(targets: list[Target], **config: Any) -> AsyncIterator[SnmpCollector]:
    """A collector that knows its devices already: the slow walk is not what is measured."""
    async with collector(*targets, enrich_interval="1d", **config) as snmp:
        await poll(snmp, targets)
        yield snmp


async def poll(snmp: SnmpCollector, targets: list[Target]) -> tuple[float, float]:
    """Poll everything at once: CPU seconds of this process, and seconds it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    polls = await asyncio.gather(*map(snmp.poll, targets))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    values = sum(batch.values.size for each in polls for batch in each.batches)
    assert values, "an empty poll is not worth measuring"
    assert not any(each.lost for each in polls), [dict(each.lost) for each in polls if each.lost]
    return cpu, wall


def v2c(agents: Load, folder: Path) -> list[Target]:
    """All agents as targets."""
    how = credential(folder, {"community": COMMUNITY})
    return [target(address, how, f"leaf{i}") for i, address in enumerate(agents.addresses)]


async def _peers(switches: int = 48, ports: int = 512) -> list[Any]:
    varbinds = switches * ports * PER_PORT
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, load(switches, ports) as agents:
        folder = Path(name)
        targets = v2c(agents, folder)
        keys = {"auth_key": AUTH_KEY, "priv_key": PRIV_KEY}
        secure = credential(folder, keys, user=USER, auth="sha256", priv="aes128")
        targets3 = [target(agents.v3_address, secure, f"v3-{i}") for i in range(switches)]
        with exporter(folder, "nxos", COUNTED, COMMUNITY) as peer:
            async with surveyed(targets) as snmp, surveyed(targets3) as snmp3:
                for _ in range(ROUNDS):
                    _add(spent, "fast", (await poll(snmp, targets))[0] / varbinds)
                    _add(spent, "v3", (await poll(snmp3, targets3))[0] / varbinds)
                    _add(spent, "exporter", _scrape(peer, agents) / varbinds)
                    _add(spent, "pysnmp", await _pysnmp(agents.addresses[0], ports * PER_PORT))
    cost = {client: statistics.median(each) * 1e6 for client, each in spent.items()}
    unit = "CPU-us per varbind"
    return [
        row("v2c_fast_path", cost["fast"], unit, "prometheus-snmp-exporter", cost["exporter"]),
        row("v2c_fast_path", cost["fast"], unit, "pysnmp", cost["pysnmp"]),
        row("v3_authpriv_fast_path", cost["v3"], unit, "own v2c", cost["fast"]),
    ]


def _add(spent: dict[str, list[float]], client: str, cost: float) -> None:
    spent.setdefault(client, []).append(cost)


def _scrape(peer: Any, agents: Load) -> float:
    before = cpu_of(peer.pid)
    for address in agents.addresses:
        samples = peer.scrape(address)
        assert len(samples) > PER_PORT, "the exporter read next to nothing"
    return cpu_of(peer.pid) - before


async def _pysnmp(address: str, varbinds: int) -> float:
    """CPU seconds per varbind of pysnmp's own walk."""
    from pysnmp.hlapi.v3arch import asyncio as hlapi

    host, port = address.split(":")
    engine = hlapi.SnmpEngine()
    there = await hlapi.UdpTransportTarget.create((host, int(port)))
    columns = [
        column
        for counter in COUNTED
        for column, _ in SnmpMappings().profile("nxos").by_counter[counter][0].columns()
    ]
    got = 0
    before = time.process_time()
    for column in columns:
        at, below = column, True
        while below:
            _, _, _, found = await hlapi.bulk_cmd(
                engine, hlapi.CommunityData(COMMUNITY), there, hlapi.ContextData(), 0, 50,
                hlapi.ObjectType(hlapi.ObjectIdentity(at)), lookupMib=False,
            )  # fmt: skip
            for oid, _ in found:
                below = tuple(oid)[: len(column)] == column and tuple(oid) > at
                if not below:
                    break
                at = tuple(oid)
                got += 1
    spent = time.process_time() - before
    engine.close_dispatcher()
    assert got >= varbinds, (got, varbinds)
    return spent / got


async def _scale(switches: int = 200, ports: int = 512) -> list[Any]:
    total = switches * ports * PER_PORT
    with tempfile.TemporaryDirectory() as name, load(switches, ports) as agents:
        targets = v2c(agents, Path(name))
        before = time.process_time()
        async with surveyed(targets) as snmp:
            survey = time.process_time() - before
            agents_before = agents.cpu_seconds()
            rounds = [await poll(snmp, targets) for _ in range(ROUNDS)]
            agents_cpu = (agents.cpu_seconds() - agents_before) / ROUNDS
    cpu = statistics.median(cpu for cpu, _ in rounds)
    wall = statistics.median(wall for _, wall in rounds)
    return [
        row("poll_102400_ports_client", cpu, "CPU-s", "budget", 1.0),
        row("poll_102400_ports_per_varbind", cpu / total * 1e6, "CPU-us per varbind"),
        row("poll_102400_ports_took", wall, "s", "interval", INTERVAL_S),
        row("poll_102400_ports_agents", agents_cpu, "CPU-s of the agents"),
        row("survey_102400_ports_client", survey, "CPU-s, at the start and every ten minutes"),
    ]


async def _lossy(switches: int = 200, ports: int = 64) -> list[Any]:
    """20 ms agents that lose one datagram in twenty."""
    with (
        tempfile.TemporaryDirectory() as name,
        load(switches, ports, latency_s=0.02, loss=0.05) as agents,
    ):
        targets = v2c(agents, Path(name))
        async with collector(*targets, enrich_interval="1d", retries=4) as snmp:
            await poll(snmp, targets)
            before = agents.cpu_seconds()
            rounds = [await poll(snmp, targets) for _ in range(ROUNDS)]
            agents_cpu = (agents.cpu_seconds() - before) / ROUNDS
    worst = max(wall for _, wall in rounds)
    return [
        row("poll_200_lossy_targets_took", worst, "s, worst round", "interval", INTERVAL_S),
        row("poll_200_lossy_targets_agents", agents_cpu, "CPU-s of the agents"),
    ]
