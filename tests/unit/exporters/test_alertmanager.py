"""exporters/alertmanager: which alerts are handed over when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.snapshots import make_frame, make_incident, make_snapshot, make_table

from fabricmon.model.incident import Severity
from fabricmon.testing import check_exporter
from fabricmon_exporters.alertmanager import AlertmanagerConfig, AlertmanagerExporter

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.model.incident import Incident
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.testing import ManualClock


def exporter(context: Context, **more: Any) -> AlertmanagerExporter:
    """One that is not started: what it would send is looked at."""
    config = AlertmanagerConfig(urls=["http://127.0.0.1:1"], resend=60.0, **more)
    return AlertmanagerExporter(config, context)


def tick(*incidents: Incident) -> Snapshot:
    """A snapshot with these incidents."""
    return make_snapshot(make_table([("leaf1", "Ethernet1")]), make_frame(1), incidents=incidents)


def due(one: AlertmanagerExporter) -> list[tuple[str, str, str]]:
    """(alert, severity, end) of what waits to be sent, which is taken."""
    taken, one._due = one._due, []
    return [(a["labels"]["alertname"], a["labels"]["severity"], a["endsAt"]) for a in taken]


async def test_an_alert_is_fired_repeated_and_resolved(
    context: Context, clock: ManualClock
) -> None:
    """At once, then once a minute with a later end, and at the end with the end that was."""
    one, incident = exporter(context), make_incident()
    one.publish(tick(incident))
    ((name, severity, first_end),) = due(one)
    assert (name, severity) == ("FabricmonSlowReceiver", "warning")
    await clock.advance(30)
    one.publish(tick(incident))
    assert due(one) == []
    await clock.advance(30)
    one.publish(tick(incident))
    ((_, _, second_end),) = due(one)
    assert second_end > first_end > "2023-11-14T22:17"
    await clock.advance(10)
    one.publish(tick())
    assert [end[:19] for _, _, end in due(one)] == ["2023-11-14T22:14:30"]
    one.publish(tick())
    assert due(one) == []


async def test_a_change_of_severity_ends_the_old_alert(
    context: Context, clock: ManualClock
) -> None:
    """Labels are the identity of an alert, so another severity is another alert."""
    one, incident = exporter(context), make_incident()
    one.publish(tick(incident))
    (old,) = due(one)
    await clock.advance(5)
    one.publish(tick(replace(incident, severity=Severity.SEVERE)))
    ended, fired = due(one)
    assert (ended[1], fired[1]) == ("warning", "critical")
    assert ended[2] < old[2] < fired[2]


def test_maintenance_and_mild_incidents_fire_none(context: Context) -> None:
    """What is declared and what is below the limit stays silent, and ends what fired."""
    one = exporter(context, severity="moderate")
    one.publish(tick(make_incident(severity=Severity.MILD)))
    assert due(one) == []
    incident = make_incident()
    one.publish(tick(incident))
    assert len(due(one)) == 1
    one.publish(tick(replace(incident, maintenance=True)))
    ((_, _, end),) = due(one)
    assert end.startswith("2023-11-14T22:13:20")


def test_what_nobody_took_is_tried_again(context: Context) -> None:
    """An end that could not be sent is kept, beside what is newer."""
    one, incident = exporter(context), make_incident()
    one.publish(tick(incident))
    one.publish(tick())
    lost = one._due
    one._due = []
    one._again(lost)
    one.publish(tick())
    assert [end[:19] for _, _, end in due(one)] == ["2023-11-14T22:13:20"]


def test_a_fabric_that_goes_ends_its_alerts(context: Context) -> None:
    """Taken from the config, its alerts are resolved."""
    one = exporter(context)
    one.publish(tick(make_incident()))
    due(one)
    one.forget("pod1")
    assert len(due(one)) == 1


async def test_it_keeps_the_promises_of_an_exporter(context: Context) -> None:
    """Stop without start, twice, and start again."""
    await check_exporter(lambda: exporter(context))


def test_it_needs_to_be_told_where(context: Context) -> None:
    """There is no default address: the exporter is off unless it is configured."""
    del context
    with pytest.raises(ValueError, match="urls"):
        AlertmanagerConfig()  # type: ignore[call-arg] # that is the point
