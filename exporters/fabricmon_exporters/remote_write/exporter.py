"""A tick becomes requests in the worker thread; a task of the event loop sends them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from fabricmon.selfmon import Event
from fabricmon.settings import Duration, Settings, Size
from fabricmon_exporters import tasks
from fabricmon_exporters.http_client import HttpAccess
from fabricmon_exporters.prometheus.families import FAMILIES, GROUPS
from fabricmon_exporters.remote_write.queue import DiskQueue

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon_exporters.prometheus.families import Family
    from fabricmon_exporters.remote_write.encode import FabricEncoder, Request
    from fabricmon_exporters.remote_write.sender import Sender

_NAMES = {family.name for family in FAMILIES}
_DEFAULT = ("info", "traffic", "ratio", "score", "wait", "loss", "pause", "ecn")
_RESERVED = {"__name__", "device", "fabric", "port", "queue"}


def _collect(words: list[str]) -> list[str]:
    for word in words:
        if word not in _NAMES and word not in GROUPS and word != "all":
            raise ValueError(f"unknown {word!r}; names of metrics, all, or {', '.join(GROUPS)}")
    return words


def _external(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if name in _RESERVED or not name.isidentifier():
            raise ValueError(f"{name!r} cannot be the name of an external label")
    return labels


class RemoteWriteConfig(HttpAccess, Settings):
    """What users write under `exporters: remote_write:`."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    collect: Annotated[list[str], AfterValidator(_collect)] = list(_DEFAULT)
    """Metrics of ports and queues: names, groups, or `all`."""
    external_labels: Annotated[dict[str, str], AfterValidator(_external)] = {}
    """Labels that every series carries, such as the site."""
    path: Path = Path("remote-write-queue")
    """Folder of what waits to be sent."""
    max_bytes: Annotated[Size, Field(ge=1 << 20)] = 1 << 30
    """Beyond this, the oldest requests are dropped and counted."""
    timeout: Duration = 30.0


class RemoteWriteExporter:
    """Pushes every tick."""

    Config: ClassVar[type[Settings]] = RemoteWriteConfig

    def __init__(self, config: RemoteWriteConfig, context: Context) -> None:
        """Store; nothing else."""
        self.config = config
        self._context = context
        self._queue = DiskQueue(config.path, config.max_bytes)
        self._fabrics: dict[str, FabricEncoder] = {}
        self._last_ms: dict[str, int] = {}
        self._sender: Sender | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Take over what waits on disk and begin to send."""
        from fabricmon_exporters.remote_write.sender import Sender  # noqa: PLC0415 - see `encode`

        await asyncio.to_thread(self._queue.open)
        self._fabrics.clear()
        config = self.config
        self._sender = Sender(
            self._queue,
            config.url,
            self._context,
            lambda: config.session(config.timeout),
            config.headers,
        )
        self._task = tasks.begin(self._sender.run(), "remote_write", self._context)
        self._sender.wake()

    async def stop(self) -> None:
        """End the sending; what waits stays on disk."""
        task, self._task, self._sender = self._task, None, None
        await tasks.end(task)

    def publish(self, snapshot: Snapshot) -> None:
        """Put one tick of one fabric into the queue."""
        with self._lock:
            encoder = self._fabrics.get(snapshot.fabric)
            if encoder is None:
                encoder = self._fabrics[snapshot.fabric] = self._encoder(snapshot.fabric)
            self._last_ms[snapshot.fabric] = snapshot.frame.time_ns // 1_000_000
            self._put(encoder.requests(snapshot))

    def forget(self, fabric: str) -> None:
        """A fabric was taken from the config: its series end."""
        with self._lock:
            encoder = self._fabrics.pop(fabric, None)
            if encoder is not None:
                self._put(encoder.ended(self._last_ms[fabric] + 1))

    def _encoder(self, fabric: str) -> FabricEncoder:
        from fabricmon_exporters.remote_write.encode import FabricEncoder  # noqa: PLC0415 - late

        return FabricEncoder(fabric, self._families(), self.config.external_labels)

    def _families(self) -> list[Family]:
        words = set(self.config.collect)
        return [
            family
            for family in FAMILIES
            if "all" in words or family.name in words or family.group in words
        ]

    def _put(self, requests: Any) -> None:
        import cramjam  # noqa: PLC0415 - only who sends needs it

        request: Request
        metrics, report = self._context.report.metrics, self._context.report
        for request in requests:
            body = bytes(cramjam.snappy.compress_raw(request.body))
            try:
                dropped = self._queue.put(request.samples, body)
            except OSError as error:
                dropped = request.samples
                report.emit(Event.EXPORT_FAILED, "remote_write", error=error.strerror)
            if dropped:
                metrics.export_samples.labels("remote_write", "dropped").inc(dropped)
                report.emit(Event.EXPORT_DROPPED, "remote_write", samples=dropped)
        metrics.export_queue_bytes.labels("remote_write").set(self._queue.size)
        if self._sender is not None:
            self._sender.wake()
