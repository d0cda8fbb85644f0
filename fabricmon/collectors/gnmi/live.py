"""Collector of live gNMI: one subscription a target, over grpc.

Needs the extra `gnmi`. The address is `host:port`. TLS is the default; `options: {insecure: true}`
turns it off, `server_name` overrides the name in the certificate, `target` is what the device wants
to be asked for. The credential may hold
`username`, `password`, `ca`, `cert` and `key`; files are read anew at every connect.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fabricmon.collectors.gnmi.session import PATIENT_S, Session
from fabricmon.errors import PollError, Reason
from fabricmon.settings import Duration, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fabricmon.api import Context, Target
    from fabricmon.mappings.gnmi import GnmiPaths
    from fabricmon.model.readings import Poll
    from fabricmon.model.topology import Topology


_INTERVAL_S = 10.0
_MISSED = 2


class SubscriptionConfig(Settings):
    """One path to subscribe to; `[name=*]` stands for every entry of a list."""

    path: Annotated[str, Field(pattern=r"^/.+")]
    mode: Literal["sample", "on_change", "target_defined"] = "sample"
    interval: Duration | None = None
    """How often it is sampled; `interval` of the collector where left out."""


class GnmiConfig(Settings):
    """`collectors.gnmi` of the config."""

    mappings: list[Path] = []
    """Folders with mapping files of your own; they win over the built-in ones."""
    subscriptions: list[SubscriptionConfig] = []
    """What to subscribe to; everything the target's mapping knows where left out."""
    mode: Literal["stream", "poll", "once"] = "stream"
    """`stream`: devices send by themselves; `poll`: they are asked on an open stream; `once`: each
    poll opens a stream of its own."""
    encoding: Literal["auto", "proto", "json_ietf", "json"] = "auto"
    """`auto` asks the device what it has, and takes the first of these."""
    interval: Duration | None = None
    """How often devices sample; as often as they are polled where left out."""
    silence: Duration | None = None
    """A stream without a message for this long counts as dead, and is subscribed anew. Where left
    out: two sample intervals, the earliest at which a sample is lost and not late. A device that
    proves to be slower than it was asked for is given up to a minute."""
    sync_timeout: Duration = 60.0
    """How long the first complete answer may take."""
    backoff: Duration | None = None
    """The longest pause between two tries to connect. Where left out: half an interval, so that a
    device that is back is up within one; longer where hundreds of devices are away."""
    buffer: Annotated[int, Field(ge=1000)] = 2_000_000
    """Values kept between two polls; older ones are dropped and counted."""
    series: Annotated[int, Field(ge=1)] = 500_000
    """Series that one target may have; more are refused and counted. Silent ports are forgotten."""

    @property
    def interval_s(self) -> float:
        """How often devices sample."""
        return self.interval or _INTERVAL_S

    def silence_s(self, paths: GnmiPaths) -> float:
        """How long a stream may be silent; a minute where nothing is sampled."""
        sampled = [interval for _, mode, interval in self.wanted(paths) if mode == "sample"]
        return self.silence or (_MISSED * min(sampled) if sampled else PATIENT_S)

    def wanted(self, paths: GnmiPaths) -> Iterator[tuple[str, str, float]]:
        """Path, mode and sample interval (seconds) of every subscription."""
        if self.subscriptions:
            for one in self.subscriptions:
                yield one.path, one.mode, one.interval or self.interval_s
            return
        for path, on_change in paths.subscriptions():
            yield path, "on_change" if on_change else "sample", self.interval_s


class GnmiCollector:
    """Keeps sessions; hands over what they heard."""

    Config: ClassVar[type[Settings]] = GnmiConfig

    def __init__(self, config: GnmiConfig, targets: Sequence[Target], context: Context) -> None:
        """Store; nothing is connected before `start`."""
        self.pushed_to = config.mode != "once"
        """Tells the guard that a poll only looks at what came: recovery shows at the next one."""
        self._config = config
        self._targets = tuple(targets)
        self._context = context
        self._sessions: dict[str, Session] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._away: set[str] = set()

    async def start(self) -> None:
        """Begin to connect to every target. Raises `ConfigError` for a broken mapping."""
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # its own log lines pass ours by
        try:
            import grpc  # noqa: F401, PLC0415 - ask now, so that the error comes at start
        except ImportError as error:
            message = "live gNMI needs grpcio and protobuf: install fabricmon[gnmi]"
            raise PollError(Reason.NOT_FOUND, message) from error
        for target in self._targets:
            session = self._session(target)
            if self._config.mode != "once":
                self._tasks.append(asyncio.create_task(session.run()))

    async def stop(self) -> None:
        """Leave every target."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sessions.clear()

    async def discover(self, target: Target) -> Topology | None:
        """The cables that the target's LLDP named so far."""
        return self._session(target).recorder.topology()

    async def poll(self, target: Target) -> Poll:
        """What the target sent since the last poll."""
        session = self._session(target)
        return await (session.once() if self._config.mode == "once" else session.poll())

    def unmatched_of(self, target: Target) -> Mapping[str, int]:
        """The paths a target sent most that no mapping knows."""
        session = self._sessions.get(target.name)
        return session.harvest.unmatched if session is not None else {}

    def _session(self, target: Target) -> Session:
        session = self._sessions.get(target.name)
        if session is None:
            session = Session(target, self._config, self._context, self._away)
            self._sessions[target.name] = session
        return session
