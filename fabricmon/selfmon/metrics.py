"""fabricmon's own metrics, in a registry of its own; `prometheus_client` renders them."""

from __future__ import annotations

import platform
from functools import partial

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
        self._counter = partial(Counter, registry=reg)
        self._gauge = partial(Gauge, registry=reg)
        self._histogram = partial(Histogram, registry=reg)
        self.build_info = self._gauge(
            "fabricmon_build_info", "Version of fabricmon; always 1", ["version", "python"]
        )
        self.build_info.labels(__version__, platform.python_version()).set(1)
        self.events = self._counter(
            "fabricmon_self_events", "Things that happened to fabricmon itself", ["event"]
        )
        self.log_lines_lost = self._counter(
            "fabricmon_log_lines_lost", "Log lines that could not be written"
        )
        self._polling()
        self._judging()
        self._configuring()
        self._clustering()
        self._publishing()

    def _polling(self) -> None:
        self.polls = self._counter("fabricmon_polls", "Polls of targets begun", ["collector"])
        self.poll_failures = self._counter(
            "fabricmon_poll_failures", "Polls that gave nothing", ["collector", "reason"]
        )
        self.rows_lost = self._counter(
            "fabricmon_poll_rows_lost",
            "Rows, replies or records lost in polls that gave something",
            ["collector", "reason"],
        )
        self.replies_refused = self._counter(
            "fabricmon_replies_refused",
            "Replies of devices that were not used, by what was wrong with them",
            ["collector", "reason"],
        )
        self.poll_duration = self._histogram(
            "fabricmon_poll_duration_seconds",
            "Time to poll one target",
            ["collector"],
            buckets=_POLL_BUCKETS,
        )
        self.values = self._counter(
            "fabricmon_values",
            "Values that were not plain, by what happened to them",
            ["fabric", "state"],
        )

    def _judging(self) -> None:
        self.stage_duration = self._histogram(
            "fabricmon_tick_stage_duration_seconds",
            "Time of one stage of a tick",
            ["fabric", "stage"],
            buckets=_STAGE_BUCKETS,
        )
        self.tick_lateness = self._histogram(
            "fabricmon_tick_lateness_seconds",
            "How late a tick, or another job of the schedule, began",
            buckets=_STAGE_BUCKETS,
        )
        self.detector_learning = self._gauge(
            "fabricmon_detector_learning",
            "1 while the detector has no calibrated model",
            ["fabric"],
        )
        self.detector_drift = self._gauge(
            "fabricmon_detector_drift_ratio",
            "Share of healthy ports that stand out from what the detector learned",
            ["fabric", "ports"],
        )
        self.detector_last_run = self._gauge(
            "fabricmon_detector_last_run_timestamp_seconds",
            "When the detector last ran",
            ["fabric"],
        )

    def _configuring(self) -> None:
        self.reload_ok = self._gauge(
            "fabricmon_config_last_reload_successful", "1 if the last reload was accepted"
        )
        self.reload_time = self._gauge(
            "fabricmon_config_last_reload_success_timestamp_seconds",
            "When the config was last accepted",
        )

    def _clustering(self) -> None:
        self.cluster_connected = self._gauge(
            "fabricmon_cluster_connected", "1 while the cluster's server answers", ["cluster"]
        )
        self.cluster_members = self._gauge(
            "fabricmon_cluster_members", "Workers that this one sees, itself included", ["cluster"]
        )
        self.cluster_shards = self._gauge(
            "fabricmon_cluster_shards_held", "Shards that this worker polls", ["cluster"]
        )
        self.cluster_leading = self._gauge(
            "fabricmon_cluster_leading",
            "1 where this worker leads the fabric: judges it and exports",
            ["fabric"],
        )
        self.cluster_current = self._gauge(
            "fabricmon_cluster_current",
            "1 where this worker has read all of the fabric's log: it leads, or could",
            ["fabric"],
        )
        self.cluster_lag = self._gauge(
            "fabricmon_cluster_log_lag_messages",
            "Messages of the log that this judge has not read yet",
            ["fabric"],
        )
        self.cluster_spool = self._gauge(
            "fabricmon_cluster_spool_messages", "Messages that wait to be sent", ["cluster"]
        )
        self.cluster_messages = self._counter(
            "fabricmon_cluster_messages",
            "Messages of the log, by what became of them here",
            ["outcome"],
        )
        self.cluster_takeovers = self._counter(
            "fabricmon_cluster_takeovers",
            "Leases that this worker took (member, shard, standby, leader)",
            ["lease"],
        )

    def _publishing(self) -> None:
        self.ports = self._gauge("fabricmon_ports", "Ports in the table", ["fabric"])
        self.series_dropped = self._counter(
            "fabricmon_series_dropped", "Series that were not exposed", ["reason"]
        )
        self.export_samples = self._counter(
            "fabricmon_export_samples",
            "Samples handed to a remote receiver, by outcome (sent, refused, dropped)",
            ["exporter", "outcome"],
        )
        self.export_queue_bytes = self._gauge(
            "fabricmon_export_queue_bytes", "What waits on disk to be sent", ["exporter"]
        )
