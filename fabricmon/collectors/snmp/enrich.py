"""The slow half of polling: who a device is, what its ports are called, and what it has.

Names, speeds, gates and the list of instances are walked here, seldom; polls only read what moves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fabricmon.collectors.snmp.ports import IF_ALIAS, IF_DESCR, IF_NAME, IF_PHYS_ADDRESS, PortIndex
from fabricmon.collectors.snmp.session import walk
from fabricmon.errors import PollError, Reason
from fabricmon.mappings.snmp import oid
from fabricmon.mappings.snmp_walk import IF_TYPE, Walk, port_names, printable
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.api import Target
    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.collectors.snmp.session import Session
    from fabricmon.formats.snmp.ber import Oid
    from fabricmon.formats.snmp.snmp import Varbind
    from fabricmon.mappings.snmp import Profile, SnmpMappings
    from fabricmon.mappings.snmp_grid import Grid

SYS_DESCR = oid("1.3.6.1.2.1.1.1.0")
SYS_OBJECT_ID = oid("1.3.6.1.2.1.1.2.0")
SYS_UPTIME = oid("1.3.6.1.2.1.1.3.0")
SYS_NAME = oid("1.3.6.1.2.1.1.5.0")
IF_TABLE_LAST_CHANGE = oid("1.3.6.1.2.1.31.1.5.0")
LLDP_CHASSIS = oid("1.0.8802.1.1.2.1.3.2.0")

_SCALARS = (SYS_DESCR, SYS_OBJECT_ID, SYS_UPTIME, SYS_NAME, IF_TABLE_LAST_CHANGE, LLDP_CHASSIS)
_IDENTITY = (IF_TYPE, IF_DESCR, IF_NAME, IF_PHYS_ADDRESS, IF_ALIAS)
_AT_ONCE = 8
_TURN_S = 1.0
"""Longest time that a slow or endless walk keeps others from theirs."""
_CENTISECONDS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """What is read of a device, laid out: costly, and kept as long as it tells the same."""

    told: tuple[Any, ...]
    """What it was made from."""
    grid: Grid
    plan: Plan
    other: tuple[Grid, Plan] | None
    """The priorities that are not read in every poll."""

    def renamed(self, device: str) -> Laid:
        """The same of a device that is called otherwise."""
        grid = self.grid.renamed(device)
        other = self.other
        if other is not None:
            other = replace(other[0], ports=grid.ports), other[1]
        return replace(self, told=(device, *self.told[1:]), grid=grid, other=other)


@dataclass(slots=True)
class Device:
    """What is remembered of one target between polls."""

    target: Target
    session: Session | None = None
    name: str = ""
    """The `device` label; empty until the device has said who it is."""
    survey: Survey | None = None
    laid: Laid | None = None
    other_in: int = -1
    """Polls until the priorities are due that are not read in every one; below 0 at the start."""
    scalars: tuple[Oid, ...] = ()
    """Read with the plan; they land behind the raw matrix."""
    uptime_cs: int | None = None
    uptime_at: float = 0.0
    surveyed_at: float = 0.0
    doubtful: bool = False
    """The rows it answered were not those expected: look again before the next poll."""
    renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def grid(self) -> Grid | None:
        """Where what is read in every poll lands; None before the first survey."""
        return self.laid.grid if self.laid is not None else None

    def restarted(self, uptime_cs: int | None, now: float) -> bool:
        """Take a reading of sysUpTime; whether it fell, other than by wrapping after 497 days."""
        if uptime_cs is None:
            return False
        before, elapsed = self.uptime_cs, (now - self.uptime_at) * 100
        self.uptime_cs, self.uptime_at = uptime_cs, now
        if before is None or uptime_cs >= before:
            return False
        wrapped = before + elapsed - _CENTISECONDS
        return abs(uptime_cs - wrapped) > 6_000 + elapsed * 0.01


@dataclass(frozen=True, slots=True)
class Survey:
    """What a device said of itself in one slow walk. The walk itself is not kept: it is large."""

    profile: Profile
    index: PortIndex
    sys_name: str
    sys_descr: str
    chassis: str
    """LLDP chassis id, as hexadecimal digits; empty where there is none."""
    uptime_cs: int | None
    last_change: int | None
    scalars: tuple[Oid, ...]
    """Of SYS_UPTIME and IF_TABLE_LAST_CHANGE, those that it has."""
    lost: Counter[Reason]


def scalar(
    wanted: Oid, scalars: tuple[Oid, ...], values: NDArray[np.uint64], state: NDArray[np.uint8]
) -> int | None:
    """One of the scalars that a poll read behind its raw matrix."""
    if wanted not in scalars:
        return None
    place = scalars.index(wanted) - len(scalars)
    return int(values[place]) if state[place] == State.OK else None


@dataclass(frozen=True, slots=True)
class Answers:
    """What one slow walk gave: large, and not kept."""

    profile: Profile
    scalars: Mapping[Oid, Varbind]
    found: Mapping[Oid, Varbind]
    lost: Counter[Reason]


class Turns:
    """So many long walks at once. Who takes too long makes room for the next, and goes on."""

    def __init__(self, count: int) -> None:
        """All free."""
        self._free = asyncio.Semaphore(count)

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it for `_TURN_S` at most."""
        await self._free.acquire()
        over = asyncio.get_running_loop().call_later(_TURN_S, self._free.release)
        try:
            yield
        finally:
            if over.when() > asyncio.get_running_loop().time():
                over.cancel()
                self._free.release()


