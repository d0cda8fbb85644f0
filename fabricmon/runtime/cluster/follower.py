"""Reading the log: one durable consumer, from where it was, message by message."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabricmon.errors import FabricmonError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fabricmon.runtime.cluster.broker import Broker

MOST_FETCHED = 256
"""Messages taken at once at most."""
_IDLE_S = 0.5
_IDLE_LOOKS = 10


class BrokerError(FabricmonError):
    """The server is away, or did not do what it was asked to; trying again may help."""


@contextmanager
def library_errors() -> Iterator[None]:
    """Turns what the library raises into `BrokerError`."""
    try:
        yield
    except FabricmonError:
        raise
    except Exception as error:
        raise BrokerError(str(error) or type(error).__name__) from error


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the log."""

    sequence: int
    stored_ns: int
    """When the server stored it, by the server's clock."""
    pending: int
    """How many more there are behind it."""
    subject: str
    headers: Mapping[str, str] | None
    body: bytes
    ack: Any


class Follower:
    """One durable consumer of the log."""

    def __init__(self, broker: Broker, subscription: Any, name: str, pending: int) -> None:
        """`pending`: how many messages there were when it was made."""
        self._broker, self._subscription, self._name = broker, subscription, name
        self._idle = 0
        self.pending = pending

    async def fetch(self) -> list[Message]:
        """What there is, or what comes within half a second; nothing if nothing comes."""
        from nats.errors import TimeoutError as NothingYet  # noqa: PLC0415 - see `Broker.connect`

        with library_errors():
            try:
                found = await self._subscription.fetch(1, timeout=_IDLE_S)
                behind = min(int(found[0].metadata.num_pending), MOST_FETCHED)
                if behind:  # they are there already: this returns as soon as they are here
                    with suppress(NothingYet):
                        found += await self._subscription.fetch(behind, timeout=_IDLE_S)
            except NothingYet:
                await self._look()
                return []
        self._idle = 0
        messages = [_message(one) for one in found]
        self.pending = messages[-1].pending
        return messages

    async def _look(self) -> None:
        """A consumer that is gone is silent too: ask for it now and then."""
        self._idle += 1
        if not self._broker.connected:
            raise BrokerError("not connected")
        if self._idle % _IDLE_LOOKS == 1:
            self.pending = await self._broker.pending(self._name)

    async def done(self, message: Message) -> None:
        """Everything up to `message` was used."""
        with library_errors():
            await message.ack()

    async def close(self) -> None:
        """The consumer is not needed any more."""
        with suppress(Exception):  # the server forgets it below, or by itself
            await self._subscription.unsubscribe()
        with suppress(BrokerError):
            await self._broker.forget(self._name)


def _message(one: Any) -> Message:
    meta = one.metadata
    return Message(
        sequence=meta.sequence.stream,
        stored_ns=round(meta.timestamp.timestamp() * 1e6) * 1000,
        pending=meta.num_pending,
        subject=one.subject,
        headers=one.headers,
        body=one.data,
        ack=one.ack,
    )
