"""The alerts about fabricmon itself and about jobs. Those about incidents are one per kind.

Each has its place to look and its remedy here; the rule file and the runbook page are written from
it by `generate.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `look` is a query or a page, `do` the remedy."""

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    meaning: str
    look: str
    do: str


OWN: tuple[Alert, ...] = (
    Alert(
        "FabricmonDown",
        'up{job="fabricmon"} == 0',
        "2m",
        "critical",
        "fabricmon at {{ $labels.instance }} does not answer",
        "Prometheus cannot scrape fabricmon. Nobody watches the fabric now.",
        "`systemctl status fabricmon`, `journalctl -u fabricmon`, and `/-/healthy` from the "
        "Prometheus host.",
        "Start it again. If the page is slow rather than gone, look at "
        "`scrape_duration_seconds` and split the page with `/metrics?shard=i/n`.",
    ),
    Alert(
        "FabricmonTargetDown",
        "fabricmon_target_up == 0",
        "5m",
        "warning",
        "{{ $labels.target }} does not answer {{ $labels.collector }}",
        "A device gave nothing for five minutes. Its ports' series end after three missed polls; "
        "incidents there cannot be seen.",
        "`fabricmon_target_poll_failures_total` says the reason, the page Targets the last error.",
        "`fabricmon doctor` tries it step by step: name, reach, credentials, and says what to fix.",
    ),
    Alert(
        "FabricmonManyTargetsDown",
        "count by (fabric) (fabricmon_target_up == 0)"
        " / count by (fabric) (fabricmon_target_up) > 0.1",
        "5m",
        "critical",
        "{{ $value | humanizePercentage }} of the targets of {{ $labels.fabric }} do not answer",
        "So many targets at once are seldom broken devices: the management network, the "
        "credentials or this machine are.",
        "`sum by (reason) (rate(fabricmon_poll_failures_total[5m]))`.",
        "All `timeout`: the way there. All `authentication`: the credentials were changed. "
        "Start with one target and `fabricmon doctor`.",
    ),
    Alert(
        "FabricmonConfigReloadFailed",
        "fabricmon_config_last_reload_successful == 0",
        "5m",
        "warning",
        "fabricmon at {{ $labels.instance }} refused its config",
        "The last reload was refused. The config from before goes on being used.",
        "The log names file, line and key.",
        "`fabricmon check -c FILE` says what is wrong without touching anything; then reload.",
    ),
    Alert(
        "FabricmonSeriesDropped",
        "increase(fabricmon_series_dropped_total[10m]) > 0",
        "0m",
        "warning",
        "fabricmon at {{ $labels.instance }} drops series ({{ $labels.reason }})",
        "There are more series than the ceiling allows. Some ports are not on the page.",
        '`fabricmon_ports`, `count({__name__=~"fabricmon_port_.*"})`.',
        "If the fabric grew, raise `exporters.prometheus.max_series`. If a device invents ports, "
        "find it: `topk(5, count by (device) (fabricmon_port_info))`.",
    ),
    Alert(
        "FabricmonDetectorStopped",
        "time() - fabricmon_detector_last_run_timestamp_seconds > 120",
        "1m",
        "critical",
        "The detector of {{ $labels.fabric }} has not run for {{ $value | humanizeDuration }}",
        "Metrics may still move, but nobody judges them: no incident will open.",
        "`fabricmon_tick_stage_duration_seconds`, `fabricmon_self_events_total{event="
        '"component_failed"}` and the log.',
        "Restart fabricmon and file the log.",
    ),
    Alert(
        "FabricmonTickLate",
        "histogram_quantile(0.9, sum by (instance, le) "
        "(rate(fabricmon_tick_lateness_seconds_bucket[10m]))) > 2",
        "10m",
        "warning",
        "fabricmon at {{ $labels.instance }} cannot keep its interval",
        "One tick in ten begins more than two seconds late: this machine is too slow for so many "
        "ports at this interval, or is short of CPU.",
        '`rate(process_cpu_seconds_total{job="fabricmon"}[5m])` and '
        "`fabricmon_tick_stage_duration_seconds`.",
        "Poll less often, give it a core more, or split the targets with `--shard i/n`.",
    ),
    Alert(
        "FabricmonExportFailing",
        "increase(fabricmon_self_events_total{event=~"
        '"export_failed|export_dropped|recording_failed|state_not_kept"}[10m]) > 0',
        "10m",
        "warning",
        "fabricmon at {{ $labels.instance }} loses what it exports ({{ $labels.event }})",
        "Something that should be delivered or written down (incidents, remote write, recordings, "
        "what was acknowledged) was not.",
        "The log names the exporter or file, and the error.",
        "Reach and credentials of the receiver, and free space where files are written.",
    ),
    Alert(
        "FabricmonComponentFailed",
        'increase(fabricmon_self_events_total{event="component_failed"}[10m]) > 0',
        "0m",
        "warning",
        "A part of fabricmon at {{ $labels.instance }} raised an error it should not",
        "A bug was caught at the border of a component; the rest goes on.",
        "The log has the error.",
        "Report it with the log line.",
    ),
    Alert(
        "FabricmonValuesUnknown",
        'sum by (fabric) (fabricmon_fabric_values{state=~"saturated|stale|over_rate"})'
        " / sum by (fabric) (fabricmon_fabric_values) > 0.05",
        "30m",
        "info",
        "{{ $value | humanizePercentage }} of the values of {{ $labels.fabric }} say nothing",
        "Counters stand at their maximum, come from a cache that has stopped, or claim more than "
        "a link can carry. What they count cannot be seen.",
        "`fabricmon_fabric_values` by state; the page Targets explains each.",
        "Saturated InfiniBand counters go on once somebody clears them (`perfquery -R`); fabricmon "
        "never does. Stale caches and impossible values are the device's: its software.",
    ),
    Alert(
        "FabricmonJobStalled",
        "rate(fabricmon_job_stalled_gpu_seconds_total[5m]) > 8",
        "5m",
        "warning",
        "{{ $labels.job }} loses the time of {{ $value | humanize }} GPUs to the network",
        "The job waits for the network as if that many of its GPUs were switched off.",
        "Incidents of that time name the job and the port; the dashboard Job cost has the sum.",
        "Follow the runbook of the incident that names the job.",
    ),
)
