"""Find plug-ins by entry point. Only what the config names is imported."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fabricmon.errors import PluginError

COLLECTORS = "fabricmon.collectors"
EXPORTERS = "fabricmon.exporters"
DETECTORS = "fabricmon.detectors"
RULES = "fabricmon.rules"


def kinds(group: str) -> list[str]:
    """Every kind that is installed in `group`, without importing any."""
    return sorted({point.name for point in entry_points(group=group)})


def find(group: str, kind: str) -> Any:
    """The class behind `kind`. Raises `PluginError` for none, two, or one that does not load."""
    points = list(entry_points(group=group, name=kind))
    if not points:
        known = ", ".join(kinds(group)) or "none"
        raise PluginError(f"no {group.rpartition('.')[2][:-1]} is called {kind!r}; known: {known}")
    if len({point.value for point in points}) > 1:
        owners = " and ".join(sorted(_owner(point) for point in points))
        raise PluginError(f"{kind!r} in {group} is claimed by {owners}")
    try:
        return points[0].load()
    except (ImportError, AttributeError) as error:
        raise PluginError(f"{kind!r} from {_owner(points[0])} does not load: {error}") from error


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name if point.dist else 'unknown'} ({point.value})"
