"""What a judge lets in from the log, and the books it keeps of targets that others poll."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from fabricmon.model.readings import ReadingBatch
from fabricmon.model.snapshot import TargetStatus
from fabricmon.model.stream import PollFailure, Tick

if TYPE_CHECKING:
    from fabricmon.model.stream import Item
    from fabricmon.runtime.cluster.message import Stamp

_SKEW_NS = 1_000_000_000
_MOST_WORKERS = 1_000


class Outcome(StrEnum):
    """What became of a message; the values are labels of a metric."""

    SENT = "sent"
    DROPPED = "dropped"
    """Did not fit into the buffer, or into a message."""
    USED = "used"
    FENCED = "fenced"
    """Sent under a lease that another worker has taken since."""
    DUPLICATE = "duplicate"
    """Not newer than what is known of its target."""
    MALFORMED = "malformed"


class Gate:
    """Refuses fenced and double messages. Follows from the log alone, whoever reads it."""

    def __init__(self) -> None:
        """Nothing was let in yet."""
        self._newest: dict[str, tuple[int, int]] = {}
        """Subject -> (store, token) of the newest lease seen there."""
        self._last: dict[tuple[str, str], tuple[int, int, int]] = {}
        """(subject, target) -> (store, token, number) of the last message that was used."""
        self._skew_ns: dict[str, int] = {}

    def admit(self, subject: str, stamp: Stamp) -> Outcome:
        """USED, FENCED or DUPLICATE; what is used counts as seen."""
        lease = (stamp.store, stamp.token)
        if lease < self._newest.get(subject, (0, 0)):
            return Outcome.FENCED
        self._newest[subject] = lease
        place, order = (subject, stamp.target), (*lease, stamp.number)
        if order <= self._last.get(place, (0, 0, -1)):
            return Outcome.DUPLICATE
        self._last[place] = order
        return Outcome.USED

    def aligned(self, item: Item, stamp: Stamp, stored_ns: int) -> Item:
        """The item with times of the server's clock, where the sender's is clearly another.

        The distance is held until it is a second off, so that delays do not move samples.
        """
        apart, held = stored_ns - stamp.sent_ns, self._skew_ns.get(stamp.worker, 0)
        if abs(apart - held) > _SKEW_NS:
            if len(self._skew_ns) > _MOST_WORKERS:
                self._skew_ns.clear()
            held = self._skew_ns[stamp.worker] = apart
        if not held:
            return item
        match item:
            case ReadingBatch():
                return replace(item, time_ns=item.time_ns + held)
            case Tick() | PollFailure():
                return replace(item, time_ns=item.time_ns + held)
            case _:
                return item


@dataclass(slots=True)
class _Book:
    collector: str
    up: bool = False
    last_success_ns: int | None = None
    failures: dict[str, int] = field(default_factory=dict)
    last_error: str = ""


class Books:
    """The state of every target of a fabric, from what comes through the log."""

    def __init__(self, fabric: str) -> None:
        """Nothing heard yet."""
        self._fabric = fabric
        self._books: dict[str, _Book] = {}
        self._heard: set[str] = set()
        self._expected: frozenset[str] = frozenset()

    def complete(self) -> bool:
        """Whether every target that gave something in the last round was heard in this one."""
        return self._expected <= self._heard

    def take(self, item: Item, stamp: Stamp) -> None:
        """Note a batch or a failure; a tick begins a new round."""
        match item:
            case ReadingBatch():
                book = self._book(item.target, stamp.collector)
                book.up, book.last_success_ns, book.last_error = True, stamp.sent_ns, ""
                self._heard.add(item.target)
            case PollFailure():
                book = self._book(item.target, item.collector)
                book.up, book.last_error = False, item.message
                book.failures[item.reason] = book.failures.get(item.reason, 0) + 1
                self._heard.add(item.target)
            case Tick():
                self._expected = frozenset(t for t in self._heard if self._books[t].up)
                self._heard = set()

    def _book(self, target: str, collector: str) -> _Book:
        return self._books.setdefault(target, _Book(collector))

    def forget(self, target: str) -> None:
        """A target was taken from the config."""
        self._books.pop(target, None)
        self._heard.discard(target)
        self._expected -= {target}

    def status(self) -> tuple[TargetStatus, ...]:
        """One line a target."""
        return tuple(
            TargetStatus(
                self._fabric,
                name,
                book.collector,
                book.up,
                book.last_success_ns,
                0.0,
                dict(book.failures),
                book.last_error,
            )
            for name, book in sorted(self._books.items())
        )
