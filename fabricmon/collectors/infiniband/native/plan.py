"""Everything about a poll that does not change between two discoveries.

Requests stand in order of node, each node's NodeInfo first; what its ports' answers become is laid
out by what the node can count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.collectors.infiniband.known import OPER_UP, SPEED
from fabricmon.collectors.infiniband.native.pump import Requests
from fabricmon.formats.infiniband import mad
from fabricmon.model.readings import PortSet, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.collectors.infiniband.known import KnownFabric
    from fabricmon.formats.infiniband.ibfabric import IbNode, IbPort
    from fabricmon.mappings import infiniband
    from fabricmon.model.readings import Column

BY_NAME = {group: {f.name: f for f in fields} for group, fields in mad.FIELDS.items()}

_NEWS = ("link_downed", "link_recoveries", "rx_packets")


@dataclass(frozen=True, slots=True)
class Capability:
    """What one node counts."""

    cap_mask: int
    cap_mask2: int
    groups: tuple[str, ...]


@dataclass(slots=True)
class Profile:
    """Ports of nodes that count the same: one batch."""

    ports: PortSet
    columns: tuple[Column, ...]
    choices: list[infiniband.Choice]
    at: dict[str, NDArray[np.intp]]
    """Position of each port's request in the batch of datagrams, by attribute."""
    node: NDArray[np.intp]
    """Which asked node each port belongs to."""
    gauges: NDArray[np.float64]
    before: NDArray[np.uint64] | None = None
    """What the last poll read of `_NEWS`."""

    def news(self, values: NDArray[np.uint64], state: NDArray[np.uint8]) -> NDArray[np.intp]:
        """intp[M]: ports whose link has changed since the last poll, of `values`, `state` [K,N].

        It went down, or was trained anew, or counts as down and carries packets.
        """
        by_id = {column.counter.id: k for k, column in enumerate(self.columns)}
        rows = [by_id[name] for name in _NEWS]
        read, before = state[rows] == State.OK, self.before
        self.before = np.where(read, values[rows], 0 if before is None else before)
        if before is None:
            return np.zeros(0, np.intp)
        *changed, received = (self.before > before) & read
        return np.flatnonzero(np.any(changed, axis=0) | received & (self.gauges[0] == 0))

    def note(self, row: int, port: IbPort) -> None:
        """State and speed of one port, as it tells them itself."""
        bps = self.gauges[1, row]
        self.gauges[0, row] = bool(port.up)
        # FDR10 calls itself QDR here: only a sweep can tell them apart.
        self.gauges[1, row] = bps if port.speed == "QDR" and bps else port.speed_bps or np.nan


@dataclass(slots=True)
class Plan:
    """Everything about a poll that does not change between two discoveries."""

    requests: Requests
    identity: NDArray[np.intp]
    """Position of each node's NodeInfo request."""
    guids: NDArray[np.uint64]
    profiles: list[Profile]
    dropped: list[tuple[NDArray[np.intp], list[mad.Field]]]
    """Where the counts of dropped management packets stand."""
    unlearned: int
    """Ports of nodes that have not told what they count."""


def make_plan(known: KnownFabric, can: dict[int, Capability], names: infiniband.FieldNames) -> Plan:
    """Lay out requests in order of node, and where each port's answers will stand."""
    builder = _Builder(known)
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


class _Builder:
    def __init__(self, known: KnownFabric) -> None:
        self._known = known
        self._attribute: list[int] = []
        self._port: list[int] = []
        self._lid: list[int] = []
        self._first = [0]
        self._identity: list[int] = []
        self._guids: list[int] = []
        self._rows: dict[Capability, _Rows] = {}
        self.unlearned = 0

    def add(self, node: IbNode, numbers: list[int], can: Capability) -> None:
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

    def finish(self, names: infiniband.FieldNames) -> Plan:
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
        profiles = [_profile_of(can, rows, names) for can, rows in self._rows.items()]
        dropped = [_dropped_of(profile) for profile in profiles]
        guids = np.array(self._guids, np.uint64)
        return Plan(requests, identity, guids, profiles, dropped, self.unlearned)


def _profile_of(can: Capability, rows: _Rows, names: infiniband.FieldNames) -> Profile:
    groups = {group: dict.fromkeys(BY_NAME[group], 0) for group in can.groups}
    choices = names.choices(groups, can.cap_mask, can.cap_mask2)
    return Profile(
        PortSet(tuple(d for d, _ in rows.names), tuple(p for _, p in rows.names)),
        tuple(choice.column for choice in choices),
        choices,
        {group: np.array(at, np.intp) for group, at in rows.at.items()},
        np.array(rows.node, np.intp),
        np.array([rows.up, rows.speed], np.float64),
    )


def _dropped_of(profile: Profile) -> tuple[NDArray[np.intp], list[mad.Field]]:
    """Requests whose answers tell of dropped management packets, and the fields that do."""
    group = "PortCounters" if "PortCounters" in profile.at else "PortCountersExtended"
    return profile.at[group], [BY_NAME[group]["VL15Dropped"], BY_NAME[group]["QP1Dropped"]]
