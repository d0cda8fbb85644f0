"""Credits, links and errors."""

from __future__ import annotations

from boards.parts import FABRIC, IB, MORE, STALL, WHERE, Dashboard, F, Panel, rate, top

BOARD = Dashboard(
    "fabricmon-infiniband",
    "fabricmon: InfiniBand health",
    "Credits, links and errors of InfiniBand fabrics.",
    (FABRIC,),
    (
        (
            "Waiting for credits",
            (
                Panel(
                    "Share of the time without credits",
                    ((top(f"{STALL}{{{F}}} {IB}"), WHERE),),
                    unit="percentunit",
                    top=1.0,
                ),
                Panel(
                    "Transmit wait",
                    ((top(rate("fabricmon_port_transmit_wait_seconds_total", F)), WHERE),),
                    unit="percentunit",
                    text="From ticks, where their length is known.",
                ),
                Panel(
                    "Packets dropped at the head of a queue",
                    ((top(rate("fabricmon_port_head_of_queue_discards_total", F)), WHERE),),
                    unit="pps",
                    text=MORE,
                ),
                Panel(
                    "Counters that stand at their maximum",
                    ((f'fabricmon_fabric_values{{{F},state="saturated"}}', "{{fabric}}"),),
                    text="InfiniBand counters stick there until somebody clears them.",
                ),
            ),
        ),
        (
            "Links",
            (
                Panel(
                    "Symbol errors",
                    ((top(rate("fabricmon_port_symbol_errors_total", F)), WHERE),),
                    text=MORE,
                ),
                Panel(
                    "Links that went down",
                    ((top(rate("fabricmon_port_link_downed_total", F)), WHERE),),
                    text=MORE,
                ),
                Panel(
                    "Uncorrected FEC codewords",
                    ((top(rate("fabricmon_port_fec_uncorrected_codewords_total", F)), WHERE),),
                    text=MORE,
                ),
                Panel(
                    "Warmest modules",
                    ((top(f"fabricmon_port_module_temperature_celsius{{{F}}}"), WHERE),),
                    unit="celsius",
                    text=MORE,
                ),
            ),
        ),
    ),
)
