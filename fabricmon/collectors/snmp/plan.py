"""What a poll asks, encoded once: requests, and what their replies must look like.

A run of instances that stand together in the agent's tree is one GETBULK, which costs the agent
least; scattered ones (the one lossless priority out of eight) are named one by one in a GET.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from fabricmon.formats.snmp import ber, snmp
from fabricmon.formats.snmp import snmp_lockstep as lockstep
from fabricmon.mappings.snmp_grid import Instances

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.snmp.ber import Oid

_SHORTEST_RUN = 8
"""Below this many neighbours a GETBULK is not worth its own request."""
_VARBIND_OCTETS = 14
"""A varbind besides its OID: four heads, and eight octets of value with room to spare."""
_MESSAGE_OCTETS = 80


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Plan:
    """All instances of one device's poll, M of them, in the order they are asked for.

    expected  int64[M,1+W]  what lock-step decoding compares each varbind with
    place     int32[M]      where each value lands in the flat raw matrix
    stops     int32[M]      where each encoded OID ends in `octets`
    runs      (first, stop, is_run) of each stretch: a run for GETBULK, or scattered ones for GET
    """

    expected: NDArray[np.int64]
    place: NDArray[np.int32]
    octets: bytes
    stops: NDArray[np.int32]
    runs: tuple[tuple[int, int, bool], ...]

    def __len__(self) -> int:
        return len(self.place)

    def encoded(self, first: int, stop: int) -> list[bytes]:
        """The encoded OIDs of instances first..stop."""
        bounds = [int(self.stops[first - 1]) if first else 0, *self.stops[first:stop].tolist()]
        return [self.octets[a:b] for a, b in pairwise(bounds)]

    def pieces(self, repetitions: int, reply_octets: int) -> Iterator[tuple[int, int, bool]]:
        """Cut the runs into requests of at most so many varbinds and octets of reply."""
        room = max(1, reply_octets - _MESSAGE_OCTETS)
        sizes = self.expected[:, 0] >> 24
        for first, stop, is_run in self.runs:
            widest = _VARBIND_OCTETS + int(sizes[first:stop].max())
            size = max(1, min(repetitions, room // widest))
            for at in range(first, stop, size):
                yield at, min(at + size, stop), is_run

    def request(self, first: int, stop: int, *, is_run: bool) -> bytes:
        """The PDU that asks for instances first..stop, with `snmp.MIN_REQUEST_ID` in it."""
        if is_run:
            after = [before(ber.decode_oid(self.encoded(first, first + 1)[0]))]
            return snmp.request(
                snmp.PduType.GETBULK, snmp.MIN_REQUEST_ID, after, repeat=stop - first
            )
        oids = map(ber.decode_oid, self.encoded(first, stop))
        return snmp.request(snmp.PduType.GET, snmp.MIN_REQUEST_ID, oids)


def before(oid: Oid) -> Oid:
    """An OID after which `oid` comes next, whatever else its table holds."""
    return (*oid[:-1], oid[-1] - 1) if oid[-1] else oid[:-1]


_plans: WeakValueDictionary[bytes, Plan] = WeakValueDictionary()
"""Devices that are alike share one plan: a fabric has many switches and few models of them."""


def compile_plan(instances: Instances, size: int, scalars: Sequence[Oid]) -> Plan:
    """Encode the instances of a device, and of some scalars that are read with them.

    `size`: cells of the raw matrix; the scalars land behind it, in order.
    """
    instances = Instances(
        [*scalars, *instances.oids],
        np.concatenate([np.arange(size, size + len(scalars), dtype=np.int32), instances.place]),
        np.concatenate([np.zeros(len(scalars), np.bool_), instances.adjacent]),
    )
    digest = blake2b(
        b"".join(
            (
                marshal.dumps(instances.oids),
                instances.place.tobytes(),
                instances.adjacent.tobytes(),
            )
        )
    ).digest()
    plan = _plans.get(digest)
    if plan is None:
        plan = _plans[digest] = _compile(instances)
    return plan


def _compile(instances: Instances) -> Plan:
    runs = list(_runs(instances.adjacent))
    order = [i for first, stop, _ in runs for i in range(first, stop)]
    encoded = [ber.encode_oid(instances.oids[i]) for i in order]
    words = lockstep.words_for(encoded) if encoded else 1
    return Plan(
        lockstep.expectation(encoded, words),
        instances.place[order],
        b"".join(encoded),
        np.cumsum([len(oid) for oid in encoded], dtype=np.int32),
        _stretches(runs),
    )


def _runs(adjacent: NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """Stretches of neighbours, long ones first, then the scattered rest; both ascending."""
    starts = sorted({0, *np.flatnonzero(~adjacent).tolist()}) if len(adjacent) else []
    pairs = list(zip(starts, [*starts[1:], len(adjacent)], strict=True))
    yield from ((a, b, True) for a, b in pairs if b - a >= _SHORTEST_RUN)
    yield from ((a, b, False) for a, b in pairs if b - a < _SHORTEST_RUN)


def _stretches(runs: Sequence[tuple[int, int, bool]]) -> tuple[tuple[int, int, bool], ...]:
    """The same in positions of the plan; what is scattered becomes one stretch."""
    out: list[tuple[int, int, bool]] = []
    at = 0
    for first, stop, is_run in runs:
        size = stop - first
        if not is_run and out and not out[-1][2]:
            out[-1] = (out[-1][0], at + size, False)
        else:
            out.append((at, at + size, is_run))
        at += size
    return tuple(out)
