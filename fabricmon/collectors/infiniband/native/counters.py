"""Counters of every port of a subnet, one batch of datagrams per poll.

What a node can count is asked once (ClassPortInfo) and remembered by GUID; its transmit-wait tick
likewise (PortSamplesControl). Requests are built once per discovery and sent again at each poll.
With them goes one NodeInfo for each LID: after a restart of the subnet manager another node may
answer there, and its counts must not be taken for the old one's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.collectors.infiniband.known import OPER_UP, SPEED
from fabricmon.collectors.infiniband.native.pump import Requests
from fabricmon.collectors.infiniband.native.sweep import learned
from fabricmon.errors import Reason
from fabricmon.formats import mad
from fabricmon.mappings import infiniband
from fabricmon.model.readings import PortSet, ReadingBatch, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.clock import Clock
    from fabricmon.collectors.infiniband.known import KnownFabric
    from fabricmon.collectors.infiniband.native.pump import Pump, Replies
    from fabricmon.formats.ibfabric import IbNode
    from fabricmon.model.readings import Column

_EXTENDED_BITS = 1 << 9 | 1 << 10
_ERRORS_IN_EXTENDED = 1 << 1
_GUID = [f for f in mad.NODE_INFO_FIELDS if f.name == "Guid"]
_BY_NAME = {group: {f.name: f for f in fields} for group, fields in mad.FIELDS.items()}
_IDENTITY = "NodeInfo"


@dataclass(frozen=True, slots=True)
class _Capability:
    """What one node counts."""

    cap_mask: int
    cap_mask2: int
    groups: tuple[str, ...]


@dataclass(slots=True)
class _Profile:
    """Ports of nodes that count the same: one batch."""

    ports: PortSet
    columns: tuple[Column, ...]
    choices: list[infiniband.Choice]
    at: dict[str, NDArray[np.intp]]
    """Position of each port's request in the batch of datagrams, by attribute."""
    node: NDArray[np.intp]
    """Which asked node each port belongs to."""
    gauges: NDArray[np.float64]


@dataclass(slots=True)
class _Plan:
    """Everything about a poll that does not change between two discoveries."""

    requests: Requests
    identity: NDArray[np.intp]
    """Position of each node's NodeInfo request."""
    guids: NDArray[np.uint64]
    profiles: list[_Profile]
    dropped: list[tuple[NDArray[np.intp], list[mad.Field]]]
    """Where the counts of dropped management packets stand."""
    unlearned: int
    """Ports of nodes that have not told what they count."""


@dataclass(slots=True)
class Outcome:
    """One poll: batches, ports lost by reason, and what the collector should know."""

    batches: tuple[ReadingBatch, ...] = ()
    lost: dict[Reason, int] = field(default_factory=dict)
    moved: bool = False
    """Somebody else answers at a LID, or nobody: look again before the next poll."""
    read: int = 0
    """Ports that were read."""
    dropped: int = 0
    """Management packets that ports say they dropped, ever: when this rises we ask too fast."""

    @property
    def mostly_lost(self) -> bool:
        """Whether more ports were lost than read."""
        return sum(self.lost.values()) > self.read

    def lose(self, reason: Reason, ports: int) -> None:
        """Count ports that were not read."""
        if ports:
            self.lost[reason] = self.lost.get(reason, 0) + ports


