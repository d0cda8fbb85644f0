"""Every metric of a port or a queue: name, help, group, and how its values are found.

The order is the order of worth: a page without `collect[]` carries the first ten series that a
port has. The fixed names of the project stay for ever; more may be added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabricmon.model.counters import BY_ID, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon_exporters.prometheus.samples import Samples, Values

    Read = Callable[[Values], Samples | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """What the page says of a metric before its lines."""

    name: str
    type: str
    help: str
    group: str
    """A word that `collect[]` takes."""


@dataclass(frozen=True, slots=True)
class Family(Metric):
    """A metric of ports or queues. `read` gives its samples of one tick, None where it has none."""

    scope: Scope
    read: Read
    extra_labels: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Label names, as printed."""
        own = ("queue",) if self.scope is Scope.QUEUE else ()
        return tuple(sorted(("device", "fabric", "port", *own, *self.extra_labels)))


def _counter(name: str, counter: str, group: str, help_: str = "") -> Family:
    """A count as it is."""
    source = BY_ID[counter]
    full = f"fabricmon_{source.scope.value}_{name}_total"
    return Family(
        full,
        "counter",
        f"{help_ or source.help} ({counter})",
        group,
        source.scope,
        lambda v: v.total(counter),
    )


def _seconds(name: str, counters: str, group: str, help_: str, scope: Scope) -> Family:
    """A time: from nanoseconds, or from device ticks where their length is known."""
    full = f"fabricmon_{scope.value}_{name}_seconds_total"
    return Family(full, "counter", help_, group, scope, lambda v: v.seconds(counters))


def _gauge(name: str, gauge: str, group: str, factor: float = 1.0) -> Family:
    """A level, in base units."""
    source = BY_ID[gauge]
    full = f"fabricmon_{source.scope.value}_{name}"
    return Family(
        full,
        "gauge",
        f"{source.help} ({gauge})",
        group,
        source.scope,
        lambda v: v.gauge(gauge, factor),
    )


def _ratio(name: str, ratio: str, help_: str, scope: Scope = Scope.PORT) -> Family:
    """A share of the last poll interval, 0..1."""
    full = f"fabricmon_{scope.value}_{name}_ratio"
    return Family(full, "gauge", help_, "ratio", scope, lambda v: v.ratio(ratio))


_P, _Q = Scope.PORT, Scope.QUEUE
_INFO_LABELS = ("peer_device", "peer_port", "role", "speed_bps", "technology")

