"""The SNMP mapping engine, forward: from what an agent answered to batches.

A `Grid` is made once per device (`snmp_build`): it fixes the ports, the source of every counter and
the list of instances that have a value. After that a poll only fills its matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.mappings.snmp import Oid, Profile
    from fabricmon.mappings.snmp_walk import Walk


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """The M instances that a poll reads, ascending. Short-lived: plans are compiled from it.

    place     int32[M]  flat position of each in the raw matrix [R,N]
    adjacent  bool[M]   nothing that was walked stands between it and the one before
    """

    oids: list[Oid]
    place: NDArray[np.int32]
    adjacent: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.oids)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Where what is read from one device lands.

    R raw rows: those of counts first (one or more per output column, in the order of `columns`),
    then those of gauges, then the sample time where the device has one. N ports.

    base, base_state    uint64[R,N], uint8[R,N]: what a poll starts from (slow values, and
                        UNSUPPORTED where the device has no such instance)
    """

    profile: Profile
    ports: PortSet
    if_index: tuple[int, ...]
    base: NDArray[np.uint64]
    base_state: NDArray[np.uint8]
    columns: tuple[Column, ...]
    gauge_columns: tuple[Column, ...]
    lacks: tuple[str, ...]
    """Counters of the mapping that this device does not have."""
    closed: tuple[str, ...]
    """Counters that it has and that are switched off (their gate is closed)."""
    _starts: NDArray[np.intp] = field(repr=False)
    _shifts: NDArray[np.uint64] = field(repr=False)
    _gauges: tuple[tuple[float, int | None], ...] = field(repr=False)

    def blank(self, more: int = 0) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Flat values, states [R·N + more] for a poll: everything that is to be read is MISSING."""
        values = np.zeros(self.base.size + more, np.uint64)
        values[: self.base.size] = self.base.reshape(-1)
        state = np.full(self.base.size + more, State.MISSING, np.uint8)
        state[: self.base.size] = self.base_state.reshape(-1)
        return values, state

    def renamed(self, device: str) -> Grid:
        """The same grid for a device that is called otherwise."""
        return replace(self, ports=PortSet((device,) * len(self.ports), self.ports.port))

    def fill(
        self, instances: Instances, walk: Walk
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """The flat matrices [R·N], filled from a walk instead of a poll."""
        values, state = self.blank()
        for instance, place in zip(instances.oids, instances.place.tolist(), strict=True):
            value = walk.number(instance)
            if value is not None:
                values[place], state[place] = value & 0xFFFF_FFFF_FFFF_FFFF, State.OK
        return values, state

    def batch(
        self,
        target: str,
        values: NDArray[np.uint64],
        state: NDArray[np.uint8],
        now_ns: int,
        *,
        uptime_cs: int | None = None,
        discontinuity: bool = False,
    ) -> ReadingBatch:
        """One poll as a batch. Takes the flat matrices, [R·N] and more, over."""
        values = values[: self.base.size].reshape(self.base.shape)
        state = state[: self.base.size].reshape(self.base.shape)
        counts, gauges = len(self._shifts), len(self.gauge_columns)
        c_values, c_state = values[:counts], state[:counts]
        if len(self._starts) != counts:
            c_values, c_state = self._summed(c_values, c_state)
        time_ns = np.full(len(self.ports), now_ns, np.int64)
        if len(values) > counts + gauges and uptime_cs is not None:
            _sample_time(time_ns, values[-1], state[-1], uptime_cs)
        return ReadingBatch(
            target,
            self.ports,
            self.columns,
            c_values,
            c_state,
            time_ns,
            self.gauge_columns,
            self._levels(values[counts : counts + gauges], state[counts : counts + gauges]),
            discontinuity,
        )

    def _summed(
        self, values: NDArray[np.uint64], state: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Each column's parts added; most columns have one."""
        first, shifts = self._starts, self._shifts[:, None]
        out, worst = values[first] << shifts[first], state[first]
        for k, (start, stop) in enumerate(pairwise([*first.tolist(), len(values)])):
            if stop - start > 1:
                out[k] = (values[start:stop] << shifts[start:stop]).sum(axis=0)
                np.max(state[start:stop], axis=0, out=worst[k])
        return out, worst

    def _levels(self, raw: NDArray[np.uint64], state: NDArray[np.uint8]) -> NDArray[np.float64]:
        out = np.empty(raw.shape)
        for g, (factor, wanted) in enumerate(self._gauges):
            out[g] = raw[g] == wanted if wanted is not None else raw[g] * factor
        out[state != State.OK] = np.nan
        return out


def _sample_time(
    time_ns: NDArray[np.int64],
    sampled_cs: NDArray[np.uint64],
    state: NDArray[np.uint8],
    uptime_cs: int,
) -> None:
    """Move each port's time back by the age of its sample; more than a minute is not believed."""
    age = (np.uint64(uptime_cs) - sampled_cs) & np.uint64(0xFFFF_FFFF)
    good = (state == State.OK) & (age <= 6_000)
    time_ns[good] -= age[good].astype(np.int64) * 10_000_000


def lacking(grid: Grid) -> dict[str, str]:
    """Each counter of the mapping that has no value on this device, and why."""
    why = dict.fromkeys(grid.lacks, "the device does not answer for it")
    read = {column.counter.id for column in (*grid.columns, *grid.gauge_columns)}
    why.update({name: "switched off on the device" for name in grid.closed if name not in read})
    return {name: why[name] for name in BY_ID if name in why}
