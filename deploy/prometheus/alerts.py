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
        "FabricmonClusterAway",
        "fabricmon_cluster_connected == 0",
        "5m",
        "warning",
        "{{ $labels.instance }} does not reach the NATS server of cluster {{ $labels.cluster }}",
        "The worker polls into memory; nothing of it is judged or exported meanwhile.",
        "The log has the error (`cluster_away`, `cluster_refused`); "
        "`fabricmon_cluster_spool_messages` is what waits.",
        "NATS itself, the way there, credentials. What was polled is sent when it is back.",
    ),
    Alert(
        "FabricmonClusterLeaderless",
        "max by (fabric) (fabricmon_cluster_leading) == 0",
        "2m",
        "critical",
        "No worker leads {{ $labels.fabric }}",
        "Nobody judges the fabric: it is polled, but incidents are neither found nor exported.",
        "`fabricmon_cluster_connected`, `fabricmon_cluster_members` and "
        "`fabricmon_cluster_log_lag_messages` of every worker.",
        "NATS, if it is away. A worker that joins leads once it has read the log.",
    ),
    Alert(
        "FabricmonClusterNoStandby",
        "sum by (fabric) (fabricmon_cluster_current) < 2",
        "15m",
        "warning",
        "Nobody could follow the leader of {{ $labels.fabric }}",
        "One worker has read the fabric's log; when it dies, the next has to read it first.",
        "`fabricmon_cluster_current` by worker, and `fabricmon_cluster_log_lag_messages`.",
        "Start the workers that are missing. One that never gets current lacks CPU or memory.",
    ),
    Alert(
        "FabricmonClusterBehind",
        "min_over_time(fabricmon_cluster_log_lag_messages[10m]) > 1000",
        "0m",
        "warning",
        "{{ $labels.instance }} is {{ $value | humanize }} messages of {{ $labels.fabric }} behind",
        "A judge reads the log slower than it is written: incidents come late.",
        "`fabricmon_tick_stage_duration_seconds` and the CPU of that worker.",
        "Give it a core more, poll less often, or make several fabrics of the one.",
    ),
    Alert(
        "FabricmonClusterDropped",
        'increase(fabricmon_cluster_messages_total{outcome="dropped"}[10m]) > 0',
        "0m",
        "warning",
        "{{ $labels.instance }} drops what it polled",
        "NATS was away for longer than `cluster.buffer` holds, or a message is larger than the "
        "server takes. The oldest polls are lost.",
        "`fabricmon_cluster_connected`, and `max_payload` of the server.",
        "Bring NATS back; raise `cluster.buffer` or the server's `max_payload`.",
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
