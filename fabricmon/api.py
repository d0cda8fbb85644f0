"""The protocols a plug-in fulfils. Built-ins come through the same door (entry points).

**Life of a component.** The constructor is inert: it stores its config and imports nothing heavy;
`fabricmon check` stops after it. `start()` is the first to touch the world. `stop()` is safe
without `start()`, may be called twice, and returns within a second or is cancelled. A stopped
component can be started again. Components never log by hand: they report events (`selfmon`).

**A collector** reads. It raises `PollError` when a target gave nothing, and returns a `Poll` with
what it got and a count of what was lost otherwise. It never writes to a device, never resets a
counter, never retries across polls: deadlines, back-off and bookkeeping belong to the guard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

    from fabricmon.clock import Clock
    from fabricmon.model.incident import Finding
    from fabricmon.model.ports import PortTable
    from fabricmon.model.readings import Poll
    from fabricmon.model.snapshot import Scores, Snapshot
    from fabricmon.model.topology import Topology
    from fabricmon.model.window import Window
    from fabricmon.selfmon import Reporter
    from fabricmon.settings import Secret, Settings


@dataclass(frozen=True, slots=True)
class Credential:
    """How to reach: secrets that do not print, and the plain words that go with them."""

    name: str
    secrets: Mapping[str, Secret]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """One address a collector polls.

    `name` is unique in its fabric and is the `target` label; `address` is the collector's business
    (host:port, HCA name, directory). `mapping` overrides the automatic choice of content.
    """

    fabric: str
    name: str
    address: str
    credential: Credential | None = None
    mapping: str = ""
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What every component is given besides its own config."""

    clock: Clock
    report: Reporter


class Component(Protocol):
    """Something with a life."""

    async def start(self) -> None:
        """Touch the world."""

    async def stop(self) -> None:
        """Let go of it."""


class Collector(Component, Protocol):
    """Reads targets of one kind in one fabric."""

    Config: ClassVar[type[Settings]]

    def __init__(self, config: Any, targets: Sequence[Target], context: Context) -> None:
        """Store; nothing else."""

    async def discover(self, target: Target) -> Topology | None:
        """What the target knows of the fabric's shape; None where it knows nothing. Slow path."""

    async def poll(self, target: Target) -> Poll:
        """One reading of one target. Raises `PollError`. Cancelled at the target's deadline."""


@dataclass(frozen=True, slots=True)
class Page:
    """One rendered answer to a scrape."""

    body: bytes
    content_type: str
    gzipped: bytes | None = None


class Exporter(Component, Protocol):
    """Publishes snapshots. May import `api, model, selfmon, settings, errors, clock` only."""

    Config: ClassVar[type[Settings]]

    def __init__(self, config: Any, context: Context) -> None:
        """Store; nothing else."""

    def publish(self, snapshot: Snapshot) -> None:
        """Take one tick of one fabric. Runs in a worker thread; must not block on the network."""

    def forget(self, fabric: str) -> None:
        """A fabric was taken from the config: nothing of it is published any more."""


class PageSource(Protocol):
    """An exporter that is scraped. The web server asks for pages; rendering is cached per tick."""

    def page(self, query: Mapping[str, Sequence[str]], *, openmetrics: bool) -> Page:
        """The page for a scrape with these query parameters. Raises `ValueError` for bad ones."""


class Detector(Protocol):
    """Scores every port at every tick. Pure state machine: same frames in, same scores out."""

    Config: ClassVar[type[Settings]]

    def __init__(self, config: Any, context: Context) -> None:
        """Store; nothing else."""

    def score(self, window: Window, table: PortTable, topology: Topology) -> Scores:
        """Score the tick that was just pushed to `window` (`window.frame`)."""

    def fit_with(self, executor: Executor) -> None:
        """Learn in this executor, if learning takes long. Scores must not depend on it."""

    def feedback(self, findings: Sequence[Finding]) -> None:
        """Learn which ports were diagnosed at this tick, so that they are not taken as healthy."""


class Rule(Protocol):
    """One kind of incident, in one file of `diagnose/rules`."""

    kind: ClassVar[str]
    signature: ClassVar[str]
    discriminator: ClassVar[str]
    advice: ClassVar[str]
    limits: ClassVar[str]

    def findings(self, view: Any) -> Sequence[Finding]:
        """Claims at this tick, from a read-only `diagnose.FabricView`."""
