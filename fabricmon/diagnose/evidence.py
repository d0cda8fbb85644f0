"""Makes a finding's evidence checkable by hand: the raw counters behind it, and where from."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.counters import BY_ID
from fabricmon.model.incident import Evidence
from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.incident import Finding

_BEHIND = {
    "stall": ("tx_wait_ns", "tx_wait_ticks", "rx_pfc_ns", "rx_pfc_frames", "rx_pause_frames"),
    "press": ("tx_pfc_ns", "tx_pfc_frames", "tx_pause_frames"),
    "tx_use": ("tx_bytes",),
    "rx_use": ("rx_bytes",),
    "rx_pause": ("rx_pfc_frames", "rx_pause_frames"),
    "tx_pause": ("tx_pfc_frames", "tx_pause_frames"),
    "ecn": ("ecn_marked_packets",),
    "drops": ("rx_discards", "tx_discards", "hoq_discards", "rx_buffer_discards"),
    "errors": ("rx_errors", "tx_errors", "symbol_errors", "fec_uncorrected"),
    "resent": ("out_of_sequence", "retransmits", "ack_timeouts"),
}
"""Counters a signal is made of, the one that is believed first in front."""


def complete(finding: Finding, view: FabricView) -> Finding:
    """The finding with sources, raw rates and its rows' largest detector score; no unknowns."""
    evidence: dict[tuple[str, str, str, str], Evidence] = {}
    for one in finding.evidence:
        for item in _with_raw(one, view):
            evidence.setdefault((item.counter, item.device, item.port, item.unit), item)
    rows = [row for row in finding.rows if 0 <= row < len(view.scores.anomaly)]
    scores = np.nan_to_num(view.scores.anomaly[rows])
    score = max(finding.anomaly_score, float(scores.max(initial=0.0)))
    return replace(finding, evidence=tuple(evidence.values()), anomaly_score=score)


def _with_raw(one: Evidence, view: FabricView) -> Iterator[Evidence]:
    """The evidence, and the counter that moved most behind it at this tick."""
    row = view.table.row(PortId(one.device, one.port)) if one.port else None
    raw = _raw(one, row, view) if row is not None and row < view.frame.n_ports else None
    source = one.source or (raw.source or raw.counter if raw else "")
    if not source and row is not None and one.counter in BY_ID:
        source = view.frame.source_of(one.counter, row)
    if isfinite(one.value):
        yield replace(one, source=source)
        if raw is not None:
            yield raw


def _raw(one: Evidence, row: int, view: FabricView) -> Evidence | None:
    """The first known counter of a signal, of its busiest queue; None where none is known."""
    frame = view.frame
    for counter in _BEHIND.get(one.counter, ()):
        queue, rate = None, np.float32(np.nan)
        if frame.queue_row(counter) is not None:
            rates = frame.queue_rate_of(counter)[row]
            if np.isfinite(rates).any():
                at = int(np.nanargmax(rates))
                queue, rate = frame.queues[at], rates[at]
        else:
            rate = frame.rate_of(counter)[row]
        if np.isfinite(rate):
            unit = BY_ID[counter].unit
            where = f"{unit}/s" + ("" if queue is None else f" in queue {queue}") + ", latest poll"
            source = frame.source_of(counter, row, queue)
            return Evidence(counter, one.device, one.port, float(rate), where, "", source)
    return None
