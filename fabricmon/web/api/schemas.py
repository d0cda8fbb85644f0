"""The shapes of what `/api/v1` takes and gives, as JSON Schema."""

from __future__ import annotations

from typing import Any

from fabricmon.model.incident import IncidentKind, IncidentState, Severity, Verdict

STRING = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_INT = {"type": "integer"}
_NUMBER = {"type": "number"}
_BOOL = {"type": "boolean"}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    return {**schema, "type": [schema["type"], "null"]}


def array(items: dict[str, Any]) -> dict[str, Any]:
    """A list of these."""
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
    return dict.fromkeys(names, STRING)


def ref(name: str) -> dict[str, Any]:
    """The component of that name."""
    return {"$ref": f"#/components/schemas/{name}"}


def enum(values: Any) -> dict[str, Any]:
    """One of the words of an enumeration."""
    return {"type": "string", "enum": [value.value for value in values]}


_CAUSE = {
    "device": STRING,
    "port": _maybe(STRING),
    "queue": _maybe(_INT),
    "peer_device": _maybe(STRING),
    "peer_port": _maybe(STRING),
}
_SAMPLE = {**dict.fromkeys(("value", "over_s", "rate"), _maybe(_NUMBER)), "state": STRING}
_RAW = _object(
    **_texts("counter", "device", "port", "unit", "source"),
    queue=_maybe(_INT),
    samples=array(_object(at=_TIME, **_SAMPLE)),
)
_ACK = _object(by=STRING, at=_TIME, comment=STRING)
_INCIDENT: dict[str, dict[str, Any]] = {
    "id": STRING,
    "fabric": STRING,
    "kind": enum(IncidentKind),
    "reason": _maybe(STRING),
    "verdict": enum(Verdict),
    "severity": enum(Severity),
    "state": enum(IncidentState),
    "started_at": _TIME,
    "updated_at": _TIME,
    "ended_at": _maybe(_TIME),
    "confidence": _NUMBER,
    "cause": _maybe(_object(**_CAUSE)),
    "causes_ranked": array(_object(**_CAUSE, confidence=_NUMBER)),
    "victims": array(_object(device=STRING, port=STRING, stall_ratio=_NUMBER)),
    "jobs": array(
        {
            **_object(name=STRING, stalled_gpu_seconds=_NUMBER),
            "properties": {"name": STRING, "stalled_gpu_seconds": _NUMBER, "cost": _NUMBER},
        }
    ),
    "lost_bytes": _NUMBER,
    "stalled_port_seconds": _NUMBER,
    "evidence": array(
        _object(
            **_texts("counter", "device", "port", "unit", "expected", "source", "formula"),
            value=_NUMBER,
            raw=array(_RAW),
        )
    ),
    "advice": STRING,
    "anomaly_score": _NUMBER,
    "maintenance": _BOOL,
}
_PORT: dict[str, dict[str, Any]] = {
    "device": STRING,
    "port": STRING,
    "peer_device": _maybe(STRING),
    "peer_port": _maybe(STRING),
    "role": STRING,
    **dict.fromkeys(
        ("speed_bps", "stall", "press", "tx_use", "rx_use", "score", "age_s"), _maybe(_NUMBER)
    ),
    "estimated": _BOOL,
    "alarm": _BOOL,
}
_SERIES = {
    "type": "object",
    "properties": {"times": array(_NUMBER)},
    "required": ["times"],
    "additionalProperties": array(_maybe(_NUMBER)),
}
SCHEMAS: dict[str, Any] = {
    "Incident": _object(**_INCIDENT, acknowledged=_maybe(_ACK)),
    "Port": _object(**_PORT),
    "PortDetail": _object(
        **_PORT,
        fabric=STRING,
        time=_TIME,
        technology=STRING,
        why=array(STRING),
        stall_low=_maybe(_NUMBER),
        stall_high=_maybe(_NUMBER),
        counters=array(
            _object(
                counter=STRING,
                queue=_maybe(_INT),
                unit=STRING,
                help=STRING,
                total=_maybe(_INT),
                rate=_maybe(_NUMBER),
                state=STRING,
            )
        ),
        gauges=_map(_maybe(_NUMBER)),
        signals=_SERIES,
        rates=_SERIES,
    ),
    "Fabric": _object(
        name=STRING,
        tick=_INT,
        time=_TIME,
        interval_s=_NUMBER,
        ports=_INT,
        silent_ports=_INT,
        nodes=_INT,
        links=_INT,
        stalled_ports=_INT,
        worst_stall_ratio=_maybe(_NUMBER),
        learning=_BOOL,
        incidents=_INT,
        targets=_INT,
        targets_up=_INT,
        jobs=array(_object(name=STRING, stalled_gpu_seconds=_NUMBER)),
        values=_map(_INT),
    ),
    "Target": _object(
        fabric=STRING,
        target=STRING,
        collector=STRING,
        up=_BOOL,
        last_success_at=_maybe(_TIME),
        last_duration_s=_NUMBER,
        failures=_map(_INT),
        last_error=STRING,
        unmatched=_map(_INT),
    ),
    "Maintenance": _object(
        id=STRING,
        fabric=STRING,
        device=STRING,
        port=STRING,
        start=_TIME,
        end=_TIME,
        comment=STRING,
        author=STRING,
    ),
    "Moment": _object(
        fabric=STRING,
        tick=_INT,
        time=_TIME,
        stalled=array(_tuple(3)),
        stalled_ports=_INT,
        incidents=array(ref("Incident")),
    ),
}

_COMMENT = {"type": "string", "maxLength": 1000}
_DECLARED = {**_TIME, "pattern": "^(19[7-9][0-9]|2[01][0-9][0-9])-"}
NEW_ACK = {"type": "object", "properties": {"comment": _COMMENT}, "additionalProperties": False}
NEW_WINDOW = {
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
TIMELINE = _object(
    fabric=STRING,
    ticks=array(_INT),
    times=array(_NUMBER),
    worst_stall_ratio=array(_NUMBER),
    stalled_ports=array(_INT),
    incidents=array(_INT),
)
TOPOLOGY = _object(
    fabric=STRING,
    nodes=array(_tuple(3)),
    links=array(_tuple(4)),
    jobs=array(_object(name=STRING, hosts=array(STRING), gpus_per_host=_INT)),
)
STATUS = _object(
    version=STRING,
    time=_TIME,
    ready=_BOOL,
    user=_maybe(STRING),
    may_write=_BOOL,
    last_reload_successful=_maybe(_BOOL),
    last_reload_at=_maybe(_TIME),
    leaders=_map(STRING),
    fabrics=array(ref("Fabric")),
)
PORTS = _object(fabric=STRING, time=_TIME, total=_INT, offset=_INT, ports=array(ref("Port")))
SORT = {"type": "string", "enum": ["stall", "score", "press", "tx_use", "rx_use", "name"]}
ONE_INCIDENT = ref("Incident")
