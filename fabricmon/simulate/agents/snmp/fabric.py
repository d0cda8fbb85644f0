"""All SNMP agents of a fabric: starts the processes that serve them, and hands them new values."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.clock import SystemClock
from fabricmon.mappings.snmp import SnmpMappings
from fabricmon.mappings.snmp_backward import DOWN, SAMPLED
from fabricmon.model.readings import State
from fabricmon.simulate.agents.snmp.content import Content, switches
from fabricmon.simulate.agents.snmp.server import (
    HEADER,
    SEQUENCE,
    UPDATES,
    Orders,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from numpy.typing import NDArray

    from fabricmon.model.readings import Column, PortSet, ReadingBatch
    from fabricmon.model.topology import Topology
    from fabricmon.simulate.agents.snmp.v3 import V3User

_SILENCE_S = 60.0
"""A process that starts tells of each switch it serves; after this long without one it is lost."""
_MAX_VARBINDS = 500
"""No reply holds more, whatever is asked."""


@dataclass(frozen=True, slots=True)
class _Route:
    """Where the values of one kind of batch go: M pairs of a cell [k, n] and a slot."""

    ports: PortSet
    columns: tuple[Column, ...]
    k: NDArray[np.intp]
    n: NDArray[np.intp]
    slot: NDArray[np.intp]
    scale: NDArray[np.uint64]
    divisor: NDArray[np.float64]
    mask: NDArray[np.uint64]
    wanted: NDArray[np.int64]
    """-1: the value itself"""


class SnmpAgents:
    """An SNMP agent for every switch of a fabric, on loopback."""

    def __init__(
        self,
        topology: Topology,
        *,
        flavour: str | Mapping[str, str] = "sonic",
        host: str = "127.0.0.1",
        community: str = "public",
        user: V3User | None = None,
        processes: int = 1,
        latency_s: float = 0.0,
        loss: float = 0.0,
    ) -> None:
        """`flavour`: a mapping with a `likeness`, for all switches or by switch name.

        With `user` they speak version 3 instead of 2c. `latency_s` and `loss` (0..1) are added to
        every answer. Nothing is opened before `start`.
        """
        self._switches = switches(topology)
        self._flavours = {
            switch.name: flavour if isinstance(flavour, str) else flavour[switch.name]
            for switch in self._switches
        }
        self._host, self._community, self._count = host, community, max(1, processes)
        self._user = user
        self._latency_s, self._loss = latency_s, loss
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._words: Any = None
        self._offsets: dict[str, int] = {}
        self._slots: dict[tuple[str, str, str, int], list[tuple[int, Any]]] = {}
        self._sampled: NDArray[np.intp] = np.empty(0, np.intp)
        self._routes: dict[tuple[int, int], _Route] = {}
        self._children: list[tuple[Any, Connection]] = []
        self._clock, self._started = SystemClock(), 0.0
        self.addresses: dict[str, str] = {}
        """host:port by device, once started"""

    async def start(self, batches: Iterable[ReadingBatch]) -> dict[str, str]:
        """Serve the fabric with these values; what they count is what the agents have."""
        batches = list(batches)
        counted = _counted(batches)
        self._started = self._clock.monotonic()
        self._lay_out(counted)
        self.update(batches)
        assert self._folder is not None
        context = multiprocessing.get_context("spawn")
        for part in range(min(self._count, len(self._switches))):
            ours, theirs = context.Pipe()
            orders = self._orders(part, counted)
            process = context.Process(target=serve, args=(orders, theirs), daemon=True)
            process.start()
            theirs.close()
            self._children.append((process, ours))
        loop = asyncio.get_running_loop()
        for part, (_, pipe) in enumerate(self._children):
            for switch in self._part(part):
                address = await loop.run_in_executor(None, _receive, pipe)
                self.addresses[switch.name] = address
        return self.addresses

    async def stop(self) -> None:
        """End the processes and forget the values."""
        children, self._children = self._children, []
        for _, pipe in children:
            pipe.close()
        loop = asyncio.get_running_loop()
        for process, _ in children:
            await loop.run_in_executor(None, process.join, 5)
            if process.is_alive():
                process.kill()
            process.close()
        self._words = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def update(self, batches: Iterable[ReadingBatch]) -> None:
        """Show these values from now on. Values that are missing in them stay as they were."""
        words = self._words
        words[SEQUENCE] += 1
        values = words[HEADER:]
        for batch in batches:
            _write(values, self._route(batch.ports, batch.columns), batch.values, batch.state)
            gauges = self._route(batch.ports, batch.gauge_columns)
            known = np.where(np.isnan(batch.gauges), State.MISSING, State.OK)
            _write(values, gauges, np.nan_to_num(batch.gauges), known)
        ticks = int((self._clock.monotonic() - self._started) * 100) & 0xFFFF_FFFF
        values[self._sampled] = ticks
        words[UPDATES] += 1
        words[SEQUENCE] += 1

    def cpu_seconds(self) -> float:
        """CPU time the serving processes have used so far, user and system."""
        return sum(_cpu(process.pid) for process, _ in self._children)

    def _lay_out(self, counted: Mapping[str, tuple[int, ...]]) -> None:
        mappings = SnmpMappings()
        sampled: list[int] = []
        total = 0
        for switch in self._switches:
            self._offsets[switch.name] = total
            profile = mappings.profile(self._flavours[switch.name])
            for i, slot in enumerate(Content(switch, profile, counted).slots, total):
                if slot.counter == SAMPLED:
                    sampled.append(i)
                else:
                    key = (switch.name, switch.ports[slot.port], slot.counter, slot.queue)
                    self._slots.setdefault(key, []).append((i, slot))
                total = i + 1
        self._sampled = np.array(sampled, np.intp)
        self._folder = tempfile.TemporaryDirectory(prefix="fabricmon-snmp-")
        path = Path(self._folder.name) / "values"
        self._words = np.memmap(path, np.uint64, "w+", shape=(HEADER + total + 1,))

    def _part(self, part: int) -> list[Any]:
        return self._switches[part :: self._count]

    def _orders(self, part: int, counted: Mapping[str, tuple[int, ...]]) -> Orders:
        assert self._folder is not None
        own = self._part(part)
        return Orders(
            tuple(own),
            tuple(self._offsets[switch.name] for switch in own),
            tuple(self._flavours[switch.name] for switch in own),
            counted,
            self._host,
            self._community,
            str(Path(self._folder.name) / "values"),
            self._latency_s,
            self._loss,
            _MAX_VARBINDS,
            self._user,
            self._started,
        )

    def _route(self, ports: PortSet, columns: tuple[Column, ...]) -> _Route:
        key = (id(ports), id(columns))
        route = self._routes.get(key)
        if route is None or route.ports is not ports or route.columns is not columns:
            route = self._routes[key] = self._make_route(ports, columns)
        return route

    def _make_route(self, ports: PortSet, columns: tuple[Column, ...]) -> _Route:
        cells = [
            (k, n, i, column.scale, slot)
            for k, column in enumerate(columns)
            for n, (device, port) in enumerate(zip(ports.device, ports.port, strict=True))
            for i, slot in self._slots.get((device, port, column.counter.id, column.queue), ())
        ]
        return _Route(
            ports,
            columns,
            np.array([cell[0] for cell in cells], np.intp),
            np.array([cell[1] for cell in cells], np.intp),
            np.array([cell[2] for cell in cells], np.intp),
            np.array([cell[3] for cell in cells], np.uint64),
            np.array([cell[4].divisor for cell in cells], np.float64),
            np.array([(1 << cell[4].bits) - 1 for cell in cells], np.uint64),
            np.array([-1 if cell[4].wanted is None else cell[4].wanted for cell in cells]),
        )


def _write(
    out: NDArray[np.uint64], route: _Route, values: NDArray[Any], state: NDArray[Any]
) -> None:
    cells = (route.k, route.n)
    raw = values[cells]
    if raw.dtype.kind == "f":
        numbers = (raw / route.divisor).astype(np.uint64)
    else:
        numbers = raw * route.scale // route.divisor.astype(np.uint64)
    numbers &= route.mask
    choice = route.wanted >= 0
    wanted = route.wanted[choice]
    numbers[choice] = np.where(raw[choice] > 0, wanted, np.where(wanted == DOWN, 1, DOWN))
    known = state[cells] == State.OK
    out[route.slot[known]] = numbers[known]


def _counted(batches: Sequence[ReadingBatch]) -> dict[str, tuple[int, ...]]:
    queues: dict[str, set[int]] = defaultdict(set)
    for batch in batches:
        for column in (*batch.columns, *batch.gauge_columns):
            queues[column.counter.id].add(column.queue)
    return {counter: tuple(sorted(found)) for counter, found in queues.items()}


def _receive(pipe: Connection) -> str:
    if not pipe.poll(_SILENCE_S):
        raise TimeoutError(f"an SNMP agent process that starts was silent for {_SILENCE_S:g} s")
    address: str = pipe.recv()
    return address


def _cpu(pid: int) -> float:
    """User and system time of a process, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0
