"""Incidents as alerts of Alertmanager (API v2), for sites without Prometheus rules.

Alertmanager forgets what is not repeated, so alerts are sent again while they last, each with an
end some repeats ahead: if fabricmon dies, they end by themselves. Incidents under maintenance fire
none.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from fabricmon import __version__
from fabricmon.errors import ConfigError
from fabricmon.model.incident import SEVERITY_ORDER, Severity
from fabricmon.selfmon import Event
from fabricmon.settings import Duration, Settings
from fabricmon_exporters import tasks
from fabricmon_exporters.http_client import HttpAccess, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.api import Context
    from fabricmon.model.incident import Incident
    from fabricmon.model.snapshot import Snapshot

_URGENCY = {Severity.MILD: "info", Severity.MODERATE: "warning", Severity.SEVERE: "critical"}
_NAMED_VICTIMS = 10
_AHEAD = 4
"""Repeats that may be lost before an alert ends by itself."""


class AlertmanagerConfig(HttpAccess, Settings):
    """What users write under `exporters: alertmanager:`."""

    urls: Annotated[list[Annotated[str, Field(pattern=r"^https?://[^\s]+$")]], Field(min_length=1)]
    """Every Alertmanager of a cluster; each is sent everything."""
    resend: Duration = 60.0
    severity: Severity = Severity.MILD
    """Milder incidents fire no alert."""
    labels: dict[str, str] = {}
    """Put on every alert."""
    external_url: str = ""
    """Where people reach fabricmon's own pages; alerts link there."""
    timeout: Duration = 10.0


