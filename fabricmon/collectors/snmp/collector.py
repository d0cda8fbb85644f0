"""The SNMP collector: Ethernet switches, one poll at a time."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from fabricmon.collectors.snmp.config import SnmpConfig, access, check_keys
from fabricmon.collectors.snmp.enrich import (
    IF_TABLE_LAST_CHANGE as _LAST_CHANGE,
)
from fabricmon.collectors.snmp.enrich import (
    SYS_UPTIME as _UPTIME,
)
from fabricmon.collectors.snmp.enrich import (
    Device,
    Laid,
    Turns,
    ask,
    device_names,
    digest,
    scalar,
)
from fabricmon.collectors.snmp.fast_path.security import Community, Usm
from fabricmon.collectors.snmp.fast_path.session import FastSession
from fabricmon.collectors.snmp.fast_path.wire import Wire
from fabricmon.collectors.snmp.lldp import neighbours, topology
from fabricmon.collectors.snmp.plan import compile_plan
from fabricmon.collectors.snmp.reference import ReferenceEngines, ReferenceSession
from fabricmon.errors import ConfigError, PollError, Reason
from fabricmon.formats.snmp import snmp_usm
from fabricmon.mappings.snmp import SnmpMappings
from fabricmon.mappings.snmp_build import build_apart
from fabricmon.mappings.snmp_grid import lacking
from fabricmon.model.readings import Poll, State
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from fabricmon.api import Context, Target
    from fabricmon.collectors.snmp.config import Access
    from fabricmon.collectors.snmp.enrich import Survey
    from fabricmon.collectors.snmp.session import Session
    from fabricmon.mappings.snmp_grid import Grid
    from fabricmon.mappings.snmp_walk import Walk
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Topology

_PORT = 161
_SURVEYS_AT_ONCE = 8
"""A survey holds a whole walk in memory and takes CPU that polls need. Renewals, for which nobody
waits, come one by one."""
_LOOK_AGAIN_S = 30.0
"""Between two surveys of a device whose rows keep surprising."""


class SnmpCollector:
    """Reads switches over SNMP v2c and v3."""

    Config: ClassVar[type[SnmpConfig]] = SnmpConfig

    def __init__(self, config: SnmpConfig, targets: Sequence[Target], context: Context) -> None:
        """Store; nothing else."""
        self._config, self._context = config, context
        self._devices = {target.name: Device(target) for target in targets}
        self._access: dict[str, Access] = {}
        self._mappings: SnmpMappings | None = None
        self._engines = ReferenceEngines()
        self._wire = Wire(config, context)
        self._surveys, self._renewals = Turns(_SURVEYS_AT_ONCE), Turns(1)

    async def start(self) -> None:
        """Read the mappings and refuse credentials that cannot work. Raises `ConfigError`."""
        self._mappings = SnmpMappings([Path(folder) for folder in self._config.mappings])
        self._wire = Wire(self._config, self._context)
        for device in self._devices.values():
            target = device.target
            self._access[target.name] = how = access(target)
            check_keys(how)
            if target.mapping and target.mapping not in self._mappings.names:
                known = ", ".join(self._mappings.names)
                raise ConfigError(
                    f"target {target.name}: mapping {target.mapping!r} is not known; use {known}"
                )

    async def stop(self) -> None:
        """Close every socket."""
        for device in self._devices.values():
            if device.renewal is not None:
                device.renewal.cancel()
                device.renewal = None
            if device.session is not None:
                device.session.close()
                device.session = None
        self._engines.close()
        self._wire.close()

    async def poll(self, target: Target) -> Poll:
        """Read every counter of one switch."""
        device = self._devices[target.name]
        try:
            return await self._poll(device)
        except PollError:
            if device.session is not None:  # its name may lead elsewhere by now, its secret be new
                device.session.close()
                device.session = None
            raise

    async def _poll(self, device: Device) -> Poll:
        session, grid = await self._ready(device)
        batch, lost, changed = await self._read(device, session, grid)
        if changed:
            # Whatever was just read may stand under another port's number: ask anew, read again.
            device.doubtful = True
            session, grid = await self._ready(device)
            batch, lost, _ = await self._read(device, session, grid, discontinuity=changed)
        batches = [batch, *await self._read_other(device, session, lost, restarted=changed)]
        if device.survey is not None:
            lost.update(device.survey.lost)
            device.survey.lost.clear()
        return Poll(tuple(batches), {reason: count for reason, count in lost.items() if count})

    async def discover(self, target: Target) -> Topology | None:
        """The switch, its ports and its LLDP neighbours."""
        device = self._devices[target.name]
        session, _ = await self._ready(device)
        seen = await neighbours(session)
        others = [other for other in self._devices.values() if other.survey is not None]
        return topology(device, seen, others)

    def lacking(self, target: Target) -> dict[str, str]:
        """Which counters of its mapping a polled device does not have, and why."""
        grid = self._devices[target.name].grid
        return lacking(grid) if grid is not None else {}

    def mapping(self, target: Target) -> str:
        """The mapping a device was recognised for; empty before its first poll."""
        grid = self._devices[target.name].grid
        return grid.profile.name if grid is not None else ""

    async def _read(
        self, device: Device, session: Session, grid: Grid, *, discontinuity: bool = False
    ) -> tuple[ReadingBatch, Counter[Reason], bool]:
        """One reading, what it lost, and whether the device turned out to be another one."""
        assert device.laid is not None
        plan, scalars = device.laid.plan, device.scalars
        values, state = grid.blank(len(scalars))
        begun = self._context.clock.now_ns()
        lost = await session.read(plan, values, state)
        uptime = scalar(_UPTIME, scalars, values, state)
        last_change = scalar(_LAST_CHANGE, scalars, values, state)
        now = self._context.clock.monotonic()
        restarted = device.restarted(uptime, now)
        moved = device.survey is not None and last_change != device.survey.last_change
        changed = restarted or (moved and last_change is not None)
        device.doubtful = bool(lost[Reason.UNEXPECTED]) and now - device.surveyed_at > _LOOK_AGAIN_S
        batch = grid.batch(
            device.target.name,
            values,
            state,
            begun,
            uptime_cs=uptime,
            discontinuity=restarted or discontinuity,
        )
        if not discontinuity and not changed and (state == State.MISSING).all():
            raise PollError(Reason.NO_DATA, f"{device.target.name}: no counter was answered")
        return batch, lost, changed

    async def _read_other(
        self, device: Device, session: Session, lost: Counter[Reason], *, restarted: bool
    ) -> list[ReadingBatch]:
        """The priorities that are not lossless, where they are due; what is lost is counted."""
        other = device.laid.other if device.laid is not None else None
        device.other_in -= 1
        if other is None or not (restarted or device.other_in < 0):
            return []
        (grid, plan), every = other, self._config.other_queues_every
        # Devices that were first read together are not all due again in one and the same poll.
        is_first = device.other_in < -1
        device.other_in = crc32(device.target.name.encode()) % every if is_first else every - 1
        values, state = grid.blank()
        begun = self._context.clock.now_ns()
        try:
            lost.update(await session.read(plan, values, state))
        except PollError as error:
            lost[error.reason] += len(plan)
        return [grid.batch(device.target.name, values, state, begun, discontinuity=restarted)]

    async def _ready(self, device: Device) -> tuple[Session, Grid]:
        """The session and the grid of a device, made or renewed first where that must be."""
        if device.session is None:
            device.session = await self._session(device.target)
        now = self._context.clock.monotonic()
        ended = device.renewal is not None and device.renewal.done()
        if device.grid is None or device.doubtful or ended:
            await self._renewed(device)
        elif device.renewal is None and now - device.surveyed_at >= self._config.enrich_interval:
            device.renewal = asyncio.create_task(self._survey(device, self._renewals))
        assert device.grid is not None
        return device.session, device.grid

    async def _renewed(self, device: Device) -> None:
        """Ask the device anew who it is.

        This goes on when the poll that wanted it is cancelled at its deadline. A device that has a
        grid keeps it when the renewal fails: better its old names than none.
        """
        if device.renewal is None:
            device.renewal = asyncio.create_task(self._survey(device, self._surveys))
        try:
            await asyncio.shield(device.renewal)
        except PollError as error:
            device.surveyed_at = self._context.clock.monotonic()
            if device.grid is None:
                raise
            self._context.report.emit(
                Event.DISCOVERY_FAILED, device.target.name, error=f"the old names stay: {error}"
            )
        finally:
            if device.renewal is not None and device.renewal.done():
                device.renewal = None

    async def _survey(self, device: Device, turns: Turns) -> None:
        """Ask a device who it is and lay out what to read of it, in a thread: others are polled."""
        assert self._mappings is not None
        assert device.session is not None
        answers = await ask(device.session, self._mappings, device.target, turns)
        found, walk = await asyncio.to_thread(digest, answers, device.target)
        known = [
            replace(other, survey=found) if other is device else other
            for other in self._devices.values()
        ]
        name = device_names(known)[device.target.name]
        laid = await asyncio.to_thread(self._lay_out, device, found, name, walk)
        now = self._context.clock.monotonic()
        device.survey, device.surveyed_at, device.doubtful = found, now, False
        if device.uptime_cs is None:
            device.restarted(found.uptime_cs, now)
        device.name, device.laid, device.scalars = name, laid, found.scalars
        grid = laid.grid
        self._context.report.emit(
            Event.MAPPING_CHOSEN,
            device.target.name,
            mapping=grid.profile.name,
            ports=len(grid.ports),
            lacks=grid.lacks,
        )
        self._rename(device_names(self._devices.values()))

    def _lay_out(self, device: Device, found: Survey, name: str, walk: Walk) -> Laid:
        """What is read in every poll, and what now and then; the same as before for the same."""
        profile, names, before = found.profile, found.index.names, device.laid
        told = name, profile.name, names, found.scalars, walk.fingerprint(profile.shaping)
        if before is not None and before.told == told:
            return before
        keep = before.grid.ports if before is not None else None
        queues, every = self._config.queues, self._config.other_queues_every
        grids = build_apart(profile, name, names, walk, queues, keep, every)
        (grid, plan), *other = [
            (grid, compile_plan(instances, grid.base.size, () if i else found.scalars))
            for i, (grid, instances) in enumerate(grids)
        ]
        return Laid(told, grid, plan, other[0] if other else None)

    def _rename(self, names: dict[str, str]) -> None:
        """Give new names to devices whose name turned out not to be theirs alone."""
        for target, name in names.items():
            device = self._devices[target]
            if device.laid is not None and name != device.name:
                device.name, device.laid = name, device.laid.renamed(name)

    async def _session(self, target: Target) -> Session:
        name, how = target.name, self._access[target.name]
        family, address = await _resolve(target)
        covered = how.auth in snmp_usm.COVERED_AUTH and how.priv in snmp_usm.COVERED_PRIV
        if how.engine == "fast" and covered:
            clock = self._context.clock
            security = (
                Community(how.secret("community")) if how.version == 2 else Usm(name, how, clock)
            )
            return FastSession(name, family, address, how, security, self._config, self._wire)
        if how.engine == "fast":
            self._context.report.emit(
                Event.FALLBACK, name, way="pysnmp", why=f"{how.auth} with {how.priv}"
            )
        return ReferenceSession(name, address, how, self._config, self._engines)


async def _resolve(target: Target) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The numeric address of a target: `host`, `host:port`, `[v6]:port`."""
    host, port = _split(target.address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise PollError(
            Reason.UNREACHABLE,
            f"{target.name}: the address {host!r} is not known: {error.strerror}",
        ) from error
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or ("]" not in host and ":" in host) or not port.isdigit():
        return address.strip("[]"), _PORT
    return host.strip("[]"), int(port)
