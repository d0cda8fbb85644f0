"""The counter catalogue: the one list of what fabricmon knows how to count.

Direction is the port's own: `tx` leaves the port, `rx` enters it. `rx_pause`/`rx_pfc` means the
peer told *us* to stop (our egress suffers); `tx_pause`/`tx_pfc` means we told the peer (we press).
The ids are permanent: dumps, mappings and metrics use them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

NO_QUEUE = -1
"""The queue of a counter that is counted per port."""


class Scope(StrEnum):
    """Whether a counter is counted per port or per queue (priority or VL) of a port."""

    PORT = "port"
    QUEUE = "queue"


class Kind(StrEnum):
    """How a counter moves. A mapping row may say SATURATING where its source sticks at the top."""

    MONOTONIC = "monotonic"
    SATURATING = "saturating"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Counter:
    """One entry of the catalogue. `code` is its position there."""

    id: str
    unit: str
    scope: Scope
    kind: Kind
    help: str
    code: int = field(compare=False)

    @property
    def is_gauge(self) -> bool:
        """Whether the value is a level, not a count."""
        return self.kind is Kind.GAUGE


_M, _S, _G = Kind.MONOTONIC, Kind.SATURATING, Kind.GAUGE

_PORT = (
    ("rx_bytes", "bytes", _M, "Bytes received"),
    ("tx_bytes", "bytes", _M, "Bytes sent"),
    ("rx_packets", "packets", _M, "Packets received"),
    ("tx_packets", "packets", _M, "Packets sent"),
    ("rx_discards", "packets", _M, "Received packets discarded without being faulty"),
    ("tx_discards", "packets", _M, "Packets discarded instead of being sent"),
    ("rx_errors", "packets", _M, "Received packets that were faulty"),
    ("tx_errors", "packets", _M, "Packets that could not be sent because of errors"),
    ("symbol_errors", "events", _M, "Physical symbol errors (not meaningful on links with FEC)"),
    ("fec_corrected", "codewords", _M, "FEC codewords or blocks that were corrected"),
    ("fec_uncorrected", "codewords", _M, "FEC codewords or blocks that could not be corrected"),
    ("link_downed", "events", _M, "Times the link went down"),
    ("link_recoveries", "events", _M, "Times the link retrained without going down"),
    ("tx_wait_ns", "ns", _M, "Time with data waiting and nothing sent"),
    ("tx_wait_ticks", "ticks", _S, "Device ticks with data waiting and nothing sent"),
    ("hoq_discards", "packets", _M, "Packets dropped at the head of a queue after their lifetime"),
    ("rx_pause_frames", "frames", _M, "Global (802.3x) pause frames received"),
    ("tx_pause_frames", "frames", _M, "Global (802.3x) pause frames sent"),
    ("buffer_overruns", "events", _M, "Receive buffer overruns: the peer ignored flow control"),
    ("vl15_dropped", "packets", _S, "Management packets dropped for lack of buffers"),
    ("cnp_sent", "packets", _M, "Congestion notifications sent by this NIC (it saw ECN marks)"),
    ("cnp_handled", "packets", _M, "Congestion notifications this NIC slowed down for"),
    ("ecn_marked_received", "packets", _M, "RoCE packets received with ECN congestion marks"),
    ("out_of_sequence", "packets", _M, "RoCE packets that arrived out of sequence"),
    ("ack_timeouts", "events", _M, "RoCE acknowledgement time-outs"),
    ("retransmits", "packets", _M, "RoCE packets sent again"),
    ("rnr_naks", "events", _M, "Receiver-not-ready answers: the application posted no buffers"),
    ("rx_buffer_discards", "packets", _M, "Received packets dropped for lack of host buffers"),
    ("slow_restarts", "events", _M, "Times this NIC began to send slowly again after a pause"),
    ("rx_physical_errors", "packets", _M, "Received packets with errors of this link's own making"),
    ("rx_malformed", "packets", _M, "Received packets that were built wrongly by their sender"),
    ("tx_congested_ticks", "ticks", _S, "Device ticks this port was a source of congestion marks"),
    ("oper_up", "bool", _G, "1 while the link is up"),
    ("admin_up", "bool", _G, "1 while the port is enabled"),
    ("speed_bps", "bits per second", _G, "Effective data rate of the link"),
    ("effective_ber", "ratio", _G, "Bit error rate after FEC"),
    ("pre_fec_ber", "ratio", _G, "Bit error rate before FEC"),
    ("nvlink_rx_bps", "bits per second", _G, "Data received over NVLink by one GPU"),
    ("nvlink_tx_bps", "bits per second", _G, "Data sent over NVLink by one GPU"),
    ("module_temperature_c", "celsius", _G, "Temperature of the optical module"),
    ("rx_power_dbm", "dBm", _G, "Optical power received (the weakest lane)"),
    ("tx_power_dbm", "dBm", _G, "Optical power sent (the weakest lane)"),
    ("pfc_enabled", "bool", _G, "1 while priority flow control is in operation on the port"),
    ("peer_pfc_enabled", "bool", _G, "1 while the peer says that it is in operation there"),
)

_QUEUE = (
    ("rx_pfc_frames", "frames", _M, "PFC pause frames received for this priority"),
    ("tx_pfc_frames", "frames", _M, "PFC pause frames sent for this priority"),
    ("rx_pfc_ns", "ns", _M, "Time the peer kept this priority of ours paused"),
    ("tx_pfc_ns", "ns", _M, "Time we kept this priority of the peer paused"),
    ("ecn_marked_packets", "packets", _M, "Packets this queue marked with ECN congestion"),
    ("queue_tx_bytes", "bytes", _M, "Bytes sent from this queue"),
    ("queue_discards", "packets", _M, "Packets this queue dropped"),
    ("queue_tx_wait_ticks", "ticks", _S, "Device ticks this VL had data and could not send"),
    ("pfc_watchdog_storms", "events", _M, "Times the PFC watchdog found this queue stuck"),
    ("pfc_watchdog_restores", "events", _M, "Times the PFC watchdog restored this queue"),
    ("queue_depth_bytes", "bytes", _G, "Bytes standing in this queue"),
    ("queue_depth_peak_bytes", "bytes", _G, "Highest depth of this queue since the last reading"),
    ("headroom_bytes", "bytes", _G, "PFC headroom in use: what arrived after XOFF was sent"),
    ("headroom_peak_bytes", "bytes", _G, "Highest PFC headroom in use since that was cleared"),
    ("no_drop", "bool", _G, "1 where the device is set not to drop packets of this priority"),
    ("xoff_bytes", "bytes", _G, "Fill of the ingress buffer at which a pause is sent"),
    ("xon_bytes", "bytes", _G, "Fill of the ingress buffer at which the peer may go on"),
)


def _build() -> tuple[Counter, ...]:
    rows = [(*row, Scope.PORT) for row in _PORT] + [(*row, Scope.QUEUE) for row in _QUEUE]
    return tuple(
        Counter(id_, unit, scope, kind, text, code)
        for code, (id_, unit, kind, text, scope) in enumerate(rows)
    )


CATALOGUE: tuple[Counter, ...] = _build()
"""Every counter, port scope first; `CATALOGUE[c.code] is c`."""

BY_ID: dict[str, Counter] = {counter.id: counter for counter in CATALOGUE}
"""The catalogue by id."""