class Counters:
    """Reads one subnet through one pump."""

    def __init__(self, target: str, pump: Pump, groups: Sequence[str]) -> None:
        """`groups` are optional attributes to read besides the port counters."""
        self._target, self._pump, self._optional = target, pump, tuple(groups)
        self._fields = infiniband.field_names("pma")
        self._can: dict[int, _Capability] = {}
        self._plan: _Plan | None = None
        self._unsupported: set[tuple[int, str]] = set()

    def forget_plan(self) -> None:
        """The subnet was discovered anew."""
        self._plan = None

    async def learn(self, known: KnownFabric) -> None:
        """Ask nodes that have not been asked yet what they count, and their tick."""
        new = [(node, numbers) for node, numbers in known.asked() if node.guid not in self._can]
        if not new:
            return
        lids = np.array([node.lid_of(numbers[0]) for node, numbers in new], np.uint16)
        ports = np.array([numbers[0] for _, numbers in new], np.uint32)
        caps = await self._ask(mad.CLASS_PORT_INFO, ports, lids)
        masks = learned(caps, mad.CLASS_PORT_INFO_FIELDS)
        matter = self._fields.masks()
        ticks = await self._ask(mad.SAMPLES_CONTROL, ports, lids)
        (told,) = learned(ticks, mad.SAMPLES_FIELDS)
        told_well = ticks.good
        for k in np.flatnonzero(caps.good):
            node = new[k][0]
            cap_mask, cap_mask2 = (int(m) & use for m, use in zip(masks[:, k], matter, strict=True))
            self._can[node.guid] = _Capability(
                cap_mask, cap_mask2, self._groups_of(node.guid, cap_mask, cap_mask2)
            )
            if told_well[k]:
                known.told_ticks[node.guid] = int(told[k])

    def _groups_of(self, guid: int, cap_mask: int, cap_mask2: int) -> tuple[str, ...]:
        groups: list[str] = []
        if cap_mask & _EXTENDED_BITS:
            groups.append("PortCountersExtended")
        if not (groups and cap_mask2 & _ERRORS_IN_EXTENDED):
            groups.append("PortCounters")
        groups += [g for g in self._optional if (guid, g) not in self._unsupported]
        return tuple(groups)

    async def _ask(
        self, attribute: int, ports: NDArray[np.uint32], lids: NDArray[np.uint16]
    ) -> Replies:
        """One performance request for each node."""
        n = len(ports)
        return await self._pump.exchange(
            Requests(
                mad.counter_requests(attribute, ports),
                np.zeros(n, np.uint8),
                lids,
                np.arange(n + 1, dtype=np.uint32),
            )
        )

    async def poll(self, known: KnownFabric, clock: Clock, window: int) -> Outcome:
        """Read everything that can be asked, with at most `window` datagrams on the wire."""
        plan = self._plan
        if plan is None or plan.unlearned:
            await self.learn(known)
            plan = self._plan = _make_plan(known, self._can, self._fields)
        outcome = Outcome()
        outcome.lose(Reason.TIMEOUT, plan.unlearned)
        if not len(plan.requests.mads):
            return outcome
        replies = await self._pump.exchange(plan.requests, window)
        now_ns = clock.now_ns()
        mine = self._identified(plan, replies, outcome)
        batches = [self._batch(p, replies, mine, now_ns, outcome) for p in plan.profiles]
        outcome.batches = tuple(batches)
        for at, fields in plan.dropped:
            counts = mad.decode(replies.mads[at][:, mad.DATA :], fields)
            outcome.dropped += int(counts[:, replies.good[at]].sum(dtype=np.uint64))
        self._note_unsupported(plan, replies)
        return outcome

    def _identified(self, plan: _Plan, replies: Replies, outcome: Outcome) -> NDArray[np.bool_]:
        """bool[nodes]: whether the node that answers is the one that is meant."""
        (guids,) = mad.decode(replies.mads[plan.identity][:, mad.DATA :], _GUID)
        answered = replies.good[plan.identity]
        mine: NDArray[np.bool_] = answered & (guids == plan.guids)
        outcome.moved = not mine.all()
        # Where subnet management is not allowed to us nobody answers; then counts are believed.
        return np.ones_like(mine) if not answered.any() else mine | ~answered

    def _batch(
        self,
        profile: _Profile,
        replies: Replies,
        mine: NDArray[np.bool_],
        now_ns: int,
        outcome: Outcome,
    ) -> ReadingBatch:
        n = len(profile.ports)
        values = np.zeros((len(profile.columns), n), np.uint64)
        state = np.full(values.shape, State.UNSUPPORTED, np.uint8)
        ours = mine[profile.node]
        for group, at in profile.at.items():
            mads, good = replies.mads[at], replies.good[at] & ours
            refused = (replies.states[at] == 0) & (mad.status(mads) != 0) & ours
            wanted = [
                (k, _BY_NAME[group][choice.field])
                for k, choice in enumerate(profile.choices)
                if choice.supported and choice.group == group
            ]
            rows = [k for k, _ in wanted]
            values[rows] = mad.decode(mads[:, mad.DATA :], [f for _, f in wanted]) * good
            state[rows] = np.where(
                good, State.OK, np.where(refused, State.UNSUPPORTED, State.MISSING)
            )
        first = next(iter(profile.at.values()))
        _count_lost(replies, first, ours, outcome)
        outcome.read += int((ours & replies.good[first]).sum())
        gauges = np.where(ours & replies.good[first], profile.gauges, np.nan)
        times = now_ns - (replies.ages[first] * 1e9).astype(np.int64)
        times[~replies.good[first]] = now_ns
        return ReadingBatch(
            self._target,
            profile.ports,
            profile.columns,
            values,
            state,
            times,
            (OPER_UP, SPEED),
            gauges,
        )

    def _note_unsupported(self, plan: _Plan, replies: Replies) -> None:
        """Do not ask nodes again for optional attributes that they said they do not have."""
        for profile in plan.profiles:
            for group in self._optional:
                at = profile.at.get(group)
                if at is None:
                    continue
                answered = (replies.states[at] == 0) & ~replies.good[at]
                for index in np.unique(profile.node[answered]):
                    guid = int(plan.guids[index])
                    self._unsupported.add((guid, group))
                    self._can.pop(guid, None)
                    self._plan = None


