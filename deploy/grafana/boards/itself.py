"""The monitor itself."""

from __future__ import annotations

from boards.parts import Dashboard, Panel

_JOB = 'job=~"fabricmon.*"'
BOARD = Dashboard(
    "fabricmon-self",
    "fabricmon: itself",
    "Does the monitor keep up, and what does it not see.",
    (),
    (
        (
            "Work",
            (
                Panel(
                    "Time of one tick's stages, 90th percentile",
                    (
                        (
                            (
                                "histogram_quantile(0.9, sum by (stage, le) (rate("
                                "fabricmon_tick_stage_duration_seconds_bucket[$__rate_interval])))"
                            ),
                            "{{stage}}",
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    "How late ticks begin, 90th percentile",
                    (
                        (
                            (
                                "histogram_quantile(0.9, sum by (instance, le) (rate("
                                "fabricmon_tick_lateness_seconds_bucket[$__rate_interval])))"
                            ),
                            "{{instance}}",
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    "CPU",
                    (
                        (
                            f"rate(process_cpu_seconds_total{{{_JOB}}}[$__rate_interval])",
                            "{{instance}}",
                        ),
                    ),
                    unit="percentunit",
                ),
                Panel(
                    "Memory",
                    ((f"process_resident_memory_bytes{{{_JOB}}}", "{{instance}}"),),
                    unit="bytes",
                ),
            ),
        ),
        (
            "What it sees",
            (
                Panel(
                    "Targets that do not answer",
                    (
                        (
                            "count by (fabric, collector) (fabricmon_target_up == 0) or vector(0)",
                            "{{fabric}} {{collector}}",
                        ),
                    ),
                ),
                Panel(
                    "Failed polls, by reason",
                    (
                        (
                            (
                                "sum by (collector, reason) "
                                "(rate(fabricmon_target_poll_failures_total[$__rate_interval]))"
                            ),
                            "{{collector}} {{reason}}",
                        ),
                    ),
                ),
                Panel(
                    "Values, by what is known of them",
                    (('sum by (state) (fabricmon_fabric_values{state!="ok"})', "{{state}}"),),
                ),
                Panel(
                    "Things that happened",
                    (
                        (
                            "sum by (event) (rate(fabricmon_self_events_total[$__rate_interval]))",
                            "{{event}}",
                        ),
                    ),
                ),
                Panel(
                    "Age of the oldest target's values",
                    (
                        (
                            (
                                "time() - min by (fabric) "
                                "(fabricmon_target_last_success_timestamp_seconds)"
                            ),
                            "{{fabric}}",
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    "Series dropped",
                    (("sum by (reason) (fabricmon_series_dropped_total)", "{{reason}}"),),
                ),
            ),
        ),
    ),
)