FAMILIES: tuple[Family, ...] = (
    Family(
        "fabricmon_port_info",
        "gauge",
        "What is at the other end of the cable, and how fast the port runs; always 1",
        "info",
        _P,
        lambda v: v.ones(),
        _INFO_LABELS,
    ),
    _counter("receive_bytes", "rx_bytes", "traffic"),
    _counter("transmit_bytes", "tx_bytes", "traffic"),
    _ratio(
        "transmit_stall",
        "stall",
        "Share of the last poll interval in which the port had data and could not send",
    ),
    Family(
        "fabricmon_port_anomaly_score",
        "gauge",
        "How unlike its healthy self and its peers the port behaves, 0 to 1; higher is worse",
        "score",
        _P,
        lambda v: v.score(),
    ),
    _seconds(
        "transmit_wait",
        "wait",
        "wait",
        "Time with data waiting and nothing sent (tx_wait_ns or tx_wait_ticks)",
        _P,
    ),
    _counter("transmit_discards", "tx_discards", "loss"),
    _counter("receive_errors", "rx_errors", "loss"),
    _counter("receive_pfc_frames", "rx_pfc_frames", "pause"),
    _counter("transmit_pfc_frames", "tx_pfc_frames", "pause"),
    _counter("ecn_marked_packets", "ecn_marked_packets", "ecn"),
    _seconds(
        "receive_pfc_pause",
        "rx_pfc_ns",
        "pause",
        "Time the peer kept this priority of ours paused (rx_pfc_ns)",
        _Q,
    ),
    _seconds(
        "transmit_pfc_pause",
        "tx_pfc_ns",
        "pause",
        "Time we kept this priority of the peer paused (tx_pfc_ns)",
        _Q,
    ),
    _counter("receive_discards", "rx_discards", "loss"),
    _counter("transmit_errors", "tx_errors", "loss"),
    _counter("receive_packets", "rx_packets", "traffic"),
    _counter("transmit_packets", "tx_packets", "traffic"),
    # What follows is for `collect[]` on large fabrics, and fills the ten where there is room.
    _counter("receive_pause_frames", "rx_pause_frames", "pause"),
    _counter("transmit_pause_frames", "tx_pause_frames", "pause"),
    _counter("transmit_wait_ticks", "tx_wait_ticks", "wait"),
    _counter("head_of_queue_discards", "hoq_discards", "loss"),
    _counter("buffer_overruns", "buffer_overruns", "loss"),
    _counter("vl15_dropped", "vl15_dropped", "loss"),
    _counter("symbol_errors", "symbol_errors", "link"),
    _counter("receive_physical_errors", "rx_physical_errors", "link"),
    _counter("receive_malformed_packets", "rx_malformed", "link"),
    _counter("fec_corrected_codewords", "fec_corrected", "link"),
    _counter("fec_uncorrected_codewords", "fec_uncorrected", "link"),
    _counter("link_downed", "link_downed", "link"),
    _counter("link_recoveries", "link_recoveries", "link"),
    _gauge("up", "oper_up", "link"),
    _gauge("admin_up", "admin_up", "link"),
    _gauge("speed_bytes_per_second", "speed_bps", "link", 0.125),
    _gauge("effective_bit_error_ratio", "effective_ber", "link"),
    _gauge("pre_fec_bit_error_ratio", "pre_fec_ber", "link"),
    _gauge("module_temperature_celsius", "module_temperature_c", "link"),
    _gauge("receive_power_dbm", "rx_power_dbm", "link"),
    _gauge("transmit_power_dbm", "tx_power_dbm", "link"),
    _gauge("pfc_enabled", "pfc_enabled", "link"),
    _gauge("peer_pfc_enabled", "peer_pfc_enabled", "link"),
    _counter("cnp_sent", "cnp_sent", "host"),
    _counter("cnp_handled", "cnp_handled", "host"),
    _counter("ecn_marked_received_packets", "ecn_marked_received", "host"),
    _counter("out_of_sequence_packets", "out_of_sequence", "host"),
    _counter("ack_timeouts", "ack_timeouts", "host"),
    _counter("retransmits", "retransmits", "host"),
    _counter("receiver_not_ready", "rnr_naks", "host"),
    _counter("receive_buffer_discards", "rx_buffer_discards", "host"),
    _counter("slow_restarts", "slow_restarts", "host"),
    _counter("transmit_congested_ticks", "tx_congested_ticks", "host"),
    _gauge("nvlink_receive_bytes_per_second", "nvlink_rx_bps", "host", 0.125),
    _gauge("nvlink_transmit_bytes_per_second", "nvlink_tx_bps", "host", 0.125),
    _ratio("pressure", "press", "Share of the last poll interval in which we kept the peer paused"),
    _ratio(
        "transmit_use", "tx_use", "Bytes sent in the last poll interval over what the link carries"
    ),
    _ratio(
        "receive_use",
        "rx_use",
        "Bytes received in the last poll interval over what the link carries",
    ),
    _ratio(
        "transmit_stall_low", "stall_low", "Lower bound of the stall ratio where it is an estimate"
    ),
    _ratio(
        "transmit_stall_high",
        "stall_high",
        "Upper bound of the stall ratio where it is an estimate",
    ),
    _ratio("transmit_stall", "queue_stall", "Stall ratio of one queue", _Q),
    _ratio("pressure", "queue_press", "Pressure ratio of one queue", _Q),
    _counter("transmit_bytes", "queue_tx_bytes", "queue"),
    _counter("discards", "queue_discards", "queue"),
    _seconds(
        "transmit_wait",
        "queue_wait",
        "queue",
        "Time this VL had data waiting and nothing sent (queue_tx_wait_ticks)",
        _Q,
    ),
    _counter("transmit_wait_ticks", "queue_tx_wait_ticks", "queue"),
    _counter("pfc_watchdog_storms", "pfc_watchdog_storms", "queue"),
    _counter("pfc_watchdog_restores", "pfc_watchdog_restores", "queue"),
    _gauge("depth_bytes", "queue_depth_bytes", "queue"),
    _gauge("depth_peak_bytes", "queue_depth_peak_bytes", "queue"),
    _gauge("headroom_bytes", "headroom_bytes", "queue"),
    _gauge("headroom_peak_bytes", "headroom_peak_bytes", "queue"),
    _gauge("no_drop", "no_drop", "queue"),
    _gauge("xoff_bytes", "xoff_bytes", "queue"),
    _gauge("xon_bytes", "xon_bytes", "queue"),
)

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(family.group for family in FAMILIES))
"""What `collect[]` takes besides names of metrics, `all`, and the small groups."""
