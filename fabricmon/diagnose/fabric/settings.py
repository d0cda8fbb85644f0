"""What devices say they are set to: evidence beside the counters, and a fault before any drop.

Few devices tell it. A setting is believed against the others of the fabric only: where most ports
are set so, the numbers of groups, queues and priorities mean the same, and the odd one is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.counters import BY_ID, Scope
from fabricmon.model.incident import Evidence
from fabricmon.model.ports import NO_PEER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_TOLD = {
    "no_drop": "1 in the lossless class",
    "pfc_enabled": "1",
    "peer_pfc_enabled": "1, as at this end",
    "xoff_bytes": "room above it for what is on its way; ECN marks below it",
    "xon_bytes": "below XOFF",
    "headroom_bytes": "0 but just after a pause",
    "headroom_peak_bytes": "below what is set aside",
}
"""Settings and limits, and what they should be."""
_WATCHDOG = "pfc_watchdog_storms"


def settings(
    view: FabricView, queues: NDArray[np.bool_], rows: Iterable[int]
) -> tuple[Evidence, ...]:
    """What is known of these ports' settings in the lossless class bool[Q], watchdog included."""
    rows = [int(row) for row in rows if row != NO_PEER]
    shown = [
        _shown(view, row, name, level, queue, expected)
        for row in rows
        for name, expected in _TOLD.items()
        for queue, level in _levels(view, name, queues, row)
    ]
    return (*shown, *_flushed(view, queues, rows))


def _levels(
    view: FabricView, name: str, queues: NDArray[np.bool_], row: int
) -> Iterator[tuple[int | None, float]]:
    """(queue, level) of a gauge that is known."""
    if BY_ID[name].scope is Scope.PORT:
        levels = view.frame.gauges.get(name)
        if levels is not None and np.isfinite(levels[row]):
            yield None, float(levels[row])
        return
    queued = view.frame.queue_gauges.get(name)
    for q in np.flatnonzero(queues) if queued is not None else ():
        assert queued is not None
        if np.isfinite(queued[row, q]):
            yield view.frame.queues[q], float(queued[row, q])


def _shown(
    view: FabricView, row: int, name: str, level: float, queue: int | None, expected: str
) -> Evidence:
    port, unit = view.table.ids[row], BY_ID[name].unit
    where = unit if queue is None else f"{unit} in queue {queue}"
    return Evidence(name, port.device, port.port, level, where, expected)


def _flushed(
    view: FabricView, queues: NDArray[np.bool_], rows: Iterable[int]
) -> Iterator[Evidence]:
    """Watchdogs that fired: they drop what stands in a lossless queue, and rightly so."""
    fired = view.frame.queue_rate_of(_WATCHDOG)
    for row in rows if fired.size else ():
        for q in np.flatnonzero(queues & (np.nan_to_num(fired[row]) > 0)):
            queue, expected = view.frame.queues[q], "0: a watchdog that fires drops the queue"
            yield _shown(view, row, _WATCHDOG, float(fired[row, q]), queue, expected)


def set_otherwise(view: FabricView) -> Iterator[tuple[str, int]]:
    """(reason, row) of ports whose own settings contradict intent, peer and the fabric's habit."""
    up = view.frame.gauges.get("oper_up")
    used = np.ones(view.frame.n_ports, np.bool_) if up is None else ~(up < 0.5)
    no_drop = view.frame.queue_gauges.get("no_drop")
    for q, queue in enumerate(view.frame.queues):
        if no_drop is not None and queue in view.intent.lossless_queues:
            yield from (("pfc-off", row) for row in _odd(no_drop[:, q], used))
    own, peer = (view.frame.gauges.get(name) for name in ("pfc_enabled", "peer_pfc_enabled"))
    if own is None or peer is None or not view.intent.lossless_queues:
        return
    for row in np.flatnonzero(used & (own < 0.5) & (peer > 0.5)):
        yield "pfc-one-sided", int(row)
    for row in np.flatnonzero(used & (own > 0.5) & (peer < 0.5)):
        there = int(view.shape.peer[row])
        yield "pfc-one-sided", int(row) if there == NO_PEER else there


def _odd(setting: NDArray[np.float32], used: NDArray[np.bool_]) -> list[int]:
    """Rows that are set to 0 while most are set to 1."""
    off = np.flatnonzero(used & (setting < 0.5))
    return off.tolist() if 2 * len(off) < np.count_nonzero(used & np.isfinite(setting)) else []
