"""How a track is written down, so that an incident outlives the process that found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from fabricmon.model.incident import Cause, Finding, Incident, IncidentKind  # noqa: TC001 - read by pydantic
from fabricmon.model.topology import PortId  # noqa: TC001 - read by pydantic


@dataclass(slots=True)
class Written:
    """The attributes of a `Track` but its arrays; mappings as pairs, rows by name."""

    first_ns: int
    last_ns: int
    hits: list[bool]
    incident: Incident | None
    rows: list[PortId]
    kinds: list[tuple[tuple[IncidentKind, str], float]]
    weight: list[tuple[tuple[IncidentKind, str, str], float]]
    named: list[tuple[tuple[str, str], Cause]]
    leading: list[tuple[tuple[str, str], int]]
    latest: list[tuple[IncidentKind, Finding]]
    hardest: list[tuple[IncidentKind, tuple[float, Finding]]]
    claims: int
    sure: list[tuple[IncidentKind, float]]
    times: list[tuple[IncidentKind, int]]


def dump(tracks: list[Written]) -> Any:
    """As JSON takes it."""
    return TypeAdapter(list[Written]).dump_python(tracks, mode="json")


def load(document: Any) -> list[Written]:
    """The same again. Raises `ValueError` naming what is wrong."""
    return TypeAdapter(list[Written]).validate_python(document)
