"""The description of `/api/v1` in OpenAPI 3.1, served at `/api/v1/openapi.json`."""

from __future__ import annotations

from typing import Any

from fabricmon import __version__
from fabricmon.model.incident import IncidentKind, IncidentState, Severity, Verdict

_STRING = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_INT = {"type": "integer"}
_NUMBER = {"type": "number"}
_BOOL = {"type": "boolean"}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    return {**schema, "type": [schema["type"], "null"]}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _tuple(length: int) -> dict[str, Any]:
    """Names and numbers in a fixed order; the summary of the call names them."""
    items = {"type": ["string", "number"]}
    return {"type": "array", "items": items, "minItems": length, "maxItems": length}


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """Every property is always there, and there are no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _texts(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, _STRING)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _enum(values: Any) -> dict[str, Any]:
    return {"type": "string", "enum": [value.value for value in values]}


_CAUSE = {
    "device": _STRING,
    "port": _maybe(_STRING),
    "queue": _maybe(_INT),
    "peer_device": _maybe(_STRING),
    "peer_port": _maybe(_STRING),
}
_SAMPLE = {**dict.fromkeys(("value", "over_s", "rate"), _maybe(_NUMBER)), "state": _STRING}
_RAW = _object(
    **_texts("counter", "device", "port", "unit", "source"),
    queue=_maybe(_INT),
    samples=_list(_object(at=_TIME, **_SAMPLE)),
)
_ACK = _object(by=_STRING, at=_TIME, comment=_STRING)
_INCIDENT: dict[str, dict[str, Any]] = {
    "id": _STRING,
    "fabric": _STRING,
    "kind": _enum(IncidentKind),
    "reason": _maybe(_STRING),
    "verdict": _enum(Verdict),
    "severity": _enum(Severity),
    "state": _enum(IncidentState),
    "started_at": _TIME,
    "updated_at": _TIME,
    "ended_at": _maybe(_TIME),
    "confidence": _NUMBER,
    "cause": _maybe(_object(**_CAUSE)),
    "causes_ranked": _list(_object(**_CAUSE, confidence=_NUMBER)),
    "victims": _list(_object(device=_STRING, port=_STRING, stall_ratio=_NUMBER)),
    "jobs": _list(
        {
            **_object(name=_STRING, stalled_gpu_seconds=_NUMBER),
            "properties": {"name": _STRING, "stalled_gpu_seconds": _NUMBER, "cost": _NUMBER},
        }
    ),
    "lost_bytes": _NUMBER,
    "stalled_port_seconds": _NUMBER,
    "evidence": _list(
        _object(
            **_texts("counter", "device", "port", "unit", "expected", "source", "formula"),
            value=_NUMBER,
            raw=_list(_RAW),
        )
    ),
    "advice": _STRING,
    "anomaly_score": _NUMBER,
    "maintenance": _BOOL,
}
_PORT: dict[str, dict[str, Any]] = {
    "device": _STRING,
    "port": _STRING,
    "peer_device": _maybe(_STRING),
    "peer_port": _maybe(_STRING),
    "role": _STRING,
    **dict.fromkeys(
        ("speed_bps", "stall", "press", "tx_use", "rx_use", "score", "age_s"), _maybe(_NUMBER)
    ),
    "estimated": _BOOL,
    "alarm": _BOOL,
}
_SERIES = {
    "type": "object",
    "properties": {"times": _list(_NUMBER)},
    "required": ["times"],
    "additionalProperties": _list(_maybe(_NUMBER)),
}
_SCHEMAS: dict[str, Any] = {
    "Incident": _object(**_INCIDENT, acknowledged=_maybe(_ACK)),
    "Port": _object(**_PORT),
    "PortDetail": _object(
        **_PORT,
        fabric=_STRING,
        time=_TIME,
        technology=_STRING,
        why=_list(_STRING),
        stall_low=_maybe(_NUMBER),
        stall_high=_maybe(_NUMBER),
        counters=_list(
            _object(
                counter=_STRING,
                queue=_maybe(_INT),
                unit=_STRING,
                help=_STRING,
                total=_maybe(_INT),
                rate=_maybe(_NUMBER),
                state=_STRING,
            )
        ),
        gauges=_map(_maybe(_NUMBER)),
        signals=_SERIES,
        rates=_SERIES,
    ),
    "Fabric": _object(
        name=_STRING,
        tick=_INT,
        time=_TIME,
        interval_s=_NUMBER,
        ports=_INT,
        nodes=_INT,
        links=_INT,
        stalled_ports=_INT,
        worst_stall_ratio=_maybe(_NUMBER),
        learning=_BOOL,
        incidents=_INT,
        targets=_INT,
        targets_up=_INT,
        jobs=_list(_object(name=_STRING, stalled_gpu_seconds=_NUMBER)),
        values=_map(_INT),
    ),
    "Target": _object(
        fabric=_STRING,
        target=_STRING,
        collector=_STRING,
        up=_BOOL,
        last_success_at=_maybe(_TIME),
        last_duration_s=_NUMBER,
        failures=_map(_INT),
        last_error=_STRING,
    ),
    "Maintenance": _object(
        id=_STRING,
        fabric=_STRING,
        device=_STRING,
        port=_STRING,
        start=_TIME,
        end=_TIME,
        comment=_STRING,
        author=_STRING,
    ),
    "Moment": _object(
        fabric=_STRING,
        tick=_INT,
        time=_TIME,
        stalled=_list(_tuple(3)),
        stalled_ports=_INT,
        incidents=_list(_ref("Incident")),
    ),
}


def _query(name: str, text: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema or _STRING}


def _whole(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _STRING}


_FABRIC = _query("fabric", "may be left out where there is one fabric")


def _call(
    summary: str,
    schema: dict[str, Any] | None,
    *parameters: dict[str, Any],
    status: int = 200,
    body: dict[str, Any] | None = None,
    refusals: tuple[int, ...] = (),
) -> dict[str, Any]:
    """One operation. Refusals are plain text that says why."""
    answer: dict[str, Any] = {"description": summary}
    if schema is not None:
        answer["content"] = {"application/json": {"schema": schema}}
    call: dict[str, Any] = {
        "summary": summary,
        "responses": {
            str(status): answer,
            **{
                str(code): {
                    "description": "refused",
                    "content": {"text/plain": {"schema": _STRING}},
                }
                for code in refusals
            },
        },
    }
    if parameters:
        call["parameters"] = list(parameters)
    if body is not None:
        call["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return call


_WRITES = (400, 403, 404, 415)
_COMMENT = {"type": "string", "maxLength": 1000}
_DECLARED = {**_TIME, "pattern": "^(19[7-9][0-9]|2[01][0-9][0-9])-"}
_NEW_ACK = {"type": "object", "properties": {"comment": _COMMENT}, "additionalProperties": False}
_NEW_WINDOW = {
    "type": "object",
    "properties": {
        "device": {"type": "string", "minLength": 1, "maxLength": 256},
        "port": {"type": "string", "maxLength": 256},
        "fabric": {"type": "string", "maxLength": 256},
        "start": _DECLARED,
        "end": _DECLARED,
        "comment": _COMMENT,
    },
    "required": ["device", "start", "end"],
    "additionalProperties": False,
}
_TIMELINE = _object(
    fabric=_STRING,
    ticks=_list(_INT),
    times=_list(_NUMBER),
    worst_stall_ratio=_list(_NUMBER),
    stalled_ports=_list(_INT),
    incidents=_list(_INT),
)
_TOPOLOGY = _object(
    fabric=_STRING,
    nodes=_list(_tuple(3)),
    links=_list(_tuple(4)),
    jobs=_list(_object(name=_STRING, hosts=_list(_STRING), gpus_per_host=_INT)),
)
_STATUS = _object(
    version=_STRING,
    time=_TIME,
    ready=_BOOL,
    user=_maybe(_STRING),
    may_write=_BOOL,
    last_reload_successful=_maybe(_BOOL),
    last_reload_at=_maybe(_TIME),
    fabrics=_list(_ref("Fabric")),
)
_PORTS = _object(fabric=_STRING, time=_TIME, total=_INT, offset=_INT, ports=_list(_ref("Port")))
_SORT = {"type": "string", "enum": ["stall", "score", "press", "tx_use", "rx_use", "name"]}
_ONE_INCIDENT = _ref("Incident")

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
        "/api/v1/status": {"get": _call("The daemon and each fabric in a few numbers", _STATUS)},
        "/api/v1/incidents": {
            "get": _call(
                "Incidents: open ones, worst first, then closed ones, latest first",
                _list(_ONE_INCIDENT),
                _query("fabric", "only this fabric's"),
                _query("state", "only in this state", _enum(IncidentState)),
                _query("kind", "only of this kind", _enum(IncidentKind)),
                _query("verdict", "only with this verdict", _enum(Verdict)),
                refusals=(400,),
            )
        },
        "/api/v1/incidents/{id}": {
            "get": _call("One incident", _ONE_INCIDENT, _in_path("id"), refusals=(404,))
        },
        "/api/v1/incidents/{id}/acknowledge": {
            "post": _call(
                "Say that somebody looks after it",
                _ONE_INCIDENT,
                _in_path("id"),
                body=_NEW_ACK,
                refusals=_WRITES,
            ),
            "delete": _call("Take that back", _ONE_INCIDENT, _in_path("id"), refusals=(403, 404)),
        },
        "/api/v1/ports": {
            "get": _call(
                "Ports as they are now",
                _PORTS,
                _FABRIC,
                _query("q", "only names with this text in them"),
                _query("device", "only this device's"),
                _query("sort", "worst first by this, or by name", _SORT),
                _query("limit", "at most 1000", _whole(1000)),
                _query("offset", "skip so many", _whole(10_000_000)),
                refusals=(400, 404),
            )
        },
        "/api/v1/port": {
            "get": _call(
                "One port with every counter and its recent past",
                _ref("PortDetail"),
                _FABRIC,
                _query("device", "its device"),
                _query("port", "its name"),
                refusals=(404,),
            )
        },
        "/api/v1/topology": {
            "get": _call(
                "Nodes as [name, kind, tier], links as [node, port, node, port], jobs",
                _TOPOLOGY,
                _FABRIC,
                refusals=(404,),
            )
        },
        "/api/v1/targets": {
            "get": _call("Every target and how its polls go", _list(_ref("Target")), _FABRIC)
        },
        "/api/v1/timeline": {
            "get": _call("The ticks that are kept", _TIMELINE, _FABRIC, refusals=(404,))
        },
        "/api/v1/moment": {
            "get": _call(
                "What was held back at one tick, as [device, port, stall ratio]",
                _ref("Moment"),
                _FABRIC,
                _query("tick", "the latest where left out", _whole(2**53)),
                refusals=(400, 404),
            )
        },
        "/api/v1/maintenance": {
            "get": _call("Declared windows", _list(_ref("Maintenance"))),
            "post": _call(
                "Declare a window",
                _ref("Maintenance"),
                status=201,
                body=_NEW_WINDOW,
                refusals=(400, 403, 409, 415),
            ),
        },
        "/api/v1/maintenance/{id}": {
            "delete": _call(
                "Withdraw a window", None, _in_path("id"), status=204, refusals=(403, 404)
            )
        },
        "/api/v1/events": {
            "get": {
                "summary": "Server-sent events, one per tick",
                "responses": {
                    "200": {
                        "description": "a stream that does not end",
                        "content": {"text/event-stream": {"schema": _STRING}},
                    },
                    "503": {"description": "too many listeners"},
                },
            }
        },
    },
    "components": {"schemas": _SCHEMAS},
}