def _count_lost(
    replies: Replies, at: NDArray[np.intp], ours: NDArray[np.bool_], outcome: Outcome
) -> None:
    silent = replies.states[at] != 0
    for reason, which in (
        (Reason.TIMEOUT, silent),
        (Reason.UNEXPECTED, ~silent & ~ours),
        (Reason.MALFORMED, ~silent & ours & ~replies.good[at]),
    ):
        outcome.lose(reason, int(which.sum()))
    outcome.moved = outcome.moved or bool(silent.any())


def _make_plan(
    known: KnownFabric, can: dict[int, _Capability], names: infiniband.FieldNames
) -> _Plan:
    """Lay out requests in order of node, and where each port's answers will stand."""
    builder = _PlanBuilder(known)
    for node, numbers in known.asked():
        if node.guid in can:
            builder.add(node, numbers, can[node.guid])
        else:
            builder.unlearned += len(numbers)
    return builder.finish(names)


@dataclass(slots=True)
class _Rows:
    """Ports of one profile while the plan is built."""

    names: list[tuple[str, str]] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    at: dict[str, list[int]] = field(default_factory=dict)
    up: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)


class _PlanBuilder:
    def __init__(self, known: KnownFabric) -> None:
        self._known = known
        self._attribute: list[int] = []
        self._port: list[int] = []
        self._lid: list[int] = []
        self._first = [0]
        self._identity: list[int] = []
        self._guids: list[int] = []
        self._rows: dict[_Capability, _Rows] = {}
        self.unlearned = 0

    def add(self, node: IbNode, numbers: list[int], can: _Capability) -> None:
        index = len(self._guids)
        self._identity.append(len(self._attribute))
        self._guids.append(node.guid)
        self._request(0, 0, node.lid_of(numbers[0]))
        rows = self._rows.setdefault(can, _Rows())
        label = self._known.label(node.guid)
        for number in numbers:
            rows.names.append((label.device, label.port(number)))
            rows.node.append(index)
            levels = dict(self._known.levels(node, number))
            rows.up.append(levels.get(OPER_UP, np.nan))
            rows.speed.append(levels.get(SPEED, np.nan))
            for group in can.groups:
                rows.at.setdefault(group, []).append(len(self._attribute))
                self._request(mad.ATTRIBUTES[group], number, node.lid_of(number))
        self._first.append(len(self._attribute))

    def _request(self, attribute: int, port: int, lid: int) -> None:
        self._attribute.append(attribute)
        self._port.append(port)
        self._lid.append(lid)

    def finish(self, names: infiniband.FieldNames) -> _Plan:
        attribute = np.array(self._attribute, np.uint16)
        mads = mad.counter_requests(0, np.array(self._port, np.uint32))
        mads[:, 16:18] = attribute.astype(">u2").view(np.uint8).reshape(-1, 2)
        identity = np.array(self._identity, np.intp)
        kinds = np.zeros(len(mads), np.uint8)
        kinds[identity] = 1
        mads[identity] = mad.requests(
            mad.SMI_LID, mad.NODE_INFO, np.zeros(len(identity), np.uint32)
        )
        requests = Requests(
            mads, kinds, np.array(self._lid, np.uint16), np.array(self._first, np.uint32)
        )
        profiles = [_profile(can, rows, names) for can, rows in self._rows.items()]
        dropped = [_dropped(profile) for profile in profiles]
        guids = np.array(self._guids, np.uint64)
        return _Plan(requests, identity, guids, profiles, dropped, self.unlearned)


def _profile(can: _Capability, rows: _Rows, names: infiniband.FieldNames) -> _Profile:
    groups = {group: dict.fromkeys(_BY_NAME[group], 0) for group in can.groups}
    choices = names.choices(groups, can.cap_mask, can.cap_mask2)
    return _Profile(
        PortSet(tuple(d for d, _ in rows.names), tuple(p for _, p in rows.names)),
        tuple(choice.column for choice in choices),
        choices,
        {group: np.array(at, np.intp) for group, at in rows.at.items()},
        np.array(rows.node, np.intp),
        np.array([rows.up, rows.speed], np.float64),
    )


def _dropped(profile: _Profile) -> tuple[NDArray[np.intp], list[mad.Field]]:
    """Requests whose answers tell of dropped management packets, and the fields that do."""
    group = "PortCounters" if "PortCounters" in profile.at else "PortCountersExtended"
    return profile.at[group], [_BY_NAME[group]["VL15Dropped"], _BY_NAME[group]["QP1Dropped"]]
