"""From what happened to what a collector reads: whole numbers, widths, caches, lost polls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import Reason
from fabricmon.model.counters import BY_ID, NO_QUEUE
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.model.stream import PollFailure
from fabricmon.simulate.engine.flows import LOSSLESS_QUEUE
from fabricmon.simulate.reading.observer import Observer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.scenario import CollectorConfig
    from fabricmon.simulate.workload.timeline import Interval

_OTHER_QUEUE = 0
_HAIR = 1e-6
"""What adding up parts of an event falls short of a whole one."""
_TOP_32 = (1 << 32) - 1

_PORT = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "link_downed")
_IB = (
    *_PORT,
    "symbol_errors",
    "link_recoveries",
    "tx_discards",
    "hoq_discards",
    "buffer_overruns",
    "tx_wait_ticks",
)
_ROCE = (
    *_PORT,
    "tx_errors",
    "rx_discards",
    "tx_discards",
    "fec_uncorrected",
    "rx_pause_frames",
    "tx_pause_frames",
)
_QUEUES = (
    ("rx_pfc_frames", LOSSLESS_QUEUE),
    ("tx_pfc_frames", LOSSLESS_QUEUE),
    ("rx_pfc_ns", LOSSLESS_QUEUE),
    ("tx_pfc_ns", LOSSLESS_QUEUE),
    ("ecn_marked_packets", LOSSLESS_QUEUE),
    ("queue_tx_bytes", LOSSLESS_QUEUE),
    ("queue_tx_bytes", _OTHER_QUEUE),
    ("queue_discards", LOSSLESS_QUEUE),
    ("queue_discards", _OTHER_QUEUE),
)
_HOST_QUEUES = _QUEUES[:4]
_HOST = (
    "rx_bytes",
    "tx_bytes",
    "rx_packets",
    "tx_packets",
    "rx_errors",
    "cnp_sent",
    "cnp_handled",
    "ecn_marked_received",
    "out_of_sequence",
    "ack_timeouts",
    "retransmits",
    "rx_buffer_discards",
    "rx_pause_frames",
    "tx_pause_frames",
)
_NARROW = {"rx_packets", "tx_packets", "rx_discards", "tx_discards", "rx_errors", "tx_errors"}
_GAUGES = (("oper_up", NO_QUEUE), ("speed_bps", NO_QUEUE))
_QUEUE_GAUGES = (
    ("queue_depth_bytes", LOSSLESS_QUEUE),
    ("queue_depth_peak_bytes", LOSSLESS_QUEUE),
)


@dataclass(slots=True, eq=False)
class _TargetState:
    """One target: its ports, its columns, and the totals it has counted.

    pick     intp[N]        rows of E this target has
    total    int64[K,N]     what the device counts
    shown    int64[K,N]     what its cache shows
    """

    name: str
    devices: tuple[str, ...]
    ports: PortSet
    pick: NDArray[np.intp]
    columns: tuple[Column, ...]
    gauge_columns: tuple[Column, ...]
    rows: NDArray[np.intp]
    gauge_rows: NDArray[np.intp]
    total: NDArray[np.int64]
    rest: NDArray[np.float64]
    shown: NDArray[np.int64]
    gauges: NDArray[np.float64]
    renewed_s: float = 0.0
    was_reset: bool = False
    masks: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))


class Reader:
    """Reads a simulated fabric as a collector would."""

    def __init__(self, wiring: Wiring, config: CollectorConfig, seed: int, start_ns: int) -> None:
        """`start_ns` is the wall clock at second 0."""
        self._wiring, self._config, self._start_ns = wiring, config, start_ns
        self._rng = np.random.default_rng([seed, 4])
        self._infiniband = wiring.infiniband
        self._observer = Observer(wiring, np.random.default_rng([seed, 5]))
        switch = wiring.tier[wiring.source] > 0
        self._catalogue: dict[tuple[str, int], int] = {}
        self._targets: list[_TargetState] = []
        for name, pick in self._groups(switch):
            host = not switch[pick[0]]
            self._targets.append(self._make(name, pick, host=host))
        self._last_s = 0.0

    @property
    def targets(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(target.name for target in self._targets)

    def _groups(self, switch: NDArray[np.bool_]) -> list[tuple[str, NDArray[np.intp]]]:
        wiring = self._wiring
        sides = [("switches", switch)]
        if self._config.host_counters:
            sides.append(("hosts", ~switch))
        if not self._config.per_device:
            return [(name, np.flatnonzero(mask)) for name, mask in sides if mask.any()]
        found = []
        for _, mask in sides:
            for node in np.unique(wiring.source[mask]):
                name = wiring.topology.nodes[int(node)].name
                found.append((name, np.flatnonzero(wiring.source == node)))
        return found

    def _make(self, name: str, pick: NDArray[np.intp], *, host: bool) -> _TargetState:
        if self._infiniband:
            keys = [(c, NO_QUEUE) for c in _IB]
        elif host:
            keys = [*((c, NO_QUEUE) for c in _HOST), *_HOST_QUEUES]
        else:
            keys = [*((c, NO_QUEUE) for c in _ROCE), *_QUEUES]
        if not self._config.paused_time:
            keys = [key for key in keys if not key[0].endswith("pfc_ns")]
        levels = [*_GAUGES, *(_QUEUE_GAUGES if not host and not self._infiniband else ())]
        omitted = set(self._config.omit)
        keys = [key for key in keys if key[0] not in omitted]
        levels = [key for key in levels if key[0] not in omitted]
        columns = tuple(self._column(counter, queue) for counter, queue in keys)
        shape = (len(keys), len(pick))
        ports = [self._wiring.ports[int(i)] for i in pick]
        total = self._rng.integers(0, 1 << 40, shape)
        for k, column in enumerate(columns):
            if column.counter.id in {"rx_errors", "symbol_errors", "link_downed", "tx_errors"}:
                total[k] = 0
        return _TargetState(
            name,
            tuple(dict.fromkeys(port.device for port in ports)),
            PortSet(tuple(p.device for p in ports), tuple(p.port for p in ports)),
            pick,
            columns,
            tuple(Column(BY_ID[c], q, source=f"simulated {c}") for c, q in levels),
            np.array([self._row(key) for key in keys]),
            np.array([self._row(key) for key in levels]),
            total,
            np.zeros(shape),
            total.copy(),
            np.zeros((len(levels), len(pick))),
            masks=np.array(
                [_TOP_32 if c.bits == 32 else (1 << 64) - 1 for c in columns], np.uint64
            ),
        )

    def _row(self, key: tuple[str, int]) -> int:
        return self._catalogue.setdefault(key, len(self._catalogue))

    def _column(self, counter: str, queue: int) -> Column:
        narrow = self._config.width == 32 and counter in _NARROW
        sticks = self._infiniband
        bits, source = 32 if narrow else 64, f"simulated {counter}"
        return Column(BY_ID[counter], queue, bits, saturates=sticks, source=source)

    def read(self, interval: Interval) -> list[ReadingBatch | PollFailure]:
        """Every target's reading at the end of `interval`."""
        added = self._observe(interval)
        seconds = interval.end_s - self._last_s
        self._last_s = interval.end_s
        return [self._read_one(target, added, interval, seconds) for target in self._targets]

    def _observe(self, interval: Interval) -> NDArray[np.float64]:
        """float64[C,E]: what each catalogue row gains (levels: shows), with measurement noise."""
        seconds = interval.end_s - self._last_s
        seen = self._observer.observe(interval, seconds)
        out = np.zeros((len(self._catalogue), len(self._wiring)))
        for (counter, queue), row in self._catalogue.items():
            out[row] = self._observer.value(counter, queue, seen)
        return out

    def _read_one(
        self, target: _TargetState, added: NDArray[np.float64], interval: Interval, seconds: float
    ) -> ReadingBatch | PollFailure:
        self._count(target, added, interval, seconds)
        now_ns = self._start_ns + round(interval.end_s * 1e9)
        lost = (
            target.name in interval.reading.silent or target.devices[0] in interval.reading.silent
        )
        if lost or (self._config.skip and self._rng.random() < self._config.skip):
            return PollFailure(target.name, "simulated", Reason.TIMEOUT, now_ns, "no answer")
        values = target.shown.astype(np.uint64) & target.masks[:, None]
        if interval.reading.stuck_at_top:
            values = self._at_top(target, values, interval)
        time_ns = np.full(len(target.ports), now_ns, np.int64)
        time_ns += np.int64(abs(self._rng.normal(0.0, self._config.jitter)) * 1e9)
        if interval.reading.skew_s:
            skew = interval.reading.skew_s
            device_skew = np.array([skew.get(d, 0.0) for d in target.ports.device])
            time_ns += (device_skew * 1e9).astype(np.int64)
        return ReadingBatch(
            target.name,
            target.ports,
            target.columns,
            values,
            np.full(values.shape, State.OK, np.uint8),
            time_ns,
            target.gauge_columns,
            target.gauges.copy(),
        )

    def _count(
        self, target: _TargetState, added: NDArray[np.float64], interval: Interval, seconds: float
    ) -> None:
        """Add to the totals; show them where the device renews its cache."""
        gain = target.rest + added[target.rows[:, None], target.pick]
        whole = np.floor(gain + _HAIR)
        target.rest = gain - whole
        before = target.total
        target.total = before + whole.astype(np.int64)
        hit = bool(interval.reading.reset.intersection(target.devices))
        if hit and not target.was_reset:
            hit_ports = np.array([d in interval.reading.reset for d in target.ports.device])
            target.total[:, hit_ports] = 0
        target.was_reset = hit
        if interval.reading.stale.intersection(target.devices):
            return
        target.gauges = added[target.gauge_rows[:, None], target.pick]
        refresh = self._config.refresh
        if refresh is None:
            target.shown = target.total
            return
        last = np.floor(interval.end_s / refresh) * refresh
        if last > target.renewed_s:
            share = np.clip(1 - (interval.end_s - last) / seconds, 0.0, 1.0)
            target.shown = before + ((target.total - before) * share).astype(np.int64)
            target.renewed_s = float(last)

    @staticmethod
    def _at_top(
        target: _TargetState, values: NDArray[np.uint64], interval: Interval
    ) -> NDArray[np.uint64]:
        """Counters that stick show their maximum."""
        stuck = np.isin(target.pick, list(interval.reading.stuck_at_top))
        sticks = np.array([c.saturates for c in target.columns])
        if not sticks.any() or not stuck.any():
            return values
        top = np.ix_(np.flatnonzero(sticks), np.flatnonzero(stuck))
        values[top] = np.broadcast_to(target.masks[sticks][:, None], values[top].shape)
        return values
