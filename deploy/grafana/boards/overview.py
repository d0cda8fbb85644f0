"""Is the network guilty, and where."""

from __future__ import annotations

from boards.parts import FABRIC, INCIDENTS, STALL, WHERE, Dashboard, F, Panel, number, rate, top

BOARD = Dashboard(
    "fabricmon-overview",
    "fabricmon: fabric overview",
    "Is the network guilty, and where. Start here.",
    (FABRIC,),
    (
        (
            "Now",
            (
                number("Incidents", f"count({INCIDENTS}) or vector(0)"),
                number("Worst stall", f"max({STALL}{{{F}}})", "percentunit"),
                number("Ports held back > 2 %", f"count({STALL}{{{F}}} > 0.02) or vector(0)"),
                number("Ports silent", f"sum(fabricmon_fabric_ports{{{F}, state='silent'}})"),
                number("Targets up", f"avg(fabricmon_target_up{{{F}}})", "percentunit"),
                number(
                    "GPUs lost to the network",
                    f"sum({rate('fabricmon_job_stalled_gpu_seconds_total', F)})",
                ),
            ),
        ),
        (
            "Incidents",
            (
                Panel("Active", ((INCIDENTS, ""),), "table", width=24),
                Panel(
                    "Opened, by kind",
                    (
                        (
                            (
                                f"sum by (kind) (increase(fabricmon_incidents_opened_total{{{F}}}"
                                "[$__rate_interval]))"
                            ),
                            "{{kind}}",
                        ),
                    ),
                ),
                Panel(
                    "Ports held back",
                    ((f"count by (fabric) ({STALL}{{{F}}} > 0.02) or vector(0)", "{{fabric}}"),),
                ),
            ),
        ),
        (
            "Pressure and traffic",
            (
                Panel(
                    "Ports that wait most",
                    ((top(f"{STALL}{{{F}}}"), WHERE),),
                    unit="percentunit",
                    text="Share of the poll interval with data waiting and nothing sent.",
                    top=1.0,
                ),
                Panel(
                    "Highest anomaly scores",
                    ((top(f"fabricmon_port_anomaly_score{{{F}}}"), WHERE),),
                    top=1.0,
                ),
                Panel(
                    "Traffic",
                    (
                        (
                            f"sum by (fabric) ({rate('fabricmon_port_transmit_bytes_total', F)})",
                            "{{fabric}}",
                        ),
                    ),
                    unit="Bps",
                ),
                Panel(
                    "Discards",
                    ((top(rate("fabricmon_port_transmit_discards_total", F)), WHERE),),
                    unit="pps",
                ),
            ),
        ),
    ),
)
