"""The guard around every collector: deadline, back-off, and the books of each target.

A collector only reads. Whatever goes wrong with one target, the guard turns it into a counted
`PollFailure`, leaves the target alone for a while when it keeps failing, and never lets it touch
another one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

from fabricmon.errors import PollError, Reason
from fabricmon.model.snapshot import TargetStatus
from fabricmon.model.stream import PollFailure
from fabricmon.selfmon import Event
from fabricmon.settings import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fabricmon.api import Collector, Context, Target
    from fabricmon.model.readings import Poll
    from fabricmon.model.stream import Item
    from fabricmon.model.topology import Topology
    from fabricmon.selfmon import SelfMetrics
    from fabricmon.settings import Settings

_PATIENCE = 3
"""Failures in a row before a target is backed off."""
_LONGEST_BACKOFF = 16
"""Polls skipped at most between two tries."""


@dataclass(slots=True)
class _Book:
    """What is remembered of one target."""

    failures_in_row: int = 0
    skip: int = 0
    busy: bool = False
    last_success_ns: int | None = None
    last_duration_s: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    last_error: str = ""


class Guard:
    """One collector with its targets in one fabric."""

    def __init__(
        self,
        kind: str,
        collector: Collector,
        config: Settings,
        targets: Sequence[Target],
        context: Context,
        deadline_s: float,
    ) -> None:
        """`config` is what the collector was made with; `deadline_s` bounds one poll."""
        self.kind = kind
        self.collector = collector
        self._config = config
        self.targets = tuple(targets)
        self._context = context
        self._deadline_s = deadline_s
        self._books = {target.name: _Book() for target in targets}
        self.mine: Callable[[Target], bool] = lambda _target: True
        """Whether a target is polled here, and not by another worker of a cluster."""

    @property
    def polled(self) -> tuple[Target, ...]:
        """The targets that are polled here."""
        return tuple(target for target in self.targets if self.mine(target))

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two guards the same work: kind, config and targets."""
        return (self.kind, self._config, self.targets)

    async def start(self) -> None:
        """Start the collector."""
        await self.collector.start()

    async def stop(self) -> None:
        """Stop the collector."""
        await self.collector.stop()

    def due(self, names: Collection[str] | None = None) -> list[Target]:
        """Targets to poll now: not those backed off (counted down here) or still being polled.

        With `names` only these.
        """
        ready = []
        for target in self.polled:
            if names is not None and target.name not in names:
                continue
            book = self._books[target.name]
            if book.busy or book.skip > 0:
                book.skip = max(0, book.skip - 1)
                self._context.report.emit(Event.POLL_SKIPPED, target.name)
                continue
            ready.append(target)
        return ready

    def healthy(self, target: Target) -> bool:
        """Whether its poll answers soon: the last one did, or it only looks at what came."""
        return self._books[target.name].failures_in_row == 0 or self._is_pushed_to

    @property
    def _is_pushed_to(self) -> bool:
        return bool(getattr(self.collector, "pushed_to", False))

    async def poll(self, target: Target) -> Poll | PollFailure:
        """One poll. Never raises, but for cancellation."""
        book, clock, metrics = self._books[target.name], self._context.clock, self._metrics
        book.busy = True
        begun = clock.monotonic()
        metrics.polls.labels(self.kind).inc()
        try:
            async with asyncio.timeout(self._deadline_s):
                poll = await self.collector.poll(target)
        except TimeoutError:
            message = f"no complete answer within {self._deadline_s:g} s"
            return self._failed(target, Reason.TIMEOUT, message)
        except PollError as error:
            return self._failed(target, error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - a broken collector costs its target only
            self._context.report.emit(
                Event.COMPONENT_FAILED, target.name, component=self.kind, error=repr(error)
            )
            return self._failed(target, Reason.INTERNAL, repr(error))
        finally:
            book.busy = False
            book.last_duration_s = clock.monotonic() - begun
            metrics.poll_duration.labels(self.kind).observe(book.last_duration_s)
        self._succeeded(target, poll)
        return poll

    async def discover(self, target: Target) -> Topology | None:
        """The fabric's shape as this target sees it; None and a report where that fails."""
        try:
            async with asyncio.timeout(max(self._deadline_s, 30.0)):
                return await self.collector.discover(target)
        except (TimeoutError, PollError) as error:
            text = str(error) or "no answer in time"
            self._context.report.emit(Event.DISCOVERY_FAILED, target.name, error=text)
        except Exception as error:  # noqa: BLE001 - as in poll
            self._context.report.emit(
                Event.COMPONENT_FAILED, target.name, component=self.kind, error=repr(error)
            )
        return None

    def past(self) -> Iterable[Item]:
        """What the collector knows from before the start, if it does (a simulated fabric)."""
        warmup: Callable[[], Iterable[Item]] | None
        warmup = getattr(self.collector, "warmup_items", None)
        return warmup() if warmup is not None else ()

    def lacking(self, target: Target) -> Mapping[str, str]:
        """Counters that devices of its kind have and a polled target has not, and why."""
        lacking: Callable[[Target], Mapping[str, str]] | None
        lacking = getattr(self.collector, "lacking", None)
        return lacking(target) if lacking is not None else {}

    def _unmatched(self, target: Target) -> Mapping[str, int]:
        """What a target sent that no mapping knows, where the collector keeps account of it."""
        unmatched: Callable[[Target], Mapping[str, int]] | None
        unmatched = getattr(self.collector, "unmatched_of", None)
        return unmatched(target) if unmatched is not None else {}

    def status(self) -> list[TargetStatus]:
        """The books, one line a target."""
        return [
            TargetStatus(
                target.fabric,
                target.name,
                self.kind,
                book.last_success_ns is not None and book.failures_in_row == 0,
                book.last_success_ns,
                book.last_duration_s,
                dict(book.failures),
                book.last_error,
                self._unmatched(target),
            )
            for target in self.polled
            for book in (self._books[target.name],)
        ]

    def inherit(self, old: Guard) -> None:
        """Keep the books of targets that stay the same across a reload."""
        for name in self._books.keys() & old._books.keys():
            self._books[name] = old._books[name]

    @property
    def _metrics(self) -> SelfMetrics:
        return self._context.report.metrics

    def _succeeded(self, target: Target, poll: Poll) -> None:
        book, report = self._books[target.name], self._context.report
        if book.failures_in_row:
            report.emit(Event.TARGET_RECOVERED, target.name, after=book.failures_in_row)
        book.failures_in_row = book.skip = 0
        book.last_success_ns = self._context.clock.now_ns()
        book.last_error = ""
        for reason, count in poll.lost.items():
            report.metrics.rows_lost.labels(self.kind, reason.value).inc(count)
        if poll.lost:
            lost = {reason.value: count for reason, count in poll.lost.items()}
            report.emit(Event.POLL_PARTIAL, target.name, lost=lost)

    def _failed(self, target: Target, reason: Reason, message: str) -> PollFailure:
        book, report = self._books[target.name], self._context.report
        message = masked(message)  # devices repeat what they were sent
        book.failures_in_row += 1
        book.failures[reason.value] = book.failures.get(reason.value, 0) + 1
        book.last_error = message
        # Where devices send by themselves, asking costs nothing, and back-off is the collector's.
        if not self._is_pushed_to:
            book.skip = self._backoff(target.name, book.failures_in_row)
        report.metrics.poll_failures.labels(self.kind, reason.value).inc()
        report.emit(Event.POLL_FAILED, target.name, reason=reason.value, error=message)
        now = self._context.clock.now_ns()
        return PollFailure(target.name, self.kind, reason, now, message)

    @staticmethod
    def _backoff(name: str, failures: int) -> int:
        """Polls to skip: doubling, bounded, and spread over targets that died together."""
        if failures < _PATIENCE:
            return 0
        longest = min(2 ** (failures - _PATIENCE), _LONGEST_BACKOFF)
        return longest - crc32(f"{name}{failures}".encode()) % (longest // 2 + 1)