async def ask(session: Session, mappings: SnmpMappings, target: Target, turns: Turns) -> Answers:
    """Ask a device who it is and walk what its mapping knows.

    The long walk waits for its turn, the first question does not: silent devices hold nobody up.
    Raises `PollError` where it does not answer.
    """
    scalars = {varbind.oid: varbind for varbind in await session.get(_SCALARS)}
    object_id, sys_descr = _value(scalars, SYS_OBJECT_ID), printable(_octets(scalars, SYS_DESCR))
    profile = (
        mappings.profile(target.mapping)
        if target.mapping
        else mappings.choose(object_id if isinstance(object_id, tuple) else (), sys_descr)
    )
    async with turns.one():
        found, lost = await walk_columns(session, (*_IDENTITY, *profile.columns))
    if profile.units:
        found.update({varbind.oid: varbind for varbind in await session.get(profile.units)})
    return Answers(profile, scalars, found, lost)


def digest(answers: Answers, target: Target) -> tuple[Survey, Walk]:
    """Who the device is and what it has. Pure: work for a thread, since a walk may be long.

    Raises `PollError` where it has no names for its ports: a device whose names are not known is
    not read at all, since its counters would be somebody else's.
    """
    profile, scalars, lost = answers.profile, answers.scalars, answers.lost
    tree = Walk(
        {v.oid: v.value for v in answers.found.values() if isinstance(v.value, int | bytes)}
    )
    names = port_names(profile, tree)
    if not names:
        reason = next(iter(lost), Reason.NO_DATA)
        raise PollError(reason, f"{target.name}: it names no Ethernet port in its interface table")
    last_change, uptime = _value(scalars, IF_TABLE_LAST_CHANGE), _value(scalars, SYS_UPTIME)
    said = Survey(
        profile,
        PortIndex(names, tree),
        printable(_octets(scalars, SYS_NAME)),
        printable(_octets(scalars, SYS_DESCR)),
        _octets(scalars, LLDP_CHASSIS).hex(),
        uptime if isinstance(uptime, int) else None,
        last_change if isinstance(last_change, int) else None,
        tuple(
            instance
            for instance in (SYS_UPTIME, IF_TABLE_LAST_CHANGE)
            if isinstance(_value(scalars, instance), int)
        ),
        lost,
    )
    return said, tree


async def walk_columns(
    session: Session, columns: Iterable[Oid]
) -> tuple[dict[Oid, Varbind], Counter[Reason]]:
    """All instances of several columns, and why some of them broke off."""
    found: dict[Oid, Varbind] = {}
    lost: Counter[Reason] = Counter()
    gate = asyncio.Semaphore(_AT_ONCE)
    silent = 0

    async def one(column: Oid) -> None:
        nonlocal silent
        async with gate:
            if silent > _AT_ONCE:
                lost[Reason.TIMEOUT] += 1
                return
            try:
                reason = await walk(session, column, found)
            except PollError as error:
                reason = error.reason
            silent = silent + 1 if reason is Reason.TIMEOUT else 0
        if reason is not None:
            lost[reason] += 1

    async with asyncio.TaskGroup() as group:
        for column in dict.fromkeys(columns):
            group.create_task(one(column))
    return found, lost


def label(name: str, chassis: str, target: str) -> str:
    """A device's name where another has the same: `@` and the end of its chassis id or target."""
    return f"{name}@{chassis[-6:] or target}"


def device_names(devices: Iterable[Device]) -> dict[str, str]:
    """The `device` label of each target that has said who it is, by target name."""
    said = {d.target.name: d.survey for d in devices if d.survey is not None}
    plain = {name: s.sys_name or name for name, s in said.items()}
    tally = Counter(plain.values())
    return {
        name: plain[name] if tally[plain[name]] == 1 else label(plain[name], s.chassis, name)
        for name, s in said.items()
    }


def _value(scalars: Mapping[Oid, Varbind], instance: Oid) -> object:
    varbind = scalars.get(instance)
    return varbind.value if varbind is not None else None


def _octets(scalars: Mapping[Oid, Varbind], instance: Oid) -> bytes:
    value = _value(scalars, instance)
    return value if isinstance(value, bytes) else b""
