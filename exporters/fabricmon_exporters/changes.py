"""What is news about incidents from tick to tick: opened, updated, closed. Costs alone are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabricmon.model.incident import IncidentState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.model.incident import Incident
    from fabricmon.model.snapshot import Snapshot


class Changes:
    """Remembers what was last told of each incident."""

    def __init__(self) -> None:
        """Everything that is open is news at first."""
        self._seen: dict[str, dict[str, tuple[Any, ...]]] = {}
        """Fabric -> incident id -> what was last told of it."""

    def forget(self, fabric: str | None = None) -> None:
        """One fabric, or all."""
        if fabric is None:
            self._seen.clear()
        else:
            self._seen.pop(fabric, None)

    def of(self, snapshot: Snapshot) -> Iterator[tuple[str, Incident]]:
        """(`opened`, `updated` or `closed`, incident) for what changed at this tick."""
        seen = self._seen.setdefault(snapshot.fabric, {})
        now: dict[str, tuple[Any, ...]] = {}
        for incident in (*snapshot.incidents, *snapshot.closed):
            known = seen.get(incident.id)
            if incident.state is IncidentState.CLOSED:
                yield "closed", incident
                continue
            now[incident.id] = _essence(incident)
            if known is None:
                yield "opened", incident
            elif known != now[incident.id]:
                yield "updated", incident
        self._seen[snapshot.fabric] = now


def _essence(incident: Incident) -> tuple[Any, ...]:
    """What makes news."""
    return (
        incident.kind,
        incident.reason,
        incident.verdict,
        incident.severity,
        incident.state,
        incident.maintenance,
        incident.cause and (incident.cause.device, incident.cause.port),
        frozenset((victim.device, victim.port) for victim in incident.victims),
    )