class AlertmanagerExporter:
    """Fires, repeats and resolves."""

    Config: ClassVar[type[Settings]] = AlertmanagerConfig

    def __init__(self, config: AlertmanagerConfig, context: Context) -> None:
        """Store; nothing else."""
        self.config = config
        self._context = context
        self._lock = threading.Lock()
        self._firing: dict[str, dict[str, dict[str, Any]]] = {}
        """Fabric -> incident id -> the alert as it was last made."""
        self._sent_at: dict[str, float] = {}
        self._due: list[dict[str, Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to send."""
        with self._lock:
            self._firing.clear()
            self._sent_at.clear()
            self._due.clear()
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self._task = tasks.begin(self._run(self._news), "alertmanager", self._context)

    async def stop(self) -> None:
        """End the sending. What fires ends by itself, or is taken up after the restart."""
        task, self._task, self._loop = self._task, None, None
        await tasks.end(task)

    def publish(self, snapshot: Snapshot) -> None:
        """Take one tick; alerts are sent when something changed, or when it is time to repeat."""
        now_s = self._context.clock.monotonic()
        ahead_s = _AHEAD * max(self.config.resend, snapshot.frame.interval_s)
        now = {incident.id: self._alert(incident) for incident in self._wanted(snapshot)}
        with self._lock:
            before = self._firing.get(snapshot.fabric, {})
            over = [alert for id_, alert in before.items() if not _goes_on(alert, now.get(id_))]
            due = now_s - self._sent_at.get(snapshot.fabric, -1e9) >= self.config.resend
            if not over and now.keys() == before.keys() and not due:
                return
            ends_ns = self._context.clock.now_ns()
            fresh = [
                *(_ending(alert, ends_ns) for alert in over),
                *(_ending(alert, ends_ns + round(ahead_s * 1e9)) for alert in now.values()),
            ]
            told = {alert["labels"]["incident"] for alert in fresh}
            self._due = [a for a in self._due if a["labels"]["incident"] not in told] + fresh
            self._firing[snapshot.fabric] = now
            self._sent_at[snapshot.fabric] = now_s
        self._wake()

    def forget(self, fabric: str) -> None:
        """A fabric was taken from the config: its alerts are over."""
        with self._lock:
            ends_ns = self._context.clock.now_ns()
            over = self._firing.pop(fabric, {}).values()
            self._due += [_ending(alert, ends_ns) for alert in over]
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None and self._news is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    def _wanted(self, snapshot: Snapshot) -> Iterator[Incident]:
        least = SEVERITY_ORDER[self.config.severity]
        for incident in snapshot.incidents:
            if not incident.maintenance and SEVERITY_ORDER[incident.severity] >= least:
                yield incident

    def _alert(self, incident: Incident) -> dict[str, Any]:
        cause = incident.cause
        where = f"{cause.device}[{cause.port}]" if cause and cause.port else ""
        where = where or (cause.device if cause else incident.fabric)
        victims = [f"{v.device}[{v.port}]" for v in incident.victims[:_NAMED_VICTIMS]]
        more = len(incident.victims) - len(victims)
        stalled = sum(incident.jobs.values())
        labels = {
            **self.config.labels,
            "alertname": f"Fabricmon{incident.kind.value.title().replace('-', '')}",
            "fabric": incident.fabric,
            "incident": incident.id,
            "kind": incident.kind.value,
            "verdict": incident.verdict.value,
            "severity": _URGENCY[incident.severity],
            "device": cause.device if cause else "",
            "port": cause.port if cause else "",
        }
        return {
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {
                "summary": f"{incident.kind.value} at {where}",
                "description": incident.advice,
                "victims": ", ".join(victims) + (f" and {more} more" if more > 0 else ""),
                "stalled_gpu_seconds": f"{stalled:.0f}",
                "confidence": f"{incident.confidence:.2f}",
            },
            "startsAt": _rfc3339(incident.started_ns),
            "generatorURL": self.config.external_url,
        }

    async def _run(self, news: asyncio.Event) -> None:
        session = await self.config.session(self.config.timeout)
        try:
            while True:
                await news.wait()
                news.clear()
                with self._lock:
                    alerts, self._due = self._due, []
                if alerts and not await self._send(session, alerts):
                    self._again(alerts)
        finally:
            await session.close()

    def _again(self, alerts: list[dict[str, Any]]) -> None:
        """Nobody took them: the next tick tries again, and brings what is newer."""
        with self._lock:
            known = {alert["labels"]["incident"] for alert in self._due}
            self._due += [a for a in alerts if a["labels"]["incident"] not in known]
            self._sent_at.clear()

    async def _send(self, session: Any, alerts: list[dict[str, Any]]) -> bool:
        """Whether at least one of the Alertmanagers took them."""
        tried = [self._post(session, url, alerts) for url in self.config.urls]
        problems = [problem for problem in await asyncio.gather(*tried) if problem]
        for problem in problems:
            self._context.report.emit(Event.EXPORT_FAILED, "alertmanager", error=problem)
        return len(problems) < len(self.config.urls)

    async def _post(self, session: Any, url: str, alerts: list[dict[str, Any]]) -> str:
        """Empty, or what went wrong."""
        import aiohttp  # noqa: PLC0415 - 0.2 s that `check` must not pay

        endpoint = f"{url.rstrip('/')}/api/v2/alerts"
        try:
            headers = {"User-Agent": f"fabricmon/{__version__}", **self.config.headers()}
            async with session.post(
                endpoint, json=alerts, headers=headers, allow_redirects=False
            ) as answer:
                if answer.status < 300:
                    return ""
                return f"{url}: {await refusal(answer)}"
        except (aiohttp.ClientError, ConfigError, TimeoutError, OSError) as error:
            return f"{url}: {error or type(error).__name__}"


def _goes_on(alert: dict[str, Any], now: dict[str, Any] | None) -> bool:
    """Other labels make another alert: the old one is over then."""
    return now is not None and alert["labels"] == now["labels"]


def _ending(alert: dict[str, Any], ends_ns: int) -> dict[str, Any]:
    return {**alert, "endsAt": _rfc3339(ends_ns)}


def _rfc3339(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
