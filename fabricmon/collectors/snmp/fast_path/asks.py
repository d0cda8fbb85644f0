"""Requests under way, and how the replies of planned ones land in the matrices of a poll."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import FormatError, Reason
from fabricmon.formats import ber, snmp
from fabricmon.formats import snmp_lockstep as lockstep
from fabricmon.formats.snmp import ErrorStatus
from fabricmon.model.readings import State

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.collectors.snmp.fast_path.security import Prepared
    from fabricmon.collectors.snmp.fast_path.session import FastSession
    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.formats.snmp import Varbind

_FEWEST_ROWS = 4
"""Below this many replies the plain reader is as cheap."""


@dataclass(slots=True, eq=False)
class Ask:
    """One request on its way; the same id for all its tries, so that a late reply still counts."""

    session: FastSession
    prepared: Prepared
    bulk: Bulk | None = None
    future: asyncio.Future[Sequence[Varbind]] | None = None
    key: bytes = b""
    tries: int = 0
    first_sent: float = 0.0
    sent: float = 0.0
    counted: bool = False
    """It holds a place in the receive window."""
    resynced: bool = False

    @property
    def abandoned(self) -> bool:
        """Nobody waits for it any more."""
        if self.bulk is not None:
            return self.bulk.reading.closed
        return self.future is not None and self.future.done()


@dataclass(slots=True, eq=False)
class Reading:
    """One poll of one device while it goes on.

    Values are written as they come. The states are settled at the end: what was to be read is OK
    but for the `holes`.
    """

    plan: Plan
    flat: NDArray[np.uint64]
    done: asyncio.Future[None]
    outstanding: int = 0
    heard: bool = False
    closed: bool = False
    lost: Counter[Reason] = field(default_factory=Counter)
    holes: list[NDArray[np.int32]] = field(default_factory=list)

    def hole(self, places: NDArray[np.int32], reason: Reason) -> None:
        """These values could not be read."""
        if len(places):
            self.holes.append(places)
            self.lost[reason] += len(places)

    def settle(self, state: NDArray[np.uint8]) -> None:
        """Write the states."""
        flat = state.reshape(-1)
        flat[self.plan.place] = State.OK
        for places in self.holes:
            flat[places] = State.MISSING


@dataclass(slots=True, eq=False)
class Bulk:
    """Instances first..stop of a reading, asked for in one request."""

    session: FastSession
    reading: Reading
    first: int
    stop: int
    is_run: bool
    halved: bool = False
    garbled: int = 0

    @property
    def places(self) -> NDArray[np.int32]:
        """Where its values land."""
        return self.reading.plan.place[self.first : self.stop]


def land(arrived: Sequence[tuple[Bulk, bytes, int]]) -> None:
    """Decode replies of many devices together and put their values where they belong."""
    arrived = [item for item in arrived if not item[0].reading.closed]
    if len(arrived) >= _FEWEST_ROWS:
        arrived = _land_plain(arrived)
    for bulk, payload, at in arrived:
        _land_odd(bulk, payload, at)


def _land_plain(arrived: Sequence[tuple[Bulk, bytes, int]]) -> list[tuple[Bulk, bytes, int]]:
    """Those that lock-step decoding can read; gives back the others."""
    bulks = [bulk for bulk, _, _ in arrived]
    longest = max(bulk.stop - bulk.first for bulk in bulks)
    words = max(bulk.reading.plan.expected.shape[1] for bulk in bulks)
    expected = np.zeros((len(bulks), longest, words), np.int64)
    for row, bulk in enumerate(bulks):
        part = bulk.reading.plan.expected[bulk.first : bulk.stop]
        expected[row, : len(part), : part.shape[1]] = part
        if part.shape[1] < words:
            expected[row, : len(part), part.shape[1] :] = part[:, 1:2]
    decoded = lockstep.decode(
        [payload for _, payload, _ in arrived], [at for _, _, at in arrived], expected
    )
    values = np.ascontiguousarray(decoded.values.T)
    gone = set(np.flatnonzero(decoded.gone.any(axis=0)).tolist())
    odd = []
    for row, bulk in enumerate(bulks):
        if decoded.odd[row]:
            odd.append(arrived[row])
            continue
        places = bulk.places
        bulk.reading.flat[places] = values[row, : len(places)]
        if row in gone:
            bulk.reading.hole(places[decoded.gone[: len(places), row]], Reason.UNEXPECTED)
        bulk.session.landed(bulk)
    return odd


def _land_odd(bulk: Bulk, payload: bytes, at: int) -> None:
    """A reply that needs the plain reader: short, reordered, an error, or nonsense."""
    session = bulk.session
    try:
        pdu = snmp.decode(payload, at)
    except FormatError as error:
        session.garbled(bulk, str(error))
        return
    if pdu.error_status == ErrorStatus.TOO_BIG:
        session.shrink((bulk.stop - bulk.first) // 2)
        session.split(bulk, Reason.LIMIT)
    elif pdu.error_status:
        session.split(bulk, Reason.UNEXPECTED)
    else:
        at = match(bulk, pdu.varbinds)
        if at == bulk.stop or not pdu.varbinds or at == bulk.first:
            rest = Reason.UNEXPECTED if pdu.varbinds else Reason.TRUNCATED
            bulk.reading.hole(bulk.reading.plan.place[at : bulk.stop], rest)
        else:
            if bulk.is_run:
                session.shrink(len(pdu.varbinds))
            session.follow(bulk, at)
        session.landed(bulk)


def match(bulk: Bulk, varbinds: Sequence[Varbind]) -> int:
    """Take what was expected out of a reply; where in the plan it ends.

    Instances that are passed over have vanished: holes. Instances nobody expected are new: skipped
    and counted. OIDs that do not increase, in a run, are where an agent begins to repeat itself.
    """
    reading, plan = bulk.reading, bulk.reading.plan
    where = {oid: i for i, oid in enumerate(plan.encoded(bulk.first, bulk.stop), bulk.first)}
    at, last = bulk.first, b""
    previous: ber.Oid = ()
    for varbind in varbinds:
        if varbind.tag == snmp.Gone.END_OF_MIB_VIEW:
            break
        if bulk.is_run and varbind.oid <= previous:
            reading.lost[Reason.MALFORMED] += 1
            break
        previous = varbind.oid
        last = ber.encode_oid(varbind.oid)
        i = where.get(last)
        if i is None or i < at:
            reading.lost[Reason.UNEXPECTED] += 1
            continue
        reading.hole(plan.place[at:i], Reason.UNEXPECTED)
        if isinstance(varbind.value, int):
            reading.flat[plan.place[i]] = varbind.value & 0xFFFF_FFFF_FFFF_FFFF
        else:
            reading.hole(plan.place[i : i + 1], Reason.UNEXPECTED)
        at = i + 1
    return at
