"""One port with its queues."""

from __future__ import annotations

from boards.parts import FABRIC, MORE, QUEUE, STALL, WHERE, Dashboard, P, Panel, rate

BOARD = Dashboard(
    "fabricmon-port",
    "fabricmon: port and queues",
    "Everything about one port.",
    (
        FABRIC,
        ("device", "Device", 'label_values(fabricmon_port_info{fabric=~"$fabric"}, device)'),
        (
            "port",
            "Port",
            'label_values(fabricmon_port_info{fabric=~"$fabric",device=~"$device"}, port)',
        ),
    ),
    (
        (
            "Port",
            (
                Panel(
                    "What is at the other end",
                    ((f"fabricmon_port_info{{{P}}}", ""),),
                    "table",
                    width=24,
                    height=5,
                ),
                Panel(
                    "Traffic",
                    (
                        (rate("fabricmon_port_receive_bytes_total", P), f"received {WHERE}"),
                        (rate("fabricmon_port_transmit_bytes_total", P), f"sent {WHERE}"),
                    ),
                    unit="Bps",
                ),
                Panel(
                    "Held back, and pressing",
                    (
                        (f"{STALL}{{{P}}}", f"stall {WHERE}"),
                        (f"fabricmon_port_pressure_ratio{{{P}}}", f"pressure {WHERE}"),
                    ),
                    unit="percentunit",
                    text=MORE,
                    top=1.0,
                ),
                Panel(
                    "Loss and errors",
                    (
                        (rate("fabricmon_port_transmit_discards_total", P), f"discards {WHERE}"),
                        (rate("fabricmon_port_receive_errors_total", P), f"errors {WHERE}"),
                    ),
                    unit="pps",
                ),
                Panel("Anomaly score", ((f"fabricmon_port_anomaly_score{{{P}}}", WHERE),), top=1.0),
            ),
        ),
        (
            "Queues",
            (
                Panel(
                    "PFC frames",
                    (
                        (rate("fabricmon_queue_receive_pfc_frames_total", P), f"received {QUEUE}"),
                        (rate("fabricmon_queue_transmit_pfc_frames_total", P), f"sent {QUEUE}"),
                    ),
                    unit="pps",
                ),
                Panel(
                    "Paused by the peer",
                    ((rate("fabricmon_queue_receive_pfc_pause_seconds_total", P), QUEUE),),
                    unit="percentunit",
                    text=f"Share of the time. {MORE}",
                    top=1.0,
                ),
                Panel(
                    "ECN marks",
                    ((rate("fabricmon_queue_ecn_marked_packets_total", P), QUEUE),),
                    unit="pps",
                ),
                Panel(
                    "Depth",
                    ((f"fabricmon_queue_depth_bytes{{{P}}}", QUEUE),),
                    unit="bytes",
                    text=MORE,
                ),
            ),
        ),
    ),
)
