"""Requests under way, and how the replies of planned ones land in the matrices of a poll."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import FormatError, Reason
from fabricmon.formats.snmp import ber, snmp
from fabricmon.formats.snmp import snmp_lockstep as lockstep
from fabricmon.formats.snmp.snmp import ErrorStatus
from fabricmon.model.readings import State

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.collectors.snmp.fast_path.security import Prepared
    from fabricmon.collectors.snmp.fast_path.session import FastSession
    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.formats.snmp.snmp import Varbind

_FEWEST_ROWS = 4
"""Below this many replies the plain reader is as cheap."""
_MOST_ROWS = 256


class Ask:
    """One request on its way: a single question (`future`), or a piece of a plan (`reading`).

    All its tries carry the same id, so that a late reply still counts. Those of a plan are used
    again in every poll.
    """

    __slots__ = (
        "counted", "expected", "first", "first_sent", "future", "garbled", "is_run", "key",
        "lent", "places", "prepared", "reading", "repeat", "resynced", "sent", "session", "split",
        "stop", "tries",
    )  # fmt: skip

    def __init__(self, session: FastSession, prepared: Prepared) -> None:
        """Of `session`; `prepared` is what is sent."""
        self.session, self.prepared = session, prepared
        self.key = b""
        """Request id; empty until it is sent."""
        self.tries, self.first_sent, self.sent = 0, 0.0, 0.0
        self.counted = self.lent = self.resynced = False
        """`counted`: it holds a place in the receive window; `lent`: one of those for sessions that
        are not heard of."""
        self.repeat = 0
        """How many varbinds a single GETBULK asks for."""
        self.future: asyncio.Future[Sequence[Varbind]] | None = None
        self.reading: Reading | None = None

    def of_plan(self, plan: Plan, first: int, stop: int, *, is_run: bool) -> Ask:
        """Make it the one that asks for instances first..stop of a plan."""
        self.first, self.stop, self.is_run = first, stop, is_run
        self.split, self.garbled = False, 0
        self.expected = plan.expected[first:stop]
        self.places = plan.place[first:stop]
        return self

    def renew(self, reading: Reading) -> None:
        """Use it in another poll."""
        self.key, self.tries, self.resynced, self.reading = b"", 0, False, reading

    @property
    def abandoned(self) -> bool:
        """Nobody waits for it any more."""
        if self.reading is not None:
            return self.reading.closed
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
    asked: int = 0
    given_up: int = 0
    """Of the requests `asked`, those that got no answer in all their time."""
    heard: bool = False
    closed: bool = False
    lost: Counter[Reason] = field(default_factory=Counter)
    holes: list[NDArray[np.int32]] = field(default_factory=list)

    def hole(self, places: NDArray[np.int32], reason: Reason) -> None:
        """These values could not be read."""
        if len(places):
            self.holes.append(places)
            self.lost[reason] += len(places)

    def landed(self) -> None:
        """One of its requests is done with."""
        self.outstanding -= 1
        if not self.outstanding and not self.done.done():
            self.done.set_result(None)

    def settle(self, state: NDArray[np.uint8]) -> None:
        """Write the flat states."""
        state[self.plan.place] = State.OK
        for places in self.holes:
            state[places] = State.MISSING


Arrived = tuple[Ask, bytes, int]
"""An ask, the octets of its reply, and where the PDU stands in them."""


def land(arrived: Sequence[Arrived]) -> None:
    """Decode replies of many devices together and put their values where they belong."""
    arrived = [item for item in arrived if not item[0].abandoned]
    odd: list[Arrived] = []
    while len(arrived) >= _FEWEST_ROWS:
        odd += _land_plain(arrived[:_MOST_ROWS])
        arrived = arrived[_MOST_ROWS:]
    for ask, payload, at in (*odd, *arrived):
        _land_odd(ask, payload, at)


def _land_plain(arrived: Sequence[Arrived]) -> list[Arrived]:
    """Those that lock-step decoding can read; gives back the others."""
    asks, payloads, starts = zip(*arrived, strict=True)
    decoded = lockstep.decode(payloads, starts, _expected(asks))
    values = np.ascontiguousarray(decoded.values.T)
    special = decoded.odd | decoded.gone.any(axis=0)
    if not special.any():
        for row, ask in enumerate(asks):
            places = ask.places
            ask.reading.flat[places] = values[row, : len(places)]
            ask.reading.landed()
        return []
    odd = []
    for row, ask in enumerate(asks):
        if decoded.odd[row]:
            odd.append(arrived[row])
            continue
        places = ask.places
        ask.reading.flat[places] = values[row, : len(places)]
        if special[row]:
            ask.reading.hole(places[decoded.gone[: len(places), row]], Reason.UNEXPECTED)
        ask.reading.landed()
    return odd


def _expected(asks: Sequence[Ask]) -> NDArray[np.int64]:
    """int64[R,J,1+W]: what every varbind of every reply must look like."""
    shapes = [ask.expected.shape for ask in asks]
    longest, words = max(shape[0] for shape in shapes), max(shape[1] for shape in shapes)
    out = np.zeros((len(asks), longest, words), np.int64)
    for row, ask, (count, own) in zip(out, asks, shapes, strict=True):
        row[:count, :own] = ask.expected
        if own < words:  # the last eight octets, once more
            row[:count, own:] = ask.expected[:, 1:2]
    return out


def _land_odd(ask: Ask, payload: bytes, at: int) -> None:
    """A reply that needs the plain reader: short, reordered, an error, or nonsense."""
    session, reading = ask.session, ask.reading
    assert reading is not None
    try:
        pdu = snmp.decode_reply(payload, at)
    except FormatError as error:
        session.garbled(ask, str(error))
        return
    if pdu.error_status == ErrorStatus.TOO_BIG:
        session.shrink((ask.stop - ask.first) // 2)
        session.halve(ask, Reason.LIMIT)
    elif pdu.error_status:
        session.halve(ask, Reason.UNEXPECTED)
    else:
        at = match(ask, pdu.varbinds)
        if ask.first < at < ask.stop:
            if ask.is_run:
                session.shrink(len(pdu.varbinds))
            session.follow(ask, at)
        else:
            rest = Reason.UNEXPECTED if pdu.varbinds else Reason.TRUNCATED
            reading.hole(ask.places[at - ask.first :], rest)
        reading.landed()


def match(ask: Ask, varbinds: Sequence[Varbind]) -> int:
    """Take what was expected out of a reply; where in the plan it ends.

    Instances that are passed over have vanished: holes. Instances nobody expected are new: skipped
    and counted. OIDs that do not increase, in a run, are where an agent begins to repeat itself.
    """
    reading = ask.reading
    assert reading is not None
    plan = reading.plan
    where = {oid: i for i, oid in enumerate(plan.encoded(ask.first, ask.stop), ask.first)}
    at = ask.first
    previous: ber.Oid = ()
    for varbind in varbinds:
        if varbind.tag == snmp.Gone.END_OF_MIB_VIEW:
            break
        if ask.is_run and varbind.oid <= previous:
            reading.lost[Reason.MALFORMED] += 1
            break
        previous = varbind.oid
        i = where.get(ber.encode_oid(varbind.oid))
        if i is None or i < at:
            reading.lost[Reason.UNEXPECTED] += 1
            continue
        reading.hole(plan.place[at:i], Reason.UNEXPECTED)
        if isinstance(varbind.value, int) and varbind.value >= 0:
            reading.flat[plan.place[i]] = varbind.value
        else:
            reading.hole(plan.place[i : i + 1], Reason.UNEXPECTED)
        at = i + 1
    return at
