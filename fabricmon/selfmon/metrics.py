"""fabricmon's own metrics, in a registry of its own; `prometheus_client` renders them."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from fabricmon import __version__

_POLL_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STAGE_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class SelfMetrics:
    """Every metric about fabricmon itself. One instance per daemon, never the global registry."""

    def __init__(self) -> None:
        """Register everything; nothing moves yet."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = reg = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=reg)
        GCCollector(registry=reg)
        self.build_info = Gauge(
            "fabricmon_build_info",
            "Version of fabricmon; always 1",
            ["version", "python"],
            registry=reg,
        )
        self.build_info.labels(__version__, platform.python_version()).set(1)
        self.events = Counter(
            "fabricmon_self_events",
            "Things that happened to fabricmon itself",
            ["event"],
            registry=reg,
        )
        self.log_lines_lost = Counter(
            "fabricmon_log_lines_lost", "Log lines that could not be written", registry=reg
        )
        self.polls = Counter(
            "fabricmon_polls", "Polls of targets begun", ["collector"], registry=reg
        )
        self.poll_failures = Counter(
            "fabricmon_poll_failures",
            "Polls that gave nothing",
            ["collector", "reason"],
            registry=reg,
        )
        self.rows_lost = Counter(
            "fabricmon_poll_rows_lost",
            "Rows, replies or records lost in polls that gave something",
            ["collector", "reason"],
            registry=reg,
        )
        self.replies_refused = Counter(
            "fabricmon_replies_refused",
            "Replies of devices that were not used, by what was wrong with them",
            ["collector", "reason"],
            registry=reg,
        )
        self.poll_duration = Histogram(
            "fabricmon_poll_duration_seconds",
            "Time to poll one target",
            ["collector"],
            buckets=_POLL_BUCKETS,
            registry=reg,
        )
        self.values = Counter(
            "fabricmon_values",
            "Values that were not plain, by what happened to them",
            ["fabric", "state"],
            registry=reg,
        )
        self.stage_duration = Histogram(
            "fabricmon_tick_stage_duration_seconds",
            "Time of one stage of a tick",
            ["fabric", "stage"],
            buckets=_STAGE_BUCKETS,
            registry=reg,
        )
        self.tick_lateness = Histogram(
            "fabricmon_tick_lateness_seconds",
            "How late a tick, or another job of the schedule, began",
            buckets=_STAGE_BUCKETS,
            registry=reg,
        )
        self.detector_learning = Gauge(
            "fabricmon_detector_learning",
            "1 while the detector has no calibrated model",
            ["fabric"],
            registry=reg,
        )
        self.detector_drift = Gauge(
            "fabricmon_detector_drift_ratio",
            "Share of healthy ports that stand out from what the detector learned",
            ["fabric", "ports"],
            registry=reg,
        )
        self.detector_last_run = Gauge(
            "fabricmon_detector_last_run_timestamp_seconds",
            "When the detector last ran",
            ["fabric"],
            registry=reg,
        )
        self.reload_ok = Gauge(
            "fabricmon_config_last_reload_successful",
            "1 if the last reload was accepted",
            registry=reg,
        )
        self.reload_time = Gauge(
            "fabricmon_config_last_reload_success_timestamp_seconds",
            "When the config was last accepted",
            registry=reg,
        )
        self._cluster(reg)
        self.ports = Gauge("fabricmon_ports", "Ports in the table", ["fabric"], registry=reg)
        self.series_dropped = Counter(
            "fabricmon_series_dropped", "Series that were not exposed", ["reason"], registry=reg
        )
        self.export_samples = Counter(
            "fabricmon_export_samples",
            "Samples handed to a remote receiver, by outcome (sent, refused, dropped)",
            ["exporter", "outcome"],
            registry=reg,
        )
        self.export_queue_bytes = Gauge(
            "fabricmon_export_queue_bytes",
            "What waits on disk to be sent",
            ["exporter"],
            registry=reg,
        )

    def _cluster(self, reg: CollectorRegistry) -> None:
        self.cluster_connected = Gauge(
            "fabricmon_cluster_connected",
            "1 while the cluster's server answers",
            ["cluster"],
            registry=reg,
        )
        self.cluster_members = Gauge(
            "fabricmon_cluster_members",
            "Workers that this one sees, itself included",
            ["cluster"],
            registry=reg,
        )
        self.cluster_shards = Gauge(
            "fabricmon_cluster_shards_held",
            "Shards that this worker polls",
            ["cluster"],
            registry=reg,
        )
        self.cluster_leading = Gauge(
            "fabricmon_cluster_leading",
            "1 where this worker leads the fabric: judges it and exports",
            ["fabric"],
            registry=reg,
        )
        self.cluster_current = Gauge(
            "fabricmon_cluster_current",
            "1 where this worker has read all of the fabric's log: it leads, or could",
            ["fabric"],
            registry=reg,
        )
        self.cluster_lag = Gauge(
            "fabricmon_cluster_log_lag_messages",
            "Messages of the log that this judge has not read yet",
            ["fabric"],
            registry=reg,
        )
        self.cluster_spool = Gauge(
            "fabricmon_cluster_spool_messages",
            "Messages that wait to be sent",
            ["cluster"],
            registry=reg,
        )
        self.cluster_messages = Counter(
            "fabricmon_cluster_messages",
            "Messages of the log, by what became of them here",
            ["outcome"],
            registry=reg,
        )
        self.cluster_takeovers = Counter(
            "fabricmon_cluster_takeovers",
            "Leases that this worker took (member, shard, standby, leader)",
            ["lease"],
            registry=reg,
        )
