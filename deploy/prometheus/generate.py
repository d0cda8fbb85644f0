"""Write recording and alerting rules, their unit tests and the runbook pages.

    python deploy/prometheus/generate.py           write the files
    python deploy/prometheus/generate.py --check   exit 1 if a file is not what would be written

What an incident is and what to do about it has one place, the rule's own file in
`fabricmon/diagnose/rules`; alerts and runbooks are made from it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from alerts import OWN, Alert
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO

from fabricmon.diagnose.rules import catalogue
from fabricmon.model.incident import IncidentKind

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNBOOKS = ROOT / "docs" / "runbooks"
_NOTE = "# Written by deploy/prometheus/generate.py; change that, or the rule it describes.\n"
_SEVERITY = (
    '{{ if eq $labels.severity "severe" }}critical'
    '{{ else if eq $labels.severity "moderate" }}warning{{ else }}info{{ end }}'
)
_PLACE = (
    "{{ if $labels.device }} at {{ $labels.device }}{{ end }}"
    "{{ if $labels.port }} [{{ $labels.port }}]{{ end }}"
)
"""A cause may be a whole device, or not known at all."""
_LABELS = ("device", "fabric", "id", "kind", "port", "severity", "verdict")

RECORDING = (
    ("fabric:fabricmon_port_transmit_stall_ratio:max", "max by (fabric) ({})", "stall"),
    ("device:fabricmon_port_transmit_stall_ratio:max", "max by (fabric, device) ({})", "stall"),
    ("fabric:fabricmon_ports_stalled:count", "count by (fabric) ({} > 0.02)", "stall"),
    ("fabric:fabricmon_port_receive_bytes:rate5m", "sum by (fabric) (rate({}[5m]))", "rx"),
    ("device:fabricmon_port_receive_bytes:rate5m", "sum by (fabric, device) (rate({}[5m]))", "rx"),
    ("device:fabricmon_port_transmit_bytes:rate5m", "sum by (fabric, device) (rate({}[5m]))", "tx"),
    ("device:fabricmon_port_discards:rate5m", "sum by (fabric, device) (rate({}[5m]))", "drops"),
    ("job:fabricmon_job_stalled_gpu_seconds:rate5m", "sum by (fabric, job) (rate({}[5m]))", "job"),
    ("fabric:fabricmon_incidents_active:count", "count by (fabric, kind) ({})", "incidents"),
    ("fabric:fabricmon_target_up:avg", "avg by (fabric) ({})", "targets"),
)
_SOURCES = {
    "stall": "fabricmon_port_transmit_stall_ratio",
    "rx": "fabricmon_port_receive_bytes_total",
    "tx": "fabricmon_port_transmit_bytes_total",
    "drops": "fabricmon_port_transmit_discards_total",
    "job": "fabricmon_job_stalled_gpu_seconds_total",
    "incidents": "fabricmon_incident_active",
    "targets": "fabricmon_target_up",
}


def alert_name(kind: str) -> str:
    """`slow-receiver` -> `FabricmonSlowReceiver`."""
    return "Fabricmon" + "".join(word.capitalize() for word in kind.split("-"))


def recording_rules() -> dict[str, Any]:
    """Sums and maxima that dashboards ask for all the time."""
    rules = [
        {"record": name, "expr": expr.format(_SOURCES[source])} for name, expr, source in RECORDING
    ]
    return {"groups": [{"name": "fabricmon-recording", "rules": rules}]}


def _incident_expr(kind: str) -> str:
    return (
        f'fabricmon_incident_active{{kind="{kind}"}}'
        " unless on (fabric, id) fabricmon_incident_maintenance"
    )


def _incident_rule(kind: str) -> dict[str, Any]:
    rule = catalogue()[kind]
    return {
        "alert": alert_name(kind),
        "expr": _incident_expr(kind),
        "labels": {"severity": _SEVERITY},
        "annotations": {
            "summary": kind + _PLACE,
            "description": f"{rule.signature} {rule.advice}",
            "runbook_url": f"docs/runbooks/{alert_name(kind)}.md",
        },
    }


def _own_rule(alert: Alert) -> dict[str, Any]:
    hold = {} if alert.hold == "0m" else {"for": alert.hold}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **hold,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": f"{alert.meaning} {alert.do}",
            "runbook_url": f"docs/runbooks/{alert.name}.md",
        },
    }


def alerting_rules() -> dict[str, Any]:
    """One alert for each kind of incident, and those about fabricmon itself."""
    incidents = [_incident_rule(kind.value) for kind in IncidentKind]
    own = [_own_rule(alert) for alert in OWN]
    return {
        "groups": [
            {"name": "fabricmon-incidents", "rules": incidents},
            {"name": "fabricmon", "rules": own},
        ]
    }


# --- unit tests of the rules ---------------------------------------------------------------------


def _series(kind: str, severity: str, name: str = "fabricmon_incident_active") -> str:
    values = {
        "device": "leaf1",
        "fabric": "pod1",
        "id": "0123",
        "kind": kind,
        "port": "Ethernet1",
        "severity": severity,
        "verdict": "fabric",
    }
    return name + "{" + ",".join(f'{key}="{values[key]}"' for key in _LABELS) + "}"


def _incident_test(kind: str) -> dict[str, Any]:
    rule = _incident_rule(kind)
    expected = {
        "exp_labels": {
            "device": "leaf1",
            "fabric": "pod1",
            "id": "0123",
            "kind": kind,
            "port": "Ethernet1",
            "severity": "critical",
            "verdict": "fabric",
        },
        "exp_annotations": {
            **rule["annotations"],
            "summary": f"{kind} at leaf1 [Ethernet1]",
        },
    }
    return {
        "name": f"{kind} fires while it is active, and not under maintenance",
        "interval": "1m",
        "input_series": [
            {"series": _series(kind, "severe"), "values": "_ _ 1x3 _x10 1x10"},
            {
                "series": 'fabricmon_incident_maintenance{fabric="pod1",id="0123"}',
                "values": "_x15 1x10",
            },
        ],
        "alert_rule_test": [
            {"eval_time": "1m", "alertname": alert_name(kind)},
            {"eval_time": "3m", "alertname": alert_name(kind), "exp_alerts": [expected]},
            {"eval_time": "19m", "alertname": alert_name(kind)},
        ],
    }


HEALTHY = (
    ('up{job="fabricmon",instance="mon1"}', "1x40"),
    ('fabricmon_target_up{collector="snmp",fabric="pod1",target="leaf1"}', "1x40"),
    ('fabricmon_config_last_reload_successful{instance="mon1"}', "1x40"),
    ('fabricmon_series_dropped_total{instance="mon1",reason="ceiling"}', "0x40"),
    ('fabricmon_detector_last_run_timestamp_seconds{fabric="pod1"}', "0+60x40"),
    ('fabricmon_tick_lateness_seconds_bucket{instance="mon1",le="0.25"}', "0+6x40"),
    ('fabricmon_tick_lateness_seconds_bucket{instance="mon1",le="+Inf"}', "0+6x40"),
    ('fabricmon_self_events_total{event="export_failed",instance="mon1"}', "3x40"),
    ('fabricmon_self_events_total{event="component_failed",instance="mon1"}', "0x40"),
    ('fabricmon_fabric_values{fabric="pod1",state="ok"}', "990x40"),
    ('fabricmon_fabric_values{fabric="pod1",state="saturated"}', "10x40"),
    ('fabricmon_job_stalled_gpu_seconds_total{fabric="pod1",job="llm-1"}', "0+6x40"),
    (_series("incast", "mild", "fabricmon_other"), "1x40"),
    ('fabricmon_cluster_connected{cluster="fabricmon",instance="mon1"}', "1x40"),
    ('fabricmon_cluster_leading{fabric="pod1",instance="mon1"}', "1x40"),
    ('fabricmon_cluster_current{fabric="pod1",instance="mon1"}', "1x40"),
    ('fabricmon_cluster_current{fabric="pod1",instance="mon2"}', "1x40"),
    ('fabricmon_cluster_log_lag_messages{fabric="pod1",instance="mon1"}', "0x40"),
    ('fabricmon_cluster_messages_total{instance="mon1",outcome="dropped"}', "3x40"),
)
"""What a healthy daemon shows; each alert of its own is tested by changing one line of it."""

_SICK: dict[str, tuple[int, str, str]] = {
    "FabricmonDown": (0, "0x40", "fabricmon at mon1 does not answer"),
    "FabricmonTargetDown": (1, "0x40", "leaf1 does not answer snmp"),
    "FabricmonManyTargetsDown": (1, "0x40", "100% of the targets of pod1 do not answer"),
    "FabricmonConfigReloadFailed": (2, "0x40", "fabricmon at mon1 refused its config"),
    "FabricmonSeriesDropped": (3, "0+5x40", "fabricmon at mon1 drops series (ceiling)"),
    "FabricmonDetectorStopped": (4, "0x40", "The detector of pod1 has not run for 35m 0s"),
    "FabricmonTickLate": (5, "0x40", "fabricmon at mon1 cannot keep its interval"),
    "FabricmonExportFailing": (
        7,
        "0+1x40",
        "fabricmon at mon1 loses what it exports (export_failed)",
    ),
    "FabricmonComponentFailed": (
        8,
        "0+1x40",
        "A part of fabricmon at mon1 raised an error it should not",
    ),
    "FabricmonValuesUnknown": (10, "200x40", "16.81% of the values of pod1 say nothing"),
    "FabricmonClusterAway": (
        13,
        "0x40",
        "mon1 does not reach the NATS server of cluster fabricmon",
    ),
    "FabricmonClusterLeaderless": (14, "0x40", "No worker leads pod1"),
    "FabricmonClusterNoStandby": (16, "0x40", "Nobody could follow the leader of pod1"),
    "FabricmonClusterBehind": (17, "2000x40", "mon1 is 2k messages of pod1 behind"),
    "FabricmonClusterDropped": (18, "0+1x40", "mon1 drops what it polled"),
    "FabricmonJobStalled": (11, "0+960x40", "llm-1 loses the time of 16 GPUs to the network"),
}
_LATE = ('fabricmon_tick_lateness_seconds_bucket{instance="mon1",le="2.5"}', "0+6x40")


def _own_test(alert: Alert) -> dict[str, Any]:
    row, values, summary = _SICK[alert.name]
    lines = [(name, values if i == row else healthy) for i, (name, healthy) in enumerate(HEALTHY)]
    if alert.name == "FabricmonTickLate":
        lines.append(_LATE)
    labels = _labels_of(alert, HEALTHY[row][0])
    rule = _own_rule(alert)
    return {
        "name": f"{alert.name} fires when it should",
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in lines],
        "alert_rule_test": [
            {
                "eval_time": "35m",
                "alertname": alert.name,
                "exp_alerts": [
                    {
                        "exp_labels": {**labels, "severity": alert.severity},
                        "exp_annotations": {**rule["annotations"], "summary": summary},
                    }
                ],
            }
        ],
    }


def _labels_of(alert: Alert, series: str) -> dict[str, str]:
    """The labels that the alert's expression leaves of its series."""
    inside = series.partition("{")[2].rstrip("}")
    labels = dict(part.replace('"', "").split("=") for part in inside.split(","))
    if " by (fabric)" in alert.expr:
        return {"fabric": labels["fabric"]}
    labels.pop("le", None)
    return labels


