"""Where polls go in a cluster: to the log instead of to a pipeline, by way of a bounded spool."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabricmon.model.stream import ClockStep, Tick
from fabricmon.model.topology import Topology
from fabricmon.runtime.cluster.message import pack, parts, word
from fabricmon.runtime.inventory import shard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from fabricmon.model.snapshot import TargetStatus
    from fabricmon.model.stream import Item
    from fabricmon.runtime.cluster.judge import Judge
    from fabricmon.runtime.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that waits to be sent."""

    subject: str
    lease: str
    """Key of the lease it may be sent under."""
    target: str
    collector: str
    number: int
    body: bytes


class Spool:
    """Letters in order, filled by threads, emptied by the event loop, oldest gone at the limit."""

    def __init__(self, most_bytes: int, dropped: Callable[[int], None]) -> None:
        """`dropped` is told how many letters did not fit."""
        self._most_bytes, self._dropped = most_bytes, dropped
        self._letters: deque[Letter] = deque()
        self._bytes = self._number = 0
        self._lock = threading.Lock()
        self._news, self.empty = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._letters)

    def bind(self) -> None:
        """From now on wake whoever waits in this event loop."""
        self._loop = asyncio.get_running_loop()
        self._news.set()

    def put(self, subject: str, lease: str, target: str, collector: str, body: bytes) -> None:
        """Add a letter."""
        with self._lock:
            self._number += 1
            self._letters.append(Letter(subject, lease, target, collector, self._number, body))
            self._bytes += len(body)
            self.empty.clear()
            over = 0
            while self._bytes > self._most_bytes and len(self._letters) > 1:
                self._bytes -= len(self._letters.popleft().body)
                over += 1
        if over:
            self._dropped(over)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    async def first(self) -> Letter:
        """The oldest letter; it stays until `done`."""
        while not self._letters:
            self._news.clear()
            await self._news.wait()
        return self._letters[0]

    def done(self, letter: Letter) -> None:
        """It was sent, or is not to be sent."""
        with self._lock:
            if self._letters and self._letters[0] is letter:
                self._bytes -= len(self._letters.popleft().body)
            if not self._letters:
                self.empty.set()


class Outlet:
    """Stands where a fabric's pipeline stands in a single daemon: the poller feeds it.

    Batches, failures and shapes become letters; the end of a round is told to the judge.
    """

    def __init__(
        self,
        judge: Judge,
        prefix: str,
        shards: int,
        collectors: dict[str, str],
        spool: Spool,
        member: str,
    ) -> None:
        """`collectors`: target -> kind of collector. `member`: key of this worker's own lease."""
        self.judge = judge
        self.fabric = judge.fabric
        self._subject = f"{prefix}.{word(self.fabric)}"
        self._shards, self._collectors, self._spool = shards, collectors, spool
        self._member = member
        self.targets: Callable[[], tuple[TargetStatus, ...]] = tuple
        self.pipeline: Pipeline | None = None
        """Of a reload: what the judge goes on with."""

    def lease(self, target: str) -> str:
        """The key of the lease under which a target is polled."""
        return f"shard.{shard_of(target, self._shards)}"

    def names(self, leases: Iterable[str]) -> frozenset[str]:
        """The targets that are polled under these leases."""
        wanted = set(leases)
        return frozenset(name for name in self._collectors if self.lease(name) in wanted)

    def feed(self, item: Item) -> None:
        """Take one item, in the poller's thread."""
        match item:
            case Tick():
                self.judge.round_over(item)
            case Topology():
                if self.judge.leading or not (item.jobs or item.idle) or item.nodes:
                    own = self._member.removeprefix("member.")
                    self._post(item, f"{self._subject}.{own}", self._member, "")
            case ClockStep():
                pass  # judges go by the server's time
            case _:
                lease = self.lease(item.target)
                subject = f"{self._subject}.{lease.removeprefix('shard.')}"
                self._post(item, subject, lease, item.target)

    def _post(self, item: Item, subject: str, lease: str, target: str) -> None:
        for part in parts(item, self.judge.most_bytes):
            body = pack(part, self.fabric)
            self._spool.put(subject, lease, target, self._collectors.get(target, ""), body)

    # --- what else a poller asks of a pipeline: it is the judge's business ----------------------

    def fit_with(self, executor: Executor) -> None:
        """The poller starts: so does the judge, with threads of its own."""
        del executor
        self.judge.start()

    def inherit(self, old: Any) -> None:
        """Go on under a new config: so does the judge."""
        if self.pipeline is not None and old is not self:
            self.judge.exchange(self.pipeline)

    def forget(self, target: str) -> None:
        """A target was taken from the config."""
        self.judge.forget(target)
