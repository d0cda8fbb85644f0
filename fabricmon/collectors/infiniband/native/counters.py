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
from fabricmon.collectors.infiniband.native.plan import BY_NAME, Capability, make_plan
from fabricmon.collectors.infiniband.native.pump import Requests
from fabricmon.collectors.infiniband.native.sweep import learned
from fabricmon.errors import Reason
from fabricmon.formats.infiniband import mad
from fabricmon.formats.infiniband.ibfabric import UNICAST_LIDS
from fabricmon.mappings import infiniband
from fabricmon.model.readings import ReadingBatch, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.clock import Clock
    from fabricmon.collectors.infiniband.known import KnownFabric
    from fabricmon.collectors.infiniband.native.plan import Plan, Profile
    from fabricmon.collectors.infiniband.native.pump import Pump, Replies

_EXTENDED_BITS = 1 << 9 | 1 << 10
_ERRORS_IN_EXTENDED = 1 << 1
_GUID = [f for f in mad.NODE_INFO_FIELDS if f.name == "Guid"]
_ASKED_AGAIN = 64
"""Silent nodes that are looked for at one poll."""
_LOOKED_AT = 256
"""Ports of one kind whose state is asked at one poll; where more have changed a sweep tells."""


@dataclass(slots=True)
class Outcome:
    """One poll: batches, ports lost by reason, and what the collector should know."""

    batches: tuple[ReadingBatch, ...] = ()
    lost: dict[Reason, int] = field(default_factory=dict)
    moved: bool = False
    """Somebody else answers at a LID, or nobody: look again before the next poll."""
    relinked: bool = False
    """A link went down, or one that was down carries packets."""
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
        self._can: dict[int, Capability] = {}
        self._plan: Plan | None = None
        self._unsupported: set[tuple[int, str]] = set()
        self._asked_again = 0

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
            self._can[node.guid] = Capability(
                cap_mask, cap_mask2, self._groups_of(node.guid, cap_mask, cap_mask2)
            )
            if told_well[k]:
                known.learn_tick(node.guid, int(told[k]))

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
            plan = self._plan = make_plan(known, self._can, self._fields)
        outcome = Outcome()
        outcome.lose(Reason.TIMEOUT, plan.unlearned)
        if not len(plan.requests.mads):
            return outcome
        replies = await self._pump.exchange(plan.requests, window)
        now_ns = clock.now_ns()
        mine = self._identified(plan, replies, outcome)
        for profile in plan.profiles:
            values, state = _read(profile, replies, mine)
            news = profile.news(values, state)
            if len(news):
                outcome.relinked = True
                await self._look(plan, profile, news[:_LOOKED_AT])
            outcome.batches += (
                self._batch(profile, replies, mine, (values, state), now_ns, outcome),
            )
        for at, fields in plan.dropped:
            counts = mad.decode(replies.mads[at][:, mad.DATA :], fields)
            outcome.dropped += int(counts[:, replies.good[at]].sum(dtype=np.uint64))
        self._note_unsupported(plan, replies)
        return outcome

    async def any_back(self, known: KnownFabric) -> bool:
        """Whether one of the nodes that the last sweep missed answers where it was.

        Asks a few at a time, once and briefly: most of them will not.
        """
        silent = sorted(known.silent)
        self._asked_again %= max(1, len(silent))
        some = silent[self._asked_again :][:_ASKED_AGAIN]
        self._asked_again += len(some)
        nodes = [known.fabric.nodes[guid] for guid in some]
        lids = np.array([node.lid_of(min(node.ports, default=0)) for node in nodes], np.uint16)
        usable = lids[(lids > 0) & (lids < UNICAST_LIDS.stop)]
        if not len(usable):
            return False
        mads = mad.requests(mad.SMI_LID, mad.NODE_INFO, np.zeros(len(usable), np.uint32))
        replies = await self._pump.exchange(_of_nodes(mads, usable), brief=True)
        return bool(replies.good.any())

    def _identified(self, plan: Plan, replies: Replies, outcome: Outcome) -> NDArray[np.bool_]:
        """bool[nodes]: whether the node that answers is the one that is meant."""
        (guids,) = mad.decode(replies.mads[plan.identity][:, mad.DATA :], _GUID)
        answered = replies.good[plan.identity]
        mine: NDArray[np.bool_] = answered & (guids == plan.guids)
        outcome.moved = not mine.all()
        # Where subnet management is not allowed to us nobody answers; then counts are believed.
        return np.ones_like(mine) if not answered.any() else mine | ~answered

    async def _look(self, plan: Plan, profile: Profile, rows: NDArray[np.intp]) -> None:
        """Ask ports for state and speed, to be told with the counts that say a link changed."""
        asked = next(iter(profile.at.values()))[rows]
        numbers = plan.requests.mads[asked, mad.DATA + 1].astype(np.uint32)
        mads = mad.requests(mad.SMI_LID, mad.PORT_INFO, numbers)
        lids = plan.requests.lids[asked]
        replies = await self._pump.exchange(_of_nodes(mads, lids), brief=True)
        infos = mad.decode(replies.mads[:, mad.DATA :], mad.PORT_INFO_FIELDS)
        for k in np.flatnonzero(replies.good).tolist():
            profile.note(int(rows[k]), mad.port_of(int(numbers[k]), infos[:, k]))

    def _batch(
        self,
        profile: Profile,
        replies: Replies,
        mine: NDArray[np.bool_],
        counts: tuple[NDArray[np.uint64], NDArray[np.uint8]],
        now_ns: int,
        outcome: Outcome,
    ) -> ReadingBatch:
        ours = mine[profile.node]
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
            *counts,
            times,
            (OPER_UP, SPEED),
            gauges,
        )

    def _note_unsupported(self, plan: Plan, replies: Replies) -> None:
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


def _of_nodes(mads: NDArray[np.uint8], lids: NDArray[np.uint16]) -> Requests:
    """Requests to subnet management by LID."""
    n = len(lids)
    return Requests(mads, np.ones(n, np.uint8), lids, np.arange(n + 1, dtype=np.uint32))


def _read(
    profile: Profile, replies: Replies, mine: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Counts of every port of a profile and what is known of each: (uint64[K,N], uint8[K,N])."""
    values = np.zeros((len(profile.columns), len(profile.ports)), np.uint64)
    state = np.full(values.shape, State.UNSUPPORTED, np.uint8)
    ours = mine[profile.node]
    for group, at in profile.at.items():
        mads, good = replies.mads[at], replies.good[at] & ours
        refused = (replies.states[at] == 0) & (mad.status(mads) != 0) & ours
        wanted = [
            (k, BY_NAME[group][choice.field])
            for k, choice in enumerate(profile.choices)
            if choice.supported and choice.group == group
        ]
        rows = [k for k, _ in wanted]
        values[rows] = mad.decode(mads[:, mad.DATA :], [f for _, f in wanted]) * good
        state[rows] = np.where(good, State.OK, np.where(refused, State.UNSUPPORTED, State.MISSING))
    return values, state


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
