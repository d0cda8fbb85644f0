"""The fast path: one agent, asked with requests encoded beforehand, several in flight."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from fabricmon.collectors.snmp.fast_path.asks import Ask, Bulk, Reading
from fabricmon.collectors.snmp.fast_path.security import WORDS, Usm
from fabricmon.collectors.snmp.reference import no_answer
from fabricmon.errors import FormatError, PollError, Reason
from fabricmon.formats import snmp, snmp_usm
from fabricmon.formats.snmp import ErrorStatus, PduType

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.clock import Clock
    from fabricmon.collectors.snmp.config import Access, SnmpConfig
    from fabricmon.collectors.snmp.fast_path.security import Prepared, ReportError, Security
    from fabricmon.collectors.snmp.fast_path.wire import Wire
    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.formats.ber import Oid
    from fabricmon.formats.snmp import Varbind

_SHORTEST_WAIT_S = 0.1
_WALK_REPETITIONS = 25
"""Walks carry strings, so fewer of them fit one reply."""
_MAX_GARBLED = 3


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
        clock: Clock,
        wire: Wire,
    ) -> None:
        """`name` is the target as errors call it."""
        self.name, self.family, self.address = name, family, address
        self.security = security
        self.waiting = False
        """It stands in the wire's line of sessions that want to send."""
        self.in_flight = 0
        self.patience_s = config.timeout * (config.retries + 1)
        self._access, self._config, self._clock, self._wire = access, config, clock, wire
        self._queue: deque[Ask] = deque()
        self._repetitions = config.max_repetitions
        self._walk_repetitions = min(_WALK_REPETITIONS, config.max_repetitions)
        self._wait, self._smooth, self._spread = config.timeout, 0.0, 0.0
        self._last_heard = self._not_before = 0.0
        self._alive = False
        self._prepared: tuple[Plan, int, bytes, list[tuple[int, int, bool, Prepared]]] | None = None
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
            asked = self._walk_repetitions
            try:
                return await self._with_engine(PduType.GETBULK, [after], asked)
            except PollError as error:
                shrinks = error.reason in (Reason.TIMEOUT, Reason.LIMIT) and self._alive
                if not shrinks or asked == 1:
                    raise
                self._walk_repetitions = max(1, min(self._walk_repetitions, asked // 2))

    async def read(
        self, plan: Plan, values: NDArray[np.uint64], state: NDArray[np.uint8]
    ) -> Counter[Reason]:
        """Read every instance of the plan into the flat matrices."""
        await self._ensure_engine()
        done = asyncio.get_running_loop().create_future()
        reading = Reading(plan, values.reshape(-1), done)
        for first, stop, is_run, prepared in self._requests(plan):
            bulk = Bulk(self, reading, first, stop, is_run)
            self._queue.append(Ask(self, prepared, bulk))
            reading.outstanding += 1
        if not reading.outstanding:
            return reading.lost
        self._wire.want(self)
        try:
            await done
        finally:
            reading.closed = True
            if not done.done() or done.cancelled() or done.exception() is not None:
                self._forget_closed()
        if not reading.heard:
            raise no_answer(self.name, self._access, self._config)
        reading.settle(state)
        return reading.lost

    def close(self) -> None:
        """Forget what is queued."""
        self._queue.clear()
        if self._discovering is not None:
            self._discovering.cancel()

    # What the wire asks.

    @property
    def has_more(self) -> bool:
        """Whether something is queued."""
        return bool(self._queue)

    def next_ask(self) -> Ask | None:
        """The next request, if there is one and the agent may have it now."""
        limit = self._config.in_flight if self._alive else 1
        if not self._queue or self.in_flight >= limit:
            return None
        if self._config.pace:
            self._not_before = self._clock.monotonic() + 1 / self._config.pace
        return self._queue.popleft()

    def pause(self) -> float:
        """Seconds until the next request is allowed by `pace`."""
        return self._not_before - self._clock.monotonic() if self._config.pace else 0.0

    def overdue_after(self, ask: Ask) -> float:
        """Seconds after which a request without an answer is sent again."""
        return min(self._wait * (1 << min(ask.tries, 6)), self._config.timeout)

    # What the wire reports.

    def heard(self, ask: Ask) -> None:
        """A reply came: learn how long this agent takes (not from requests sent twice)."""
        self._alive, self._last_heard = True, self._clock.monotonic()
        if ask.bulk is not None:
            ask.bulk.reading.heard = True
        if ask.tries:
            return
        took = self._last_heard - ask.sent
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
            pdu = snmp.decode(payload, at)
        except FormatError as error:
            self._wire.refuse(self.name, str(error))
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
        ask.future.set_result(pdu.varbinds)

    def reported(self, ask: Ask, error: ReportError) -> bool:
        """A v3 report instead of an answer; whether the request is worth sending again."""
        assert isinstance(self.security, Usm)
        opened = error.opened
        self._alive = True
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
        if ask.bulk is None:
            self._alive = self._alive and not silent
            self._fail(ask, no_answer(self.name, self._access, self._config))
            return
        if silent:
            self._alive = False
            self._give_up(ask.bulk.reading, reason)
        elif not ask.bulk.halved and ask.bulk.stop - ask.bulk.first > 1:
            self.shrink((ask.bulk.stop - ask.bulk.first) // 2)
            self.split(ask.bulk, reason)
            return
        ask.bulk.reading.hole(ask.bulk.places, reason)
        self.landed(ask.bulk)

    def unsendable(self, ask: Ask, error: OSError) -> None:
        """The kernel refuses to send there."""
        self._fail(ask, PollError(Reason.UNREACHABLE, f"{self.name}: {error.strerror or error}"))

    # What landing replies decides.

    def landed(self, bulk: Bulk) -> None:
        """One planned request is done with."""
        reading = bulk.reading
        reading.outstanding -= 1
        if not reading.outstanding and not reading.done.done():
            reading.done.set_result(None)

    def shrink(self, repetitions: int) -> None:
        """This agent answers no more than so many values at a time."""
        self._repetitions = max(1, min(self._repetitions, repetitions))

    def split(self, bulk: Bulk, reason: Reason) -> None:
        """Ask for both halves instead; for a single instance there is nothing left to try."""
        if bulk.stop - bulk.first == 1:
            bulk.reading.hole(bulk.places, reason)
        else:
            middle = (bulk.first + bulk.stop) // 2
            self._add(bulk, bulk.first, middle)
            self._add(bulk, middle, bulk.stop)
        self.landed(bulk)

    def follow(self, bulk: Bulk, at: int) -> None:
        """A short reply: ask on from where it ended."""
        self._add(bulk, at, bulk.stop)

    def garbled(self, bulk: Bulk, why: str) -> None:
        """A reply that is no SNMP: not an answer, so ask again, a few times."""
        self._wire.refuse(self.name, why)
        if bulk.garbled >= _MAX_GARBLED:
            bulk.reading.hole(bulk.places, Reason.MALFORMED)
        else:
            self._add(bulk, bulk.first, bulk.stop, garbled=bulk.garbled + 1)
        self.landed(bulk)

    def _add(self, bulk: Bulk, first: int, stop: int, garbled: int = 0) -> None:
        reading = bulk.reading
        pdu = reading.plan.request(first, stop, is_run=bulk.is_run)
        part = Bulk(self, reading, first, stop, bulk.is_run, halved=True, garbled=garbled)
        reading.outstanding += 1
        self._queue.append(Ask(self, self.security.prepare(pdu), part))
        self._wire.want(self)

    # The rest.

    def _requests(self, plan: Plan) -> list[tuple[int, int, bool, Prepared]]:
        """The plan's requests, encoded once for the size this agent manages."""
        engine = self.security.engine if isinstance(self.security, Usm) else b""
        if self._prepared is None or self._prepared[:3] != (plan, self._repetitions, engine):
            pieces = plan.pieces(self._repetitions, self._config.reply_octets)
            made = [
                (a, b, run, self.security.prepare(plan.request(a, b, is_run=run)))
                for a, b, run in pieces
            ]
            self._prepared = (plan, self._repetitions, engine, made)
        return self._prepared[3]

    def _give_up(self, reading: Reading, reason: Reason) -> None:
        """The agent is silent: nothing that is still queued for this reading is sent."""
        kept: deque[Ask] = deque()
        for ask in self._queue:
            if ask.bulk is not None and ask.bulk.reading is reading:
                reading.hole(ask.bulk.places, reason)
                self.landed(ask.bulk)
            else:
                kept.append(ask)
        self._queue = kept

    def _forget_closed(self) -> None:
        self._queue = deque(ask for ask in self._queue if not ask.abandoned)

    def _fail(self, ask: Ask, error: PollError) -> None:
        future = ask.future if ask.bulk is None else ask.bulk.reading.done
        if future is not None and not future.done():
            future.set_exception(error)

    async def _with_engine(
        self, kind: PduType, oids: Sequence[Oid], repeat: int
    ) -> Sequence[Varbind]:
        """One request and its answer; once more where the agent turned out to have a new engine."""
        await self._ensure_engine()
        pdu = snmp.request(kind, snmp.MIN_REQUEST_ID, oids, repeat=repeat)
        try:
            return await self._ask(self.security.prepare(pdu))
        except EngineChangedError:
            await self._ensure_engine()
            return await self._ask(self.security.prepare(pdu))

    async def _ask(self, prepared: Prepared) -> Sequence[Varbind]:
        future: asyncio.Future[Sequence[Varbind]] = asyncio.get_running_loop().create_future()
        self._queue.appendleft(Ask(self, prepared, future=future))
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
