"""What people told this daemon: who looks after an incident, and which work is declared.

Both are kept in one small file, written whole at each change, so that they outlive a restart.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import Field

from fabricmon.errors import ConfigError
from fabricmon.model.incident import rfc3339
from fabricmon.model.maintenance import MaintenanceWindow
from fabricmon.selfmon import Event
from fabricmon.settings import Settings, validate
from fabricmon.yamlfile import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.maintenance import Maintenance

_MAX_ACKS = 10_000
_SAME_S = 900.0
"""A fault that is there when the daemon starts is found again within this, as a new incident."""


class Acknowledged(Settings):
    """Who looks after an incident. `place` is its fabric, kind, device and port."""

    id: str
    by: str
    at: str
    comment: str
    place: tuple[str, str, str, str]

    def to_json(self) -> dict[str, Any]:
        """As the API tells it."""
        return {"by": self.by, "at": self.at, "comment": self.comment}


class _Window(Settings):
    """A declared maintenance window in the file."""

    device: str
    start_ns: int
    end_ns: int
    port: str
    fabric: str
    comment: str
    author: str


class _File(Settings):
    """All of the file."""

    acknowledged: list[Acknowledged] = Field(max_length=_MAX_ACKS)
    maintenance: list[_Window]


class Kept:
    """Acknowledgements and declared windows, and the file they are kept in."""

    def __init__(
        self, path: Path | None, context: Context, maintenance: Callable[[], Maintenance]
    ) -> None:
        """Nothing is read yet. Without a `path` everything ends with the daemon."""
        self._path = path
        self._context = context
        self._maintenance = maintenance
        self._acks: dict[str, Acknowledged] = {}
        self._before: dict[tuple[str, ...], Acknowledged] = {}
        """Acknowledgements of the run before, by place: its incidents had other ids."""
        self._since = ""
        self._until = ""
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file, if it is there. Raises `ConfigError` for one that is not ours."""
        now = self._context.clock.now_ns()
        self._since, self._until = rfc3339(now), rfc3339(now + round(_SAME_S * 1e9))
        if self._path is None or not self._path.exists():
            return
        file = validate(_File, Document(str(self._path), _read(self._path), {}))
        self._acks = {one.id: one for one in file.acknowledged}
        self._before = {one.place: one for one in file.acknowledged}
        for window in file.maintenance:
            if window.end_ns > now:
                self._maintenance().declare(MaintenanceWindow(**window.model_dump()), now)

    def of(self, incident: Mapping[str, Any]) -> dict[str, Any] | None:
        """Who looks after it, as JSON.

        An incident that opens soon after a start takes the acknowledgement that was given to the
        same kind at the same place before it: to people it is the same one.
        """
        known = self._acks.get(incident["id"])
        if known is None and self._since <= incident["started_at"] < self._until:
            known = self._before.get(_place(incident))
        return known.to_json() if known is not None else None

    async def acknowledge(self, incident: Mapping[str, Any], by: str, comment: str) -> None:
        """Note that `by` looks after it."""
        if len(self._acks) >= _MAX_ACKS:
            del self._acks[next(iter(self._acks))]
        at = rfc3339(self._context.clock.now_ns())
        one = Acknowledged(id=incident["id"], by=by, at=at, comment=comment, place=_place(incident))
        self._acks[one.id] = one
        await self._save()

    async def unacknowledge(self, incident: Mapping[str, Any]) -> None:
        """Take it back."""
        self._acks.pop(incident["id"], None)
        self._before.pop(_place(incident), None)
        await self._save()

    async def declare(self, window: MaintenanceWindow) -> None:
        """Note planned work."""
        self._maintenance().declare(window, self._context.clock.now_ns())
        await self._save()

    async def withdraw(self, window_id: str) -> bool:
        """Forget a declared window; False where there is none of that id."""
        found = self._maintenance().withdraw(window_id)
        if found:
            await self._save()
        return found

    async def _save(self) -> None:
        """Write it; where that fails, what was said counts until the daemon ends."""
        path = self._path
        if path is None:
            return
        async with self._writing:
            content = orjson.dumps(
                {
                    "acknowledged": [one.model_dump() for one in self._acks.values()],
                    "maintenance": [_written(one) for one in self._maintenance().declared()],
                },
                option=orjson.OPT_INDENT_2,
            )
            try:
                await asyncio.to_thread(_replace, path, content)
            except OSError as error:
                self._context.report.emit(Event.STATE_NOT_KEPT, str(path), error=str(error))


def _place(incident: Mapping[str, Any]) -> tuple[str, str, str, str]:
    cause = incident["cause"] or {}
    return (
        incident["fabric"],
        incident["kind"],
        cause.get("device") or "",
        cause.get("port") or "",
    )


def _read(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ConfigError(f"not what fabricmon wrote: {error}", file=str(path)) from error


def _written(window: MaintenanceWindow) -> dict[str, Any]:
    return {name: getattr(window, name) for name in _Window.model_fields}


def _replace(path: Path, content: bytes) -> None:
    """The new content or, after a crash at any moment, the old one. Readable by nobody else."""
    fresh = path.with_name(f"{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
