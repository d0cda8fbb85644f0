"""A simulation that stands there as devices, for any monitoring tool.

    served = Served(load("incast"), folder, clock)
    for line in await served.start(): ...       # what is where
    await served.run()                          # moves on at the pace of the clock, for ever

Switches answer SNMP and gNMI, hosts are sysfs trees and `ethtool -S` texts; an InfiniBand fabric is
a subnet that the unmodified tools read. `folder` gets lists of all targets in Prometheus' file_sd
format, the fabric's `topology.json`, and for each protocol a config for `fabricmon run`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from fabricmon.formats import interchange
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.topology import Technology
from fabricmon.simulate.reading.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fabricmon.clock import Clock
    from fabricmon.simulate.run import Simulation
    from fabricmon.simulate.workload.timeline import Interval

_COMMUNITY = "public"


class Served:
    """One simulation as devices on loopback."""

    def __init__(
        self,
        simulation: Simulation,
        folder: Path,
        clock: Clock,
        *,
        speed: float = 1.0,
        snmp: str = "sonic",
        gnmi: str = "cumulus",
    ) -> None:
        """`speed`: simulated seconds per second. `snmp`, `gnmi`: whose words switches speak."""
        self._simulation, self._folder, self._clock = simulation, folder, clock
        self._speed, self._words = speed, (snmp, gnmi)
        self._reader = Reader(
            simulation.wiring,
            simulation.scenario.config.collector,
            simulation.seed,
            clock.now_ns(),
        )
        self._intervals: Iterator[Interval] = simulation.cycles()
        self._agents: list[Any] = []

    async def start(self) -> list[str]:
        """Open everything; one line for each thing there is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        topology = self._simulation.topology
        (self._folder / interchange.TOPOLOGY).write_bytes(interchange.write_topology(topology))
        first = self._next()
        if topology.nodes[0].technology is Technology.INFINIBAND:
            return self._start_subnet(first)
        return [
            *await self._start_snmp(first),
            *await self._start_gnmi(first),
            *self._start_hosts(first),
        ]

    async def run(self) -> None:
        """Let the fabric live, until cancelled."""
        begun = self._clock.monotonic()
        for polls, interval in enumerate(self._intervals, start=1):
            batches = self._read(interval)
            due = begun + polls * self._simulation.poll_s / self._speed
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            for agent in self._agents:
                await asyncio.to_thread(agent.update, batches)

    async def stop(self) -> None:
        """Close everything; the lists stay."""
        agents, self._agents = self._agents, []
        for agent in agents:
            stop = getattr(agent, "stop", None)
            if stop is not None:
                outcome = stop()
                if asyncio.iscoroutine(outcome):
                    await outcome

    def _next(self) -> list[ReadingBatch]:
        return self._read(next(self._intervals))

    def _read(self, interval: Interval) -> list[ReadingBatch]:
        return [item for item in self._reader.read(interval) if isinstance(item, ReadingBatch)]

    # --- protocols --------------------------------------------------------------------------

    async def _start_snmp(self, first: list[ReadingBatch]) -> list[str]:
        from fabricmon.simulate.agents.snmp import SnmpAgents  # noqa: PLC0415 - starts processes

        agents = SnmpAgents(self._simulation.topology, flavour=self._words[0], community=_COMMUNITY)
        addresses = await agents.start(first)
        self._agents.append(agents)
        (self._folder / "community").write_text(_COMMUNITY + "\n")
        listing = self._list("snmp", addresses)
        secret = {"community": {"file": str(self._folder / "community")}}
        self._config(
            "snmp",
            {"snmp": listing},
            credentials={"simulated": secret},
            target={"credential": "simulated"},
        )
        what = f"{len(addresses)} switches ({self._words[0]}), community {_COMMUNITY}"
        return [f"snmp   {what}: {listing}"]

    async def _start_gnmi(self, first: list[ReadingBatch]) -> list[str]:
        try:
            from fabricmon.simulate.agents.gnmi import GnmiFabric  # noqa: PLC0415 - an extra

            fabric = GnmiFabric(self._simulation.topology, self._words[1])
            addresses = await fabric.start()
        except ModuleNotFoundError as error:
            return [f"gnmi   not served: {error.name} is missing (the extra [gnmi])"]
        fabric.update(first)
        self._agents.append(fabric)
        listing = self._list("gnmi", addresses)
        collectors = {"gnmi": {"interval": self._poll}}
        written = {"mapping": self._words[1], "options": {"insecure": True}}
        self._config("gnmi", {"gnmi": listing}, collectors=collectors, target=written)
        return [f"gnmi   {len(addresses)} switches ({self._words[1]}), no TLS: {listing}"]

    def _start_hosts(self, first: list[ReadingBatch]) -> list[str]:
        from fabricmon.simulate.agents.host import HostTrees  # noqa: PLC0415 - beside the others

        trees = HostTrees(self._folder / "hosts", self._simulation.topology)
        trees.update(first)
        self._agents.append(trees)
        hosts = [node.name for node in self._simulation.topology.nodes if node.kind == "host"]
        listing = self._list("hosts", {host: str(trees.folder(host)) for host in hosts})
        self._config("hosts", {"host": listing})
        return [f"hosts  {len(hosts)} sysfs trees with ethtool texts: {listing}"]

    def _start_subnet(self, first: list[ReadingBatch]) -> list[str]:
        from fabricmon.simulate.agents.ibsim import IbsimAgent  # noqa: PLC0415 - starts a process

        agent = IbsimAgent(self._simulation.topology)
        agent.start()
        agent.update(first)
        self._agents.append(agent)
        # Without `ibsim-run`: its shim cuts datagrams before the 64-bit transmit-wait.
        collectors = {"infiniband": {"read": "native", "environment": agent.environment}}
        self._config("infiniband", {"infiniband": "any"}, collectors=collectors)
        words = " ".join(f"{key}={value}" for key, value in agent.environment.items())
        return [f"ib     {words} ibsim-run ibnetdiscover"]

    # --- lists ------------------------------------------------------------------------------

    @property
    def _poll(self) -> str:
        return f"{self._simulation.poll_s / self._speed:g}s"

    def _list(self, name: str, addresses: Mapping[str, str]) -> Path:
        path = self._folder / f"{name}.json"
        groups = [
            {"targets": [address], "labels": {"name": device}}
            for device, address in addresses.items()
        ]
        path.write_text(json.dumps(groups, indent=1) + "\n")
        return path

    def _config(
        self,
        name: str,
        targets: Mapping[str, Path | str],
        *,
        credentials: Mapping[str, Any] | None = None,
        collectors: Mapping[str, Any] | None = None,
        target: Mapping[str, Any] | None = None,
    ) -> None:
        """A config that `fabricmon run -c` takes as it is (JSON is YAML)."""
        written = [
            {
                "collector": kind,
                **({"file_sd": [str(at)]} if not isinstance(at, str) else {"address": at}),
                **(target or {}),
            }
            for kind, at in targets.items()
        ]
        topology = self._simulation.topology
        technology = topology.nodes[0].technology.value
        config: dict[str, Any] = {
            "interval": self._poll,
            "fabrics": [
                {
                    "name": "sim",
                    "technology": technology,
                    "topology": {
                        "from": ["discovery", "file"],
                        "file": str(self._folder / interchange.TOPOLOGY),
                    },
                }
            ],
            "credentials": dict(credentials or {}),
            "collectors": dict(collectors or {}),
            "targets": written,
        }
        path = self._folder / f"fabricmon-{name}.yaml"
        path.write_text(json.dumps(config, indent=1) + "\n")
