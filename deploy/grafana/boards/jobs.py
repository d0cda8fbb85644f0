"""What the network takes from each job."""

from __future__ import annotations

from boards.parts import FABRIC, INCIDENTS, Dashboard, F, Panel, rate, top

_GPU = "fabricmon_job_stalled_gpu_seconds_total"
BOARD = Dashboard(
    "fabricmon-jobs",
    "fabricmon: job cost",
    "What the network takes from each job.",
    (FABRIC, ("job", "Job", f"label_values({_GPU}, job)")),
    (
        (
            "Jobs",
            (
                Panel(
                    "GPUs lost to the network",
                    ((top(rate(_GPU, F + ',job=~"$job"')), "{{job}}"),),
                    text="As if that many of the job's GPUs were switched off.",
                ),
                Panel(
                    "GPU time lost in the chosen time",
                    ((f'sum by (job) (increase({_GPU}{{{F},job=~"$job"}}[$__range]))', "{{job}}"),),
                    "table",
                ),
                Panel(
                    "Not sent, by incident",
                    ((top(f"fabricmon_incident_lost_bytes{{{F}}}"), "{{id}}"),),
                    unit="bytes",
                ),
                Panel("Incidents of now", ((INCIDENTS, ""),), "table"),
            ),
        ),
    ),
)
