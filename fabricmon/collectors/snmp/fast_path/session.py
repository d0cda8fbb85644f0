"""The fast path: one agent, asked with requests encoded beforehand, several in flight."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from fabricmon.collectors.snmp.fast_path.asks import Ask, Reading
from fabricmon.collectors.snmp.fast_path.security import WORDS, Usm
from fabricmon.collectors.snmp.fast_path.wire import Refused
from fabricmon.collectors.snmp.reference import no_answer
from fabricmon.errors import FormatError, PollError, Reason
from fabricmon.formats.snmp import snmp, snmp_usm
from fabricmon.formats.snmp.snmp import ErrorStatus, PduType

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.collectors.snmp.config import Access, SnmpConfig
    from fabricmon.collectors.snmp.fast_path.security import Prepared, ReportError, Security
    from fabricmon.collectors.snmp.fast_path.wire import Wire
    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.formats.snmp.ber import Oid
    from fabricmon.formats.snmp.snmp import Varbind

_SHORTEST_WAIT_S = 0.1
_FIRST_REPETITIONS = 25
"""What every agent manages; a walk goes on from there."""
_MAX_GARBLED = 3
_PLANS = 2
"""Plans whose requests are kept: what is read in every poll, and what is read now and then."""
_SMALLEST_LIMIT = 480
"""Every agent can send messages of 484 octets; a shorter reply was cut by count, not by size."""


class FastSession:
    """One agent. What is sent and when is up to `wire`; what it means is decided here."""

    def __init__(
        self,
        name: str,
        family: socket.AddressFamily,
        address: tuple[str, int],
        access: Access,
        security: Security,
        config: SnmpConfig,
        wire: Wire,
    ) -> None:
        """`name` is the target as errors call it."""
        self.name, self.family, self.address = name, family, address
        self.security = security
        self.waiting = False
        """It stands in the wire's line of sessions that want to send."""
        self.in_flight = 0
        self.is_heard = False
        """It answers, as far as is known."""
        self.patience_s = config.timeout * (config.retries + 1)
        self._access, self._config, self._wire = access, config, wire
        self._queue: deque[Ask] = deque()
        self._most, self._octets = config.max_repetitions, config.reply_octets
        """What this agent was found to manage in one reply."""
        self._repetitions = min(_FIRST_REPETITIONS, self._most)
        """What the next request of a walk asks for."""
        self._wait, self._smooth, self._spread = config.timeout, 0.0, 0.0
        self._last_heard = self._not_before = 0.0
        self._replies = 0
        self._asks: dict[Plan, tuple[int, bytes, list[Ask]]] = {}
        self._discovering: asyncio.Task[None] | None = None

    # What callers use.

    async def get(self, oids: Sequence[Oid]) -> Sequence[Varbind]:
        """The values of some instances."""
        varbinds = await self._with_engine(PduType.GET, oids, 0)
        if [varbind.oid for varbind in varbinds] != list(oids):
            raise PollError(Reason.MALFORMED, f"{self.name}: it answered for other objects")
        return varbinds

    async def bulk(self, after: Oid) -> Sequence[Varbind]:
        """Some varbinds that follow `after`; fewer at a time where replies get lost or too big."""
        while True:
            asked = self._repetitions
            try:
                return await self._with_engine(PduType.GETBULK, [after], asked)
            except PollError as error:
                if asked == 1 or not self.is_heard:
                    raise
                if error.reason is Reason.LIMIT:
                    self.shrink(asked // 2)
                    continue
                if error.reason is not Reason.TIMEOUT:
                    raise
            # Lost for its size, or does the agent not answer this at all? A small one tells.
            fewer = max(1, asked // 4)
            varbinds = await self._with_engine(PduType.GETBULK, [after], fewer)
            self.shrink(fewer)
            return varbinds

    async def read(
        self, plan: Plan, values: NDArray[np.uint64], state: NDArray[np.uint8]
    ) -> Counter[Reason]:
        """Read every instance of the plan into the flat matrices; states are settled at the end."""
        try:
            return await self._read(plan, values, state)
        except EngineChangedError:
            return await self._read(plan, values, state)

    async def _read(
        self, plan: Plan, values: NDArray[np.uint64], state: NDArray[np.uint8]
    ) -> Counter[Reason]:
        await self._ensure_engine()
        done = asyncio.get_running_loop().create_future()
        reading = Reading(plan, values, done)
        asks = self._asks_of(plan)
        if not asks:
            return reading.lost
        for ask in asks:
            ask.renew(reading)
        reading.outstanding = reading.asked = len(asks)
        self._queue.extend(asks)
        self._wire.want(self)
        try:
            await done
        finally:
            reading.closed = True
            if not done.done() or done.cancelled() or done.exception() is not None:
                self._forget_closed()
                self._asks.pop(plan, None)  # some are still on the wire: never use those again
        if not reading.heard:
            raise no_answer(self.name, self._access, self._config)
        reading.settle(state)
        return reading.lost

    def close(self) -> None:
        """Forget what is queued; whoever waits is told."""
        for ask in self._queue:
            self._fail(ask, PollError(Reason.INTERNAL, f"{self.name}: polling was stopped"))
        self._queue.clear()
        if self._discovering is not None:
            self._discovering.cancel()

    # What the wire asks.

    @property
    def has_more(self) -> bool:
        """Whether something is queued."""
        return bool(self._queue)

    def next_asks(self, room: int, now: float) -> list[Ask]:
        """The next requests, as many as the agent may have now; `room` at most."""
        limit = self._config.in_flight if self.is_heard else 1
        if self._config.pace:
            self._not_before = now + 1 / self._config.pace
            limit = min(limit, self.in_flight + 1)
        queue = self._queue
        count = min(limit - self.in_flight, len(queue), room)
        return [queue.popleft() for _ in range(count)]

    def pause(self, now: float) -> float:
        """Seconds until the next request is allowed by `pace`."""
        return self._not_before - now

    def overdue_after(self, ask: Ask) -> float:
        """Seconds after which a request without an answer is sent again."""
        return min(self._wait * (1 << min(ask.tries, 6)), self._config.timeout)

    # What the wire reports.

    def heard(self, ask: Ask, now: float) -> None:
        """A reply came: learn how long this agent takes (not from requests sent twice)."""
        self.is_heard, self._last_heard = True, now
        if ask.reading is not None:
            ask.reading.heard = True
        self._replies += 1
        if ask.tries or (self._replies & 7 and self._smooth):  # every eighth is enough
            return
        took = now - ask.sent
        if not self._smooth:
            self._smooth, self._spread = took, took / 2
        self._spread += (abs(took - self._smooth) - self._spread) / 4
        self._smooth += (took - self._smooth) / 8
        wait = self._smooth + 4 * self._spread
        self._wait = min(max(wait, _SHORTEST_WAIT_S), self._config.timeout)

    def answered(self, ask: Ask, payload: bytes, at: int) -> None:
        """The reply of a single request."""
        assert ask.future is not None
        if ask.future.done():
            return
        try:
            pdu = snmp.decode_reply(payload, at)
        except FormatError as error:
            self._wire.refuse(self.name, Refused.MALFORMED, str(error))
            ask.future.set_exception(
                PollError(Reason.MALFORMED, f"{self.name}: a reply that is not SNMP: {error}")
            )
            return
        if pdu.error_status:
            big = pdu.error_status == ErrorStatus.TOO_BIG
            text = "the reply would be too big" if big else f"error status {pdu.error_status}"
            reason = Reason.LIMIT if big else Reason.UNEXPECTED
            ask.future.set_exception(PollError(reason, f"{self.name}: {text}"))
            return
        if ask.repeat:
            self._measure(ask.repeat, pdu.varbinds, len(payload))
        ask.future.set_result(pdu.varbinds)

    def _measure(self, asked: int, varbinds: Sequence[Varbind], octets: int) -> None:
        """Learn from a walk what this agent manages: twice as much next time, or less from now."""
        if len(varbinds) >= asked:
            self._repetitions = min(max(self._repetitions, 2 * asked), self._most)
        elif varbinds and varbinds[-1].exists:
            if octets >= _SMALLEST_LIMIT:
                self._octets = min(self._octets, octets)
            else:
                self.shrink(len(varbinds))

    def reported(self, ask: Ask, error: ReportError) -> bool:
        """A v3 report instead of an answer; whether the request is worth sending again."""
        assert isinstance(self.security, Usm)
        opened = error.opened
        self.is_heard = True
        if ask.abandoned:  # the others of its reading were told the same
            return False
        if error.which == snmp_usm.NOT_IN_WINDOW and opened.authentic and not ask.resynced:
            self.security.set_clock(opened.boots, opened.time)
            ask.resynced = True
            return True
        if error.which == snmp_usm.UNKNOWN_ENGINE:
            if not self.security.engine and ask.future is not None:
                self._learn(ask, opened)
                return False
            self.security.forget()
            self._fail(ask, EngineChangedError(self.name))
            return False
        why = WORDS.get(error.which, "the agent answers with a report")
        self._fail(ask, PollError(Reason.AUTHENTICATION, f"{self.name}: {why}"))
        return False

    def _learn(self, ask: Ask, opened: snmp_usm.Opened) -> None:
        assert isinstance(self.security, Usm)
        assert ask.future is not None
        try:
            self.security.learn(opened.engine, opened.boots, opened.time)
        except PollError as error:
            self._fail(ask, error)
        else:
            ask.future.set_result(())

    def failed(self, ask: Ask, reason: Reason) -> None:
        """No answer in all its time."""
        silent = self._last_heard < ask.first_sent
        if ask.reading is None:
            self.is_heard = self.is_heard and not silent
            self._fail(ask, no_answer(self.name, self._access, self._config))
            return
        if silent:
            self.is_heard = False
            self._give_up(ask.reading, reason)
        elif not ask.split and ask.stop - ask.first > 1:
            ask.reading.given_up += 1
            if 2 * ask.reading.given_up > ask.reading.asked:
                self.shrink((ask.stop - ask.first) // 2)  # not chance: such replies do not arrive
            self.halve(ask, reason)
            return
        ask.reading.hole(ask.places, reason)
        ask.reading.landed()

    def unsendable(self, ask: Ask, error: OSError) -> None:
        """The kernel refuses to send there."""
        self._fail(ask, PollError(Reason.UNREACHABLE, f"{self.name}: {error.strerror or error}"))

    # What landing replies decides.

    def shrink(self, repetitions: int) -> None:
        """This agent answers no more than so many values at a time."""
        self._most = max(1, min(self._most, repetitions))
        self._repetitions = min(self._repetitions, self._most)

    def halve(self, ask: Ask, reason: Reason) -> None:
        """Ask for both halves instead; for a single instance there is nothing left to try."""
        assert ask.reading is not None
        if ask.stop - ask.first == 1:
            ask.reading.hole(ask.places, reason)
        else:
            middle = (ask.first + ask.stop) // 2
            self._add(ask, ask.first, middle)
            self._add(ask, middle, ask.stop)
        ask.reading.landed()

    def follow(self, ask: Ask, at: int) -> None:
        """A short reply: ask on from where it ended."""
        self._add(ask, at, ask.stop)

    def garbled(self, ask: Ask, why: str) -> None:
        """A reply that is no SNMP: not an answer, so ask again, a few times."""
        assert ask.reading is not None
        self._wire.refuse(self.name, Refused.MALFORMED, why)
        if ask.garbled >= _MAX_GARBLED:
            ask.reading.hole(ask.places, Reason.MALFORMED)
        else:
            self._add(ask, ask.first, ask.stop, garbled=ask.garbled + 1)
        ask.reading.landed()

    def _add(self, ask: Ask, first: int, stop: int, garbled: int = 0) -> None:
        """Ask for a part of what `ask` was for."""
        reading = ask.reading
        assert reading is not None
        part = self._plan_ask(reading.plan, first, stop, is_run=ask.is_run)
        part.split, part.garbled, part.reading = True, garbled, reading
        reading.outstanding += 1
        self._queue.append(part)
        self._wire.want(self)

    def _asks_of(self, plan: Plan) -> list[Ask]:
        """The plan's requests, encoded once for the size this agent manages."""
        engine = self.security.engine if isinstance(self.security, Usm) else b""
        most, prepared_for, asks = self._asks.get(plan, (0, b"", []))
        if (most, prepared_for) != (self._most, engine):
            pieces = plan.pieces(self._most, self._octets)
            asks = [self._plan_ask(plan, a, b, is_run=is_run) for a, b, is_run in pieces]
            self._asks[plan] = (self._most, engine, asks)
            if len(self._asks) > _PLANS:
                del self._asks[next(iter(self._asks))]
        return asks

    def _plan_ask(self, plan: Plan, first: int, stop: int, *, is_run: bool) -> Ask:
        pdu = plan.request(first, stop, is_run=is_run)
        return Ask(self, self.security.prepare(pdu)).of_plan(plan, first, stop, is_run=is_run)

    def _give_up(self, reading: Reading, reason: Reason) -> None:
        """The agent is silent: nothing that is still queued for this reading is sent."""
        kept: deque[Ask] = deque()
        for ask in self._queue:
            if ask.reading is reading:
                reading.hole(ask.places, reason)
                reading.landed()
            else:
                kept.append(ask)
        self._queue = kept

    def _forget_closed(self) -> None:
        self._queue = deque(ask for ask in self._queue if not ask.abandoned)

    def _fail(self, ask: Ask, error: PollError) -> None:
        future = ask.future if ask.reading is None else ask.reading.done
        if future is not None and not future.done():
            future.set_exception(error)

    async def _with_engine(
        self, kind: PduType, oids: Sequence[Oid], repeat: int
    ) -> Sequence[Varbind]:
        """One request and its answer; once more where the agent turned out to have a new engine."""
        await self._ensure_engine()
        pdu = snmp.request(kind, snmp.MIN_REQUEST_ID, oids, repeat=repeat)
        try:
            return await self._ask(self.security.prepare(pdu), repeat)
        except EngineChangedError:
            await self._ensure_engine()
            return await self._ask(self.security.prepare(pdu), repeat)

    async def _ask(self, prepared: Prepared, repeat: int = 0) -> Sequence[Varbind]:
        future: asyncio.Future[Sequence[Varbind]] = asyncio.get_running_loop().create_future()
        ask = Ask(self, prepared)
        ask.future, ask.repeat = future, repeat
        self._queue.appendleft(ask)
        self._wire.want(self)
        try:
            return await future
        finally:
            if not future.done() or future.cancelled():
                self._forget_closed()

    async def _ensure_engine(self) -> None:
        """Version 3: know the agent's engine, asking it once for all who wait."""
        if not isinstance(self.security, Usm) or self.security.engine:
            return
        if self._discovering is None or self._discovering.done():
            self._discovering = asyncio.create_task(self._discover())
        await asyncio.shield(self._discovering)

    async def _discover(self) -> None:
        assert isinstance(self.security, Usm)
        pdu = snmp.request(PduType.GET, snmp.MIN_REQUEST_ID, [])
        await self._ask(self.security.prepare(pdu))
        if not self.security.engine:
            raise PollError(Reason.MALFORMED, f"{self.name}: it does not tell its engine id")


class EngineChangedError(PollError):
    """The agent was restarted under another engine id."""

    def __init__(self, name: str) -> None:
        """Name the target."""
        super().__init__(Reason.UNEXPECTED, f"{name}: the agent changed its engine id")
