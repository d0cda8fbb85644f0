"""What fabricmon counted of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabricmon.api import Context


def metric(context: Context, name: str, **labels: str) -> float:
    """One of its own metrics; 0 where there was nothing to count."""
    return context.report.metrics.registry.get_sample_value(name, labels) or 0.0


def events(context: Context, event: str) -> float:
    """How often an event was reported."""
    return metric(context, "fabricmon_self_events_total", event=event)
