"""The description of `/api/v1` in OpenAPI 3.1, served at `/api/v1/openapi.json`."""

from __future__ import annotations

from typing import Any

from fabricmon import __version__
from fabricmon.model.incident import IncidentKind, IncidentState, Verdict
from fabricmon.web.api.schemas import (
    NEW_ACK,
    NEW_WINDOW,
    ONE_INCIDENT,
    PORTS,
    SCHEMAS,
    SORT,
    STATUS,
    STRING,
    TIMELINE,
    TOPOLOGY,
    array,
    enum,
    ref,
)


def _query(name: str, text: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema or STRING}


def _whole(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": STRING}


_FABRIC = _query("fabric", "may be left out where there is one fabric")


def _call(
    summary: str,
    schema: dict[str, Any] | None,
    *parameters: dict[str, Any],
    status: int = 200,
    body: dict[str, Any] | None = None,
    refusals: tuple[int, ...] = (),
    writes: bool = False,
    links: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One operation. Refusals are plain text that says why; `links` say what may be asked next."""
    answer: dict[str, Any] = {"description": summary}
    if links is not None:
        answer["links"] = links
    if writes:
        refusals = (401, 403, *refusals)
    if schema is not None:
        answer["content"] = {"application/json": {"schema": schema}}
    call: dict[str, Any] = {
        "summary": summary,
        "responses": {
            str(status): answer,
            **{
                str(code): {
                    "description": "refused",
                    "content": {"text/plain": {"schema": STRING}},
                }
                for code in refusals
            },
        },
    }
    if writes:
        call["security"] = [{"basic": []}]
    if parameters:
        call["parameters"] = list(parameters)
    if body is not None:
        call["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return call


def _link(path: str, verb: str, **parameters: str) -> dict[str, Any]:
    """How a part of an answer is asked about."""
    where = path.replace("~", "~0").replace("/", "~1")
    return {
        "operationRef": f"#/paths/{where}/{verb}",
        "parameters": {name: f"$response.body#{place}" for name, place in parameters.items()},
    }


DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "fabricmon",
        "version": __version__,
        "description": "What fabricmon knows of its fabrics. Reading is open to whoever may reach "
        "the server; writing (own state only) needs callers that are authenticated.",
    },
    "paths": {
        "/api/v1/openapi.json": {"get": _call("This description", {"type": "object"})},
        "/api/v1/status": {"get": _call("The daemon and each fabric in a few numbers", STATUS)},
        "/api/v1/incidents": {
            "get": _call(
                "Incidents: open ones, worst first, then closed ones, latest first",
                array(ONE_INCIDENT),
                _query("fabric", "only this fabric's"),
                _query("state", "only in this state", enum(IncidentState)),
                _query("kind", "only of this kind", enum(IncidentKind)),
                _query("verdict", "only with this verdict", enum(Verdict)),
                _query("limit", "at most 1000", _whole(1000)),
                refusals=(400,),
            )
        },
        "/api/v1/incidents/{id}": {
            "get": _call("One incident", ONE_INCIDENT, _in_path("id"), refusals=(404,))
        },
        "/api/v1/incidents/{id}/acknowledge": {
            "post": _call(
                "Say that somebody looks after it",
                ONE_INCIDENT,
                _in_path("id"),
                body=NEW_ACK,
                refusals=(400, 404, 415),
                writes=True,
            ),
            "delete": _call(
                "Take that back", ONE_INCIDENT, _in_path("id"), refusals=(404,), writes=True
            ),
        },
        "/api/v1/ports": {
            "get": _call(
                "Ports as they are now",
                PORTS,
                _FABRIC,
                _query("q", "only names with this text in them"),
                _query("device", "only this device's"),
                _query("sort", "worst first by this, or by name", SORT),
                _query("limit", "at most 1000", _whole(1000)),
                _query("offset", "skip so many", _whole(10_000_000)),
                refusals=(400, 404),
            )
        },
        "/api/v1/port": {
            "get": _call(
                "One port with every counter and its recent past",
                ref("PortDetail"),
                _FABRIC,
                _query("device", "its device"),
                _query("port", "its name"),
                refusals=(404,),
            )
        },
        "/api/v1/topology": {
            "get": _call(
                "Nodes as [name, kind, tier], links as [node, port, node, port], jobs",
                TOPOLOGY,
                _FABRIC,
                refusals=(404,),
            )
        },
        "/api/v1/targets": {
            "get": _call("Every target and how its polls go", array(ref("Target")), _FABRIC)
        },
        "/api/v1/timeline": {
            "get": _call("The ticks that are kept", TIMELINE, _FABRIC, refusals=(404,))
        },
        "/api/v1/moment": {
            "get": _call(
                "What was held back at one tick, as [device, port, stall ratio]",
                ref("Moment"),
                _FABRIC,
                _query("tick", "the latest where left out", _whole(2**53)),
                refusals=(400, 404),
            )
        },
        "/api/v1/maintenance": {
            "get": _call("Declared windows", array(ref("Maintenance"))),
            "post": _call(
                "Declare a window",
                ref("Maintenance"),
                status=201,
                body=NEW_WINDOW,
                refusals=(400, 409, 415),
                writes=True,
                links={"withdraw": _link("/api/v1/maintenance/{id}", "delete", id="/id")},
            ),
        },
        "/api/v1/maintenance/{id}": {
            "delete": _call(
                "Withdraw a window",
                None,
                _in_path("id"),
                status=204,
                refusals=(404,),
                writes=True,
            )
        },
        "/api/v1/events": {
            "get": {
                "summary": "Server-sent events, one per tick",
                "responses": {
                    "200": {
                        "description": "a stream that does not end",
                        "content": {"text/event-stream": {"schema": STRING}},
                    },
                    "503": {"description": "too many listeners"},
                },
            }
        },
    },
    "components": {
        "schemas": SCHEMAS,
        "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
    },
}
