"""The interchange dump: a folder with counters, a topology and labels that people write by hand.

    counters.parquet | counters.csv[.gz]   long form, see `longtable`
    topology.json                          nodes, links, jobs, intent, facts of ports (optional)
    labels.json                            what is known to have happened (optional)

Unknown fields are ignored, so that other tools may add theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from fabricmon.errors import FormatError
from fabricmon.model.topology import (
    Ecn,
    Intent,
    Job,
    Link,
    Node,
    PortFacts,
    PortId,
    Role,
    Technology,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COUNTERS = ("counters.parquet", "counters.csv", "counters.csv.gz")
"""Names the counters of a dump may have, the preferred first."""
TOPOLOGY = "topology.json"
LABELS = "labels.json"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Label:
    """One thing that is known to have happened in a dump.

    `accept` are further kinds that count as right. Any one of `causes`, or its link partner, is the
    right cause; an empty `port` there means any port of the device. `trigger` is a kind that is
    there too because the fault shows only under it.
    """

    kind: str
    start_ns: int
    end_ns: int
    causes: tuple[PortId, ...] = ()
    victims: tuple[PortId, ...] = ()
    reason: str = ""
    accept: tuple[str, ...] = ()
    trigger: str = ""


def read_labels(data: bytes, file: str = LABELS) -> tuple[Label, ...]:
    """The labels of a dump; an empty list means that it is healthy. Raises `FormatError`."""
    entries = _json(data, file)
    if not isinstance(entries, list):
        raise FormatError("labels are a list", file=file)
    return tuple(_each(entries, _label, "label", file))


def write_labels(labels: Sequence[Label]) -> bytes:
    """The same as JSON."""
    entries = [
        {
            "kind": label.kind,
            "reason": label.reason or None,
            "accept": list(label.accept),
            "start": label.start_ns,
            "end": label.end_ns,
            "causes": [_place_json(cause) for cause in label.causes],
            "trigger": label.trigger or None,
            "victims": [_place_json(victim) for victim in label.victims],
        }
        for label in labels
    ]
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2)


def _label(entry: dict[str, Any]) -> Label:
    return Label(
        kind=str(entry["kind"]),
        start_ns=int(entry["start"]),
        end_ns=int(entry["end"]),
        causes=tuple(_place(cause) for cause in entry.get("causes") or ()),
        victims=tuple(_place(victim) for victim in entry.get("victims") or ()),
        reason=entry.get("reason") or "",
        accept=tuple(entry.get("accept") or ()),
        trigger=entry.get("trigger") or "",
    )


def _place(entry: dict[str, Any]) -> PortId:
    return PortId(str(entry["device"]), str(entry.get("port") or ""))


def _place_json(port: PortId) -> dict[str, str]:
    return {"device": port.device, "port": port.port} if port.port else {"device": port.device}


def read_topology(data: bytes, file: str = TOPOLOGY) -> Topology:
    """A `topology.json`. Raises `FormatError` naming what is wrong where."""
    document = _json(data, file)
    if not isinstance(document, dict):
        raise FormatError("a topology is an object with `nodes` and `links`", file=file)

    def part(key: str, make: Callable[[dict[str, Any]], _T]) -> tuple[_T, ...]:
        entries = document.get(key) or []
        if not isinstance(entries, list):
            raise FormatError(f"`{key}` is a list", file=file)
        return tuple(_each(entries, make, key, file))

    nodes, links = part("nodes", _node), part("links", _link)
    ports, jobs = part("ports", _facts), part("jobs", _job)
    (intent, interval_s), *_ = _each([document.get("fabric") or {}], _fabric, "fabric", file)
    idle = not jobs and document.get("idle") is True
    return Topology(nodes, links, ports, jobs, intent, interval_s, idle)


def write_topology(topology: Topology) -> bytes:
    """The same as JSON; reading it back gives an equal topology."""
    document = {
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "role": node.role.value,
                "technology": node.technology.value,
                **({"guid": node.guid} if node.guid else {}),
            }
            for node in topology.nodes
        ],
        "links": [
            {"a": list(link.a), "b": list(link.b), "speed_bps": link.speed_bps}
            for link in topology.links
        ],
        "jobs": [
            {"name": job.name, "hosts": list(job.hosts), "gpus_per_host": job.gpus_per_host}
            for job in topology.jobs
        ],
        **({"idle": True} if topology.idle else {}),
        "fabric": {
            "lossless_queues": list(topology.intent.lossless_queues),
            "ecn": topology.intent.ecn.value,
            "interval_s": topology.interval_s,
        },
        "ports": [_facts_json(facts) for facts in topology.ports],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


_KINDS = ("switch", "host", "router", "aggregation")


def _node(entry: dict[str, Any]) -> Node:
    kind = str(entry.get("kind") or "switch")
    if kind not in _KINDS:
        raise ValueError(f"`kind` is one of {', '.join(_KINDS)}, not {kind!r}")
    role = Role(entry.get("role") or (Role.HOST if kind == "host" else Role.UNKNOWN))
    technology = Technology(entry.get("technology") or Technology.ROCE)
    return Node(str(entry["name"]), kind, role, technology, str(entry.get("guid") or ""))


def _link(entry: dict[str, Any]) -> Link:
    ends = [PortId(str(device), str(port)) for device, port in (entry["a"], entry["b"])]
    return Link(ends[0], ends[1], float(entry.get("speed_bps") or 0.0))


def _job(entry: dict[str, Any]) -> Job:
    hosts = tuple(str(host) for host in entry.get("hosts") or ())
    return Job(str(entry["name"]), hosts, int(entry.get("gpus_per_host") or 8))


_NUMBERS = ("speed_bps", "nominal_bps", "tick_bytes")


def _facts(entry: dict[str, Any]) -> PortFacts:
    return PortFacts(
        PortId(str(entry["device"]), str(entry["port"])),
        **{name: float(entry.get(name) or 0.0) for name in _NUMBERS},
        lanes=int(entry.get("lanes") or 0),
        rail=str(entry["rail"]) if entry.get("rail") is not None else "",
        plane=str(entry["plane"]) if entry.get("plane") is not None else "",
    )


def _facts_json(facts: PortFacts) -> dict[str, Any]:
    known = {name: getattr(facts, name) for name in (*_NUMBERS, "lanes", "rail", "plane")}
    return {
        "device": facts.id.device,
        "port": facts.id.port,
        **{name: value for name, value in known.items() if value},
    }


def _fabric(entry: dict[str, Any]) -> tuple[Intent, float]:
    queues = tuple(int(queue) for queue in entry.get("lossless_queues") or ())
    return Intent(queues, Ecn(entry.get("ecn") or Ecn.UNKNOWN)), float(entry.get("interval_s") or 0)


def _json(data: bytes, file: str) -> Any:
    try:
        return orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise FormatError(error.msg, file=file, line=error.lineno) from error


def _each(
    entries: Sequence[Any], make: Callable[[dict[str, Any]], _T], what: str, file: str
) -> list[_T]:
    """Every entry made; the first that cannot be is named by its place in the list."""
    made = []
    for number, entry in enumerate(entries):
        try:
            made.append(make(entry))
        except KeyError as error:
            raise FormatError(f"{what}[{number}] has no {error.args[0]!r}", file=file) from error
        except (ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"{what}[{number}]: {error}", file=file) from error
    return made
