"""Incidents as JSON lines: one when it opens, when it changes, and when it closes.

Each line is the incident's stable JSON with `event` in front (`opened`, `updated`, `closed`). The
file is opened for each tick that has something to say, so that `logrotate` may move it any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fabricmon.selfmon import Event
from fabricmon.settings import Settings
from fabricmon_exporters.changes import Changes

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot


class JsonlConfig(Settings):
    """What users write under `exporters: jsonl:`."""

    path: Path = Path("incidents.jsonl")


class JsonlExporter:
    """Appends to one file. Costs alone do not make a line; the closing line has the final ones."""

    Config: ClassVar[type[Settings]] = JsonlConfig

    def __init__(self, config: JsonlConfig, context: Context) -> None:
        """Store; nothing else."""
        self.config = config
        self._context = context
        self._changes = Changes()

    async def start(self) -> None:
        """Begin anew: what is open is written as opened."""
        self._changes.forget()

    async def stop(self) -> None:
        """Nothing is held open."""

    def publish(self, snapshot: Snapshot) -> None:
        """Write what changed at this tick."""
        import orjson  # noqa: PLC0415 - only a daemon that writes needs it

        lines = [
            orjson.dumps({"event": event, **incident.to_json()}, option=orjson.OPT_APPEND_NEWLINE)
            for event, incident in self._changes.of(snapshot)
        ]
        if not lines:
            return
        try:
            with self.config.path.open("ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            self._context.report.emit(
                Event.EXPORT_FAILED, "jsonl", error=error.strerror, lost=len(lines)
            )

    def forget(self, fabric: str) -> None:
        """Its incidents end without a line: nobody knows how they went on."""
        self._changes.forget(fabric)