def rule_tests() -> dict[str, Any]:
    """For `promtool test rules`."""
    silent = {
        "name": "a healthy daemon fires nothing",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in HEALTHY],
        "alert_rule_test": [
            {"eval_time": "35m", "alertname": name}
            for name in [
                *(alert_name(kind.value) for kind in IncidentKind),
                *(alert.name for alert in OWN),
            ]
        ],
    }
    return {
        "rule_files": ["recording.yml", "alerts.yml"],
        "evaluation_interval": "1m",
        "tests": [
            silent,
            *(_incident_test(kind.value) for kind in IncidentKind),
            *(_own_test(alert) for alert in OWN),
        ],
    }


# --- runbooks ------------------------------------------------------------------------------------


def _incident_page(kind: str) -> str:
    rule = catalogue()[kind]
    return f"""# {alert_name(kind)}

An incident of kind `{kind}` is active and not under declared maintenance.

## What it means

{rule.signature}

{rule.discriminator}

## Where to look

- The incident's page names cause, victims and evidence: `/#/incident/ID`, ID is the alert's label.
- `fabricmon report http://HOST:10077` prints the same in a terminal.
- `fabricmon_incident_victim_stall_ratio{{id="ID"}}` has the ports that are held back.
- `fabricmon explain {kind}` prints this page's facts offline.

## What to do

{rule.advice}

## What it cannot see

{rule.limits}

## Silence

Declare the work: on the page Incidents, by `POST /api/v1/maintenance`, or as `maintenance:` in the
config. The incident is kept and marked, and this alert does not fire.
"""


