"""`/api/v1`: read anything; acknowledge an incident or declare maintenance when authenticated.

What is written is fabricmon's own state and nothing else: no call reaches a device.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from aiohttp import web
from pydantic import Field, ValidationError, field_validator

from fabricmon import __version__
from fabricmon.model.incident import IncidentKind, IncidentState, Verdict, rfc3339
from fabricmon.model.maintenance import MaintenanceWindow
from fabricmon.model.topology import PortId
from fabricmon.settings import Settings
from fabricmon.web.api import view
from fabricmon.web.api.openapi import DESCRIPTION
from fabricmon.web.api.responses import json_response
from fabricmon.web.security import USER

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.web.api.history import History
    from fabricmon.web.api.kept import Kept
    from fabricmon.web.security import Gate
    from fabricmon.web.state import State

_M = TypeVar("_M", bound=Settings)

_MAX_ROWS = 1000
_EXAMPLE = "2026-01-31T22:00:00Z"
_FILTERS: dict[str, list[str]] = {
    "fabric": [],
    "state": [state.value for state in IncidentState],
    "kind": [kind.value for kind in IncidentKind],
    "verdict": [verdict.value for verdict in Verdict],
}
"""What incidents can be narrowed by, and to what; empty = any text."""


class Acknowledgement(Settings):
    """Body of an acknowledgement."""

    comment: str = Field(default="", max_length=1000)


class NewMaintenance(Settings):
    """Body of a maintenance window."""

    device: str = Field(min_length=1, max_length=256)
    port: str = Field(default="", max_length=256)
    fabric: str = Field(default="", max_length=256)
    start: datetime
    end: datetime
    comment: str = Field(default="", max_length=1000)

    @field_validator("start", "end", mode="before")
    @classmethod
    def _is_written_out(cls, value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(f"write it out: {_EXAMPLE}")  # noqa: TRY004 - pydantic wants ValueError
        return value

    @field_validator("start", "end")
    @classmethod
    def _has_zone(cls, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise ValueError(f"a time needs a time zone: {_EXAMPLE}")
        if not 1970 <= value.year < 2200:
            raise ValueError("that is not a time of this network")
        return value


class Api:
    """The handlers."""

    def __init__(
        self, context: Context, state: State, history: History, kept: Kept, gate: Gate
    ) -> None:
        """Store."""
        self._context = context
        self._state = state
        self._history = history
        self._gate = gate
        self._kept = kept

    def routes(self) -> list[web.RouteDef]:
        """For the application."""
        return [
            web.get("/api/v1/openapi.json", self._openapi),
            web.get("/api/v1/status", self._status),
            web.get("/api/v1/incidents", self._incidents),
            web.get("/api/v1/incidents/{id}", self._incident),
            web.post("/api/v1/incidents/{id}/acknowledge", self._acknowledge),
            web.delete("/api/v1/incidents/{id}/acknowledge", self._unacknowledge),
            web.get("/api/v1/ports", self._ports),
            web.get("/api/v1/port", self._port),
            web.get("/api/v1/topology", self._topology),
            web.get("/api/v1/targets", self._targets),
            web.get("/api/v1/timeline", self._timeline),
            web.get("/api/v1/moment", self._moment),
            web.get("/api/v1/maintenance", self._maintenance),
            web.post("/api/v1/maintenance", self._declare),
            web.delete("/api/v1/maintenance/{id}", self._withdraw),
        ]

    # --- reading ------------------------------------------------------------------------------

    async def _openapi(self, _request: web.Request) -> web.Response:
        return json_response(DESCRIPTION)

    async def _status(self, request: web.Request) -> web.Response:
        return json_response(
            {
                "version": __version__,
                "time": rfc3339(self._context.clock.now_ns()),
                "ready": self._state.ready(),
                "user": request.get(USER),
                "may_write": self._gate.authenticates,
                **self._reloads(),
                "leaders": dict(self._state.leaders()),
                "fabrics": [
                    view.fabric_json(one) for _, one in sorted(self._state.snapshots().items())
                ],
            }
        )

    def _reloads(self) -> dict[str, Any]:
        """How the last reload went; None before the daemon has started."""
        read = self._context.report.metrics.registry.get_sample_value
        at = read("fabricmon_config_last_reload_success_timestamp_seconds")
        return {
            "last_reload_successful": bool(read("fabricmon_config_last_reload_successful"))
            if at
            else None,
            "last_reload_at": rfc3339(round(at * 1e9)) if at else None,
        }

    def _known_incidents(self) -> list[dict[str, Any]]:
        """Open ones, worst first, then closed ones, latest first."""
        known: dict[str, dict[str, Any]] = {}
        for name in sorted(self._state.snapshots()):
            moments = self._history.moments(name)
            if moments:
                known |= {one["id"]: one for one in moments[-1].incidents()}
        for one in self._history.closed():
            known.setdefault(one["id"], one)
        return [self._with_ack(one) for one in known.values()]

    def _with_ack(self, incident: dict[str, Any]) -> dict[str, Any]:
        return {**incident, "acknowledged": self._kept.of(incident)}

    async def _incidents(self, request: web.Request) -> web.Response:
        wanted = {key: request.query[key] for key in _FILTERS if key in request.query}
        for key, value in wanted.items():
            known = _FILTERS[key]
            if known and value not in known:
                raise web.HTTPBadRequest(text=f"{key} is one of {', '.join(known)}\n")
        most = _whole(request, "limit", _MAX_ROWS, _MAX_ROWS)
        found = (
            one
            for one in self._known_incidents()
            if all(one[key] == value for key, value in wanted.items())
        )
        return json_response(list(islice(found, most)))

    def _one(self, request: web.Request) -> dict[str, Any]:
        wanted = request.match_info["id"]
        for one in self._known_incidents():
            if one["id"] == wanted:
                return one
        raise web.HTTPNotFound(text="no such incident\n")

    async def _incident(self, request: web.Request) -> web.Response:
        return json_response(self._one(request))

    def _fabric(self, request: web.Request) -> Snapshot:
        """The fabric that is asked for; it may be left out where there is one."""
        snapshots = self._state.snapshots()
        name = request.query.get("fabric")
        if name is None and len(snapshots) == 1:
            return next(iter(snapshots.values()))
        if name is None or name not in snapshots:
            raise web.HTTPNotFound(text="no such fabric, or it has not been polled yet\n")
        return snapshots[name]

    async def _ports(self, request: web.Request) -> web.Response:
        snapshot = self._fabric(request)
        sort = request.query.get("sort", "stall")
        if sort not in view.SORTS:
            raise web.HTTPBadRequest(text=f"sort is one of {', '.join(view.SORTS)}\n")
        limit = _whole(request, "limit", 100, _MAX_ROWS)
        offset = _whole(request, "offset", 0, 10_000_000)
        query = request.query
        text, device = query.get("q", ""), query.get("device", "")
        rows = await asyncio.to_thread(view.pick_rows, snapshot, text, device, sort)
        chosen = rows[offset : offset + limit]
        return json_response(
            {
                "fabric": snapshot.fabric,
                "time": rfc3339(snapshot.frame.time_ns),
                "total": len(rows),
                "offset": offset,
                "ports": view.ports_json(snapshot, chosen),
            }
        )

    async def _port(self, request: web.Request) -> web.Response:
        snapshot = self._fabric(request)
        port = PortId(request.query.get("device", ""), request.query.get("port", ""))
        row = snapshot.table.row(port)
        if row is None or row >= snapshot.frame.n_ports:
            raise web.HTTPNotFound(text="no such port\n")
        window = self._state.windows().get(snapshot.fabric)
        moments = self._history.moments(snapshot.fabric)
        return json_response(view.port_json(snapshot, row, window, moments))

    async def _topology(self, request: web.Request) -> web.Response:
        snapshot = self._fabric(request)
        return json_response(await asyncio.to_thread(view.topology_json, snapshot))

    async def _targets(self, request: web.Request) -> web.Response:
        wanted = request.query.get("fabric")
        return json_response(
            [
                view.target_json(status)
                for name, snapshot in sorted(self._state.snapshots().items())
                if wanted in (None, name)
                for status in snapshot.targets
            ]
        )

    async def _timeline(self, request: web.Request) -> web.Response:
        fabric = self._fabric(request).fabric
        return json_response(view.timeline_json(fabric, self._history.moments(fabric)))

    async def _moment(self, request: web.Request) -> web.Response:
        snapshot = self._fabric(request)
        moments = self._history.moments(snapshot.fabric)
        if "tick" in request.query:
            tick = _whole(request, "tick", 0, 2**53)
            moments = [moment for moment in moments if moment.tick == tick]
        if not moments:
            raise web.HTTPNotFound(text="that tick is not kept\n")
        moment = view.moment_json(snapshot, moments[-1])
        moment["incidents"] = [self._with_ack(one) for one in moment["incidents"]]
        return json_response(moment)

    # --- writing: our own state only ------------------------------------------------------------

    def _writer(self, request: web.Request) -> str:
        """Who writes. Only callers that had to show who they are may."""
        if not self._gate.authenticates:
            raise web.HTTPForbidden(
                text="writing needs callers that are known: set up basic_auth_users or client "
                "certificates in the web config file\n"
            )
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise web.HTTPForbidden(text="another site may not write here\n")
        return request.get(USER, "")

    async def _acknowledge(self, request: web.Request) -> web.Response:
        user = self._writer(request)
        body = await _body(request, Acknowledgement)
        await self._kept.acknowledge(self._one(request), user, body.comment)
        return json_response(self._one(request))

    async def _unacknowledge(self, request: web.Request) -> web.Response:
        self._writer(request)
        await self._kept.unacknowledge(self._one(request))
        return json_response(self._one(request))

    async def _maintenance(self, _request: web.Request) -> web.Response:
        windows = self._state.maintenance().windows()
        return json_response([_window_json(window) for window in windows])

    async def _declare(self, request: web.Request) -> web.Response:
        user = self._writer(request)
        body = await _body(request, NewMaintenance)
        if body.end <= body.start:
            raise web.HTTPConflict(text="`end` comes after `start`\n")
        window = MaintenanceWindow(
            body.device,
            round(body.start.timestamp() * 1e9),
            round(body.end.timestamp() * 1e9),
            body.port,
            body.fabric,
            body.comment,
            user,
        )
        await self._kept.declare(window)
        return json_response(_window_json(window), status=201)

    async def _withdraw(self, request: web.Request) -> web.Response:
        self._writer(request)
        if not await self._kept.withdraw(request.match_info["id"]):
            raise web.HTTPNotFound(text="no window of that id was declared over HTTP\n")
        return web.Response(status=204)


def _window_json(window: MaintenanceWindow) -> dict[str, Any]:
    return {
        "id": window.id,
        "fabric": window.fabric,
        "device": window.device,
        "port": window.port,
        "start": rfc3339(window.start_ns),
        "end": rfc3339(window.end_ns),
        "comment": window.comment,
        "author": window.author,
    }


def _whole(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 16 or int(text) > most:
        raise web.HTTPBadRequest(text=f"{name} is a whole number, at most {most}\n")
    return int(text)


async def _body(request: web.Request, model: type[_M]) -> _M:
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="send application/json\n")
    try:
        return model.model_validate(orjson.loads(await request.read()))
    except orjson.JSONDecodeError as error:
        raise web.HTTPBadRequest(text=f"not JSON: {error}\n") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise web.HTTPBadRequest(text=f"{place}: {first['msg']}\n") from error
