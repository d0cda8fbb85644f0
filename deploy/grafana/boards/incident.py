"""One incident, its pressure tree and its cost."""

from __future__ import annotations

from boards.parts import FABRIC, WHERE, Dashboard, F, Panel, number, top

_ID = F + ',id=~"$id"'
_VICTIM = f"fabricmon_incident_victim_stall_ratio{{{_ID}}}"
_EDGE = (
    f"max by (device, peer_device) ({_VICTIM}"
    " * on (fabric, device, port) group_left (peer_device) fabricmon_port_info)"
)
_EDGES = (
    f'label_join(label_join(label_join({_EDGE}, "source", "", "device"),'
    ' "target", "", "peer_device"), "id", " > ", "device", "peer_device")'
)
_NODES = (
    f'label_join(label_join(max by (device) ({_VICTIM}), "id", "", "device"),'
    ' "title", "", "device")'
    f' or label_join(label_join(max by (peer_device) ({_EDGE}), "id", "", "peer_device"),'
    ' "title", "", "peer_device")'
)
BOARD = Dashboard(
    "fabricmon-incident",
    "fabricmon: incident",
    "One incident: its cause, its pressure tree, what it costs.",
    (FABRIC, ("id", "Incident", "label_values(fabricmon_incident_active, id)")),
    (
        (
            "What",
            (
                Panel(
                    "Cause and verdict",
                    ((f"fabricmon_incident_active{{{_ID}}}", ""),),
                    "table",
                    width=16,
                    height=6,
                ),
                number(
                    "Confidence",
                    f"max(fabricmon_incident_confidence_ratio{{{_ID}}})",
                    "percentunit",
                ),
                number("Victims", f"max(fabricmon_incident_victims{{{_ID}}})"),
                number("Not sent", f"max(fabricmon_incident_lost_bytes{{{_ID}}})", "bytes"),
                number(
                    "Running for",
                    f"time() - min(fabricmon_incident_start_timestamp_seconds{{{_ID}}})",
                    "s",
                ),
            ),
        ),
        (
            "Who suffers",
            (
                Panel(
                    "Pressure tree",
                    ((_EDGES, ""), (_NODES, "")),
                    "graph",
                    text="An arrow points from a device that waits to the one it waits for.",
                    height=14,
                ),
                Panel(
                    "Victims",
                    ((top(_VICTIM, 20), WHERE),),
                    unit="percentunit",
                    height=14,
                    top=1.0,
                ),
                Panel(
                    "More about it", ((f"fabricmon_incident_info{{{_ID}}}", ""),), "table", width=24
                ),
            ),
        ),
    ),
)