def _own_page(alert: Alert) -> str:
    return f"""# {alert.name}

`{alert.expr}`{f" for {alert.hold}" if alert.hold != "0m" else ""}, severity {alert.severity}.

## What it means

{alert.meaning}

## Where to look

{alert.look}

## What to do

{alert.do}
"""


def _index() -> str:
    rows = [
        *((alert_name(kind.value), f"incident `{kind.value}`") for kind in IncidentKind),
        *((alert.name, alert.meaning) for alert in OWN),
    ]
    lines = "\n".join(f"| [{name}]({name}.md) | {text} |" for name, text in rows)
    return f"# Runbooks\n\nOne page for each alert.\n\n| alert | about |\n|---|---|\n{lines}\n"


# --- files ---------------------------------------------------------------------------------------


def _yaml(data: dict[str, Any]) -> str:
    writer = YAML()
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    out = StringIO()
    writer.dump(data, out)
    text: str = out.getvalue()
    return _NOTE + text


def everything() -> dict[Path, str]:
    """Each file and its content."""
    pages = {RUNBOOKS / f"{alert.name}.md": _own_page(alert) for alert in OWN}
    for kind in IncidentKind:
        pages[RUNBOOKS / f"{alert_name(kind.value)}.md"] = _incident_page(kind.value)
    return {
        HERE / "recording.yml": _yaml(recording_rules()),
        HERE / "alerts.yml": _yaml(alerting_rules()),
        HERE / "tests.yml": _yaml(rule_tests()),
        RUNBOOKS / "README.md": _index(),
        **pages,
    }


def main(arguments: list[str]) -> int:
    """Write, or check that nothing would be written."""
    wrong = [
        path
        for path, text in everything().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if arguments == ["--check"]:
        for path in wrong:
            print(f"{path.relative_to(ROOT)} is out of date: run {Path(__file__).name}")  # noqa: T201
        return bool(wrong)
    RUNBOOKS.mkdir(parents=True, exist_ok=True)
    for path in wrong:
        path.write_text(everything()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
