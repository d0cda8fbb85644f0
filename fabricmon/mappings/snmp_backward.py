"""The SNMP mapping engine, backward: which objects an agent of a kind would have for a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabricmon.mappings.snmp import Oid, Profile, SnmpRow, oid
from fabricmon.model.counters import NO_QUEUE, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

INTEGER, COUNTER32, GAUGE32, TIMETICKS, COUNTER64 = 0x02, 0x41, 0x42, 0x43, 0x46

DOWN = 2
"""What `ifOperStatus` and its like answer where they do not answer 1."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One object instance of an agent, and the value it shows.

    The value is that of `counter` at `queue` of port `port` (a position in the list of ports),
    divided by `divisor` and cut to `bits`; for a gauge with `wanted`, `wanted` while it is 1 and
    DOWN otherwise. Without a counter it always shows `constant`; SAMPLED is the time of the last
    update in sysUpTime ticks.
    """

    oid: Oid
    tag: int
    counter: str = ""
    queue: int = NO_QUEUE
    port: int = 0
    divisor: float = 1
    bits: int = 64
    wanted: int | None = None
    constant: int = 0


SAMPLED = "sampled"


def instances(
    profile: Profile, if_index: Sequence[int], counted: Mapping[str, Collection[int]]
) -> Iterator[Instance]:
    """Everything such an agent answers for ports with these numbers.

    `counted`: the counters there are values for, with their queues (NO_QUEUE for port scope).
    """
    for counter, queues in counted.items():
        rows = [row for row in profile.by_counter.get(counter, ()) if not row.queue]
        if rows:
            yield from _row(rows[0], if_index, queues)
    if profile.sample_time:
        for port, index in enumerate(if_index):
            yield Instance((*profile.sample_time, index), TIMETICKS, SAMPLED, NO_QUEUE, port)


def _row(row: SnmpRow, if_index: Sequence[int], queues: Collection[int]) -> Iterator[Instance]:
    base = oid(row.oid)
    tag = _tag(row)
    divisor = row.scale if not row.entry.is_gauge else row.factor
    if row.unit:
        yield Instance(oid(row.unit), GAUGE32, constant=1)
    for column, column_queue in row.columns():
        own = column_queue if column_queue != NO_QUEUE else None
        main = row.queue_step > 0 or column == base
        for port, index in enumerate(if_index):
            for queue in queues if row.entry.scope is Scope.QUEUE else (NO_QUEUE,):
                if own is not None and queue != own:
                    continue
                instance = (*column, *row.shape.write(index, queue))
                if main:
                    yield Instance(
                        instance, tag, row.counter, queue, port, divisor, row.bits, row.is_
                    )
                else:
                    yield Instance(instance, tag)
                if row.gate and main:
                    yield _gate(row, index, queue)


def _gate(row: SnmpRow, index: int, queue: int) -> Instance:
    assert row.gate is not None
    suffix = row.gate_shape.write(index, queue)
    return Instance((*oid(row.gate.oid), *suffix), INTEGER, constant=row.gate.equals)


def _tag(row: SnmpRow) -> int:
    if row.is_ is not None:
        return INTEGER
    if row.entry.is_gauge:
        return GAUGE32
    return COUNTER32 if row.bits == 32 else COUNTER64
