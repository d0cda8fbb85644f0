"""PFC and ECN."""

from __future__ import annotations

from boards.parts import FABRIC, MORE, QUEUE, ROCE, STALL, WHERE, Dashboard, F, Panel, rate, top

BOARD = Dashboard(
    "fabricmon-roce",
    "fabricmon: RoCE health",
    "PFC and ECN: who pauses whom, and whether both are set up.",
    (FABRIC,),
    (
        (
            "Pause",
            (
                Panel(
                    "Most PFC frames received: their egress waits",
                    ((top(rate("fabricmon_queue_receive_pfc_frames_total", F)), QUEUE),),
                    unit="pps",
                ),
                Panel(
                    "Most PFC frames sent: they press",
                    ((top(rate("fabricmon_queue_transmit_pfc_frames_total", F)), QUEUE),),
                    unit="pps",
                ),
                Panel(
                    "Stall ratio, Ethernet ports",
                    ((top(f"{STALL}{{{F}}} {ROCE}"), WHERE),),
                    unit="percentunit",
                    top=1.0,
                ),
                Panel(
                    "Longest paused",
                    ((top(rate("fabricmon_queue_receive_pfc_pause_seconds_total", F)), QUEUE),),
                    unit="percentunit",
                    text=f"Devices that count time. {MORE}",
                    top=1.0,
                ),
            ),
        ),
        (
            "Marks and loss",
            (
                Panel(
                    "ECN marks",
                    ((top(rate("fabricmon_queue_ecn_marked_packets_total", F)), QUEUE),),
                    unit="pps",
                ),
                Panel(
                    "Queues that pause without ever marking",
                    (
                        (
                            (
                                "count by (fabric, queue) ("
                                f"fabricmon_queue_transmit_pfc_frames_total{{{F}}} > 0 unless "
                                f"fabricmon_queue_ecn_marked_packets_total{{{F}}} > 0) or vector(0)"
                            ),
                            "{{fabric}} queue {{queue}}",
                        ),
                    ),
                    text="PFC works and ECN stays silent: is ECN set up there?",
                ),
                Panel(
                    "Discards in queues",
                    ((top(rate("fabricmon_queue_discards_total", F)), QUEUE),),
                    unit="pps",
                    text=MORE,
                ),
                Panel(
                    "PFC watchdog",
                    ((top(rate("fabricmon_queue_pfc_watchdog_storms_total", F)), QUEUE),),
                    text=MORE,
                ),
                Panel(
                    "Congestion notifications handled by NICs",
                    ((top(rate("fabricmon_port_cnp_handled_total", F)), WHERE),),
                    unit="pps",
                    text=MORE,
                ),
                Panel(
                    "Out of sequence at NICs",
                    ((top(rate("fabricmon_port_out_of_sequence_packets_total", F)), WHERE),),
                    unit="pps",
                    text=MORE,
                ),
            ),
        ),
    ),
)
