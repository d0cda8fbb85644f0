"""From the spool into the log, in order, while the lease of each letter may be acted on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fabricmon.runtime.cluster.follower import BrokerError
from fabricmon.runtime.cluster.gate import Outcome
from fabricmon.runtime.cluster.message import Stamp
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fabricmon.api import Context
    from fabricmon.runtime.cluster.broker import Broker
    from fabricmon.runtime.cluster.lease import Leases
    from fabricmon.runtime.cluster.outlet import Letter, Spool

_RETRY_S = 0.2


def lasting(work: Callable[[], Awaitable[None]], name: str, context: Context) -> asyncio.Task[None]:
    """A task that begins `work` anew, and says so, should it ever fail."""

    async def again() -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the worker must go on working
                context.report.emit(Event.COMPONENT_FAILED, name, error=repr(error))
                await context.clock.sleep(_RETRY_S)
            else:
                return

    return asyncio.create_task(again(), name=name)


class Sender:
    """Sends one letter after the other; one that has to wait holds up the others, in order."""

    def __init__(
        self,
        spool: Spool,
        broker: Broker,
        leases: Leases,
        context: Context,
        lost: Callable[[str], bool],
    ) -> None:
        """`lost`: whether a lease is certainly another worker's."""
        self._spool, self._broker, self._leases = spool, broker, leases
        self._context, self._lost = context, lost

    async def run(self) -> None:
        """For ever."""
        report, cluster = self._context.report, self._broker.cluster
        waiting = report.metrics.cluster_spool.labels(cluster)
        while True:
            letter = await self._spool.first()
            waiting.set(len(self._spool))
            try:
                outcome = await self._sent(letter)
            except BrokerError as error:
                report.emit(Event.CLUSTER_AWAY, "sender", error=str(error))
                outcome = None
            if outcome is None:
                await self._context.clock.sleep(_RETRY_S)
                continue
            self._spool.done(letter)
            waiting.set(len(self._spool))
            report.metrics.cluster_messages.labels(outcome.value).inc()

    async def _sent(self, letter: Letter) -> Outcome | None:
        """What became of a letter; None where it has to wait."""
        clock = self._context.clock
        token = self._leases.token(letter.lease, clock.monotonic())
        if token is None:
            return Outcome.FENCED if self._lost(letter.lease) else None
        if len(letter.body) > self._broker.most_bytes:
            return Outcome.DROPPED
        stamp = Stamp(
            self._leases.me,
            self._broker.store,
            token,
            letter.number,
            clock.now_ns(),
            letter.target,
            letter.collector,
        )
        await self._broker.append(letter.subject, letter.body, stamp.headers())
        return Outcome.SENT
