"""`Normalizer`: absorb readings as they come, make one frame of them per tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.counters import BY_ID
from fabricmon.model.frame import Frame, Origins
from fabricmon.model.ports import PortTable, Saved
from fabricmon.model.readings import State
from fabricmon.normalize import refresh
from fabricmon.normalize.gauges import Gauges
from fabricmon.normalize.limits import Limits
from fabricmon.normalize.ratios import Rates, derive
from fabricmon.normalize.settle import Settler, seconds
from fabricmon.normalize.staging import Staging
from fabricmon.normalize.store import NO_TIME, STEPPED, Store
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.api import Context
    from fabricmon.model.frame import Ratios
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.topology import Intent
    from fabricmon.normalize.gauges import Drained

_DISTRUST = 10
_BUSY_S = 3.0
"""Seconds by which a busy machine may judge a reading late: no fault of the device's clock."""
_LATE = 1.5
"""Times its own pace after which what is read less often than the rest counts as missing."""
_LOUD = ("reset", "saturated", "over_rate", "stale", "wrong_clock", "other_source")
"""What deserves an event, besides its count."""


class Normalizer:
    """One fabric's counters, unwrapped and aligned. Deterministic: same readings, same frames.

    Every value that is not plain is counted in `fabricmon_values_total` by what happened to it: the
    names of `State`, and `late` (not newer than what is known), `other_source` (the series is fed
    by another column), `wrong_clock` (the device's stamps cannot be; receive times were used).
    """

    def __init__(self, table: PortTable, fabric: str, context: Context) -> None:
        """Nothing read yet. `table` is shared with the pipeline; its link speeds are kept here."""
        self._fabric = fabric
        self._context = context
        self._lossless: tuple[int, ...] = ()
        self._woken = False
        """Restored by another process, and not ticked since."""
        self._read_ns = np.empty(0, np.int64)
        self._begin(Store(), table)

    def _begin(self, store: Store, table: PortTable) -> None:
        self.table, self._store = table, store
        self._limits = Limits(table)
        self._settler = Settler(store, self._limits)
        self._staging = Staging(store, table, self._settler)
        self._gauges = Gauges()

    def save(self) -> Saved:
        """Everything but the levels read since the last tick."""
        saved = Saved({"read_ns": self._read_ns})
        saved.add("store", self._store.save())
        staging = self._staging
        saved.write("tick", {"now_ns": staging.now_ns, "interval_s": staging.interval_s})
        return saved

    def restart(self, table: PortTable) -> None:
        """Begin anew, with nothing read yet of the ports of `table`."""
        self._begin(Store(), table)
        self._read_ns = np.empty(0, np.int64)

    def restore(self, saved: Saved, table: PortTable) -> None:
        """Go on from what was saved, for the ports of `table`.

        Raises `KeyError` or `ValueError` where it does not fit.
        """
        store, tick = Store.restored(saved.part("store")), saved.read("tick")
        self._begin(store, table)
        self._read_ns = saved.ports["read_ns"]
        self._staging.now_ns, self._staging.interval_s = tick["now_ns"], tick["interval_s"]

    def wake(self, now_ns: int, *, gap: bool) -> None:
        """Another process saved what was restored; this one begins at `now_ns`.

        What was read in a tick that was cut short is settled as of then: the next rate is taken
        from there. With a `gap`, readings were missed: counters narrow enough to have wrapped
        unseen, perhaps more than once, begin anew.
        """
        store, staging = self._store, self._staging
        cut, then_ns = store.touched.copy(), staging.now_ns
        if then_ns != NO_TIME and cut.any():
            store.heard[cut] = NO_TIME
            self._tick(then_ns, staging.interval_s)
            self._settler.tally.clear()
            store.heard[cut] = np.clip(store.last[cut], then_ns, max(then_ns, now_ns))
        if gap:
            store.distrust_narrow()
        store.behind[:] = NO_TIME
        self._woken = True

    def adopt(self, intent: Intent) -> None:
        """Take which queues are meant to be lossless: they alone make a port's stall."""
        self._lossless = intent.lossless_queues

    def absorb(self, batch: ReadingBatch) -> None:
        """Take one reading. Its values are seen in the next frame."""
        self._staging.stage(batch)
        if batch.gauge_columns:
            self._gauges.take(batch, self._staging.where(batch.ports), len(self.table))

    def shift(self, step_ns: int) -> None:
        """The wall clock stepped by so much: rates go on over the time that really passed."""
        self._store.shift(step_ns)
        self._read_ns[self._read_ns != NO_TIME] += step_ns
        staging = self._staging
        if staging.now_ns != NO_TIME:
            staging.now_ns += step_ns
            staging.awake_ns = NO_TIME

    def tick(self, now_ns: int, interval_s: float) -> Frame:
        """Make a frame of everything absorbed since the last tick."""
        frame = self._tick(now_ns, interval_s)
        self._report()
        return frame

    def _tick(self, now_ns: int, interval_s: float) -> Frame:
        store, n = self._store, len(self.table)
        store.grow(n)
        store.have_queues(self._gauges.queues)
        self._follow_speed()
        levels = self._gauges.origins(n)
        read, drained = self._gauges.drain(n, store.queues)
        self._limits.renew(interval_s)
        before = store.begin()
        over_s = np.full((len(store.groups), n), np.nan, np.float32)
        beat: refresh.Beat | None = None
        traffic = store.traffic_group
        for group in sorted(range(len(store.groups)), key=lambda g: g != traffic):
            span = self._span(group, now_ns, interval_s)
            over = self._settler.group(group, (1 / span).astype(np.float32))
            if group == traffic:
                beat = refresh.beat_of(store, group, self.table.node)
            if beat is not None:
                self._follow(beat, group, span, before)
            self._await(group, now_ns, interval_s, before)
            self._withhold(over)
            over_s[group] = span
        self._close(now_ns, interval_s, read)
        if self._woken:
            self._woken, self._staging.awake_ns = False, now_ns
        self._staging.now_ns, self._staging.interval_s = now_ns, interval_s
        odd, self._settler.odd = tuple(self._settler.odd), []
        origins = Origins(
            store.source.copy(),
            tuple(tuple(column.source for column in known) for known in store.columns),
            tuple(store.group_of),
            store.last.copy(),
            over_s,
            levels,
            odd,
        )
        return self._frame(now_ns, interval_s, origins, drained)

    def _follow_speed(self) -> None:
        speed = self._gauges.level(BY_ID["speed_bps"], len(self.table))
        if speed is not None:
            rows = np.flatnonzero(speed > 0).astype(np.int32)
            self.table.set_speed(rows, speed[rows])

    def _span(self, group: int, now_ns: int, interval_s: float) -> NDArray[np.float64]:
        """float64[N]: seconds that the movement stands for, by receipt where the clock is wrong."""
        store = self._store
        span = seconds(store, group)
        touched, heard = store.touched[group], store.heard[group]
        span[~touched] = np.nan
        compared = touched & (heard != NO_TIME)
        spacing = np.where(compared, (now_ns - heard) / 1e9, np.nan)
        doubt = store.doubt[group]
        apart = np.abs(span - spacing) > max(2 * interval_s, _BUSY_S) + spacing / 2
        if apart.any():
            self._settler.tally["wrong_clock"] += int(apart.sum())
            doubt[apart & (doubt != STEPPED)] = _DISTRUST
        if doubt.any():
            span = np.where((doubt > 0) & compared, spacing, span)
            doubt[touched & (doubt == STEPPED)] = 1
            doubt[touched & (doubt > 0)] -= 1
        span[span <= 0] = np.nan
        return span

    def _follow(
        self,
        beat: refresh.Beat,
        group: int,
        span: NDArray[np.float64],
        before: tuple[NDArray[np.float32], NDArray[np.uint8]],
    ) -> None:
        """Take rates over the device's own beat where it has one; `span` float64[N] follows."""
        store = self._store
        read = ~np.isnan(span) & (self._every(group) == 1)
        at = np.flatnonzero(beat.moved & read)
        factor = (span[at] / beat.span_s[at]).astype(np.float32)
        held, stale = np.flatnonzero(beat.held & read), np.flatnonzero(beat.stale & read)
        for slot in store.groups[group]:
            rate, state = store.rate[slot], store.state[slot]
            rate[at] *= factor
            self._hold(slot, held, before)
            gone = stale[state[stale] == State.OK]
            rate[gone], state[gone] = np.nan, State.STALE
            self._settler.tally["stale"] += len(gone)
        span[at] = beat.span_s[at]

    def _hold(
        self,
        slot: int,
        held: NDArray[np.intp],
        before: tuple[NDArray[np.float32], NDArray[np.uint8]],
    ) -> None:
        """Keep the rate of the last refresh where none came since."""
        rate, state = self._store.rate[slot], self._store.state[slot]
        held = held[state[held] == State.OK]
        old, was = before[0][slot][held], before[1][slot][held]
        good = was < State.MISSING
        rate[held] = old
        state[held] = np.where(good, State.HELD, was)
        self._settler.tally["held"] += int(good.sum())

    def _every(self, group: int) -> NDArray[np.int64]:
        """int64[N]: polls from reading to reading; 1, but for what is read less often."""
        store = self._store
        columns = store.columns[store.groups[group][0]] if store.groups[group] else []
        if all(column.every == 1 for column in columns):
            return np.ones(1, np.int64)
        paces = np.array([1, *(column.every for column in columns)])
        return paces[store.source[store.groups[group][0]]]

    def _waiting(self, group: int, now_ns: int, interval_s: float) -> NDArray[np.bool_]:
        """bool[N]: not read since the last tick, and not due either."""
        store, every = self._store, self._every(group)
        until = store.heard[group] + (_LATE * every * interval_s * 1e9).astype(np.int64)
        waiting: NDArray[np.bool_] = (store.heard[group] != NO_TIME) & (now_ns <= until)
        return waiting & ~store.touched[group] & (every > 1)

    def _await(
        self,
        group: int,
        now_ns: int,
        interval_s: float,
        before: tuple[NDArray[np.float32], NDArray[np.uint8]],
    ) -> None:
        """Keep the rates of what its source reads less often than the rest until that is due."""
        at = np.flatnonzero(self._waiting(group, now_ns, interval_s))
        for slot in self._store.groups[group] if len(at) else ():
            was = before[1][slot][at]
            good = was < State.MISSING
            self._store.rate[slot][at] = before[0][slot][at]
            self._store.state[slot][at] = np.where(good, State.HELD, was)
            self._settler.tally["held"] += int(good.sum())

    def _withhold(self, over: dict[int, NDArray[np.intp]]) -> None:
        """Withhold the rates that are still more than the link carries."""
        for slot, ports in over.items():
            rate = self._store.rate[slot]
            at = ports[rate[ports] > self._limits.of(self._store.counter_of(slot))[ports]]
            rate[at] = np.nan
            self._store.state[slot][at] = State.OVER_RATE
            self._settler.tally["over_rate"] += len(at)

    def _close(self, now_ns: int, interval_s: float, read: NDArray[np.bool_]) -> None:
        """Begin the next interval where this one ended."""
        store, n = self._store, self._store.ports
        grown = np.full(n - len(self._read_ns), NO_TIME)
        self._read_ns = np.concatenate([self._read_ns, grown])
        self._read_ns[read] = now_ns
        for group, slots in enumerate(store.groups):
            touched, heard = store.touched[group], store.heard[group]
            silent = (heard != NO_TIME) & ~touched & ~self._waiting(group, now_ns, interval_s)
            lost = int(np.count_nonzero(silent))
            self._settler.tally["missing"] += lost * len(slots)
            stamp = np.clip(store.last[group], self._staging.now_ns, now_ns)
            np.copyto(self._read_ns, np.maximum(stamp, self._read_ns), where=touched)
            heard[touched] = now_ns
            np.copyto(store.base[group], store.last[group], where=touched)
            store.moved_base[group][:] = store.moved_at[group]
            store.behind[group][touched] = NO_TIME
            touched[:] = False

    def _report(self) -> None:
        tally = self._settler.tally
        for state, times in tally.items():
            if times:
                self._context.report.metrics.values.labels(self._fabric, state).inc(times)
        for state in _LOUD:
            if tally[state]:
                self._context.report.emit(
                    Event.COUNTER_ANOMALY, f"{self._fabric} {state}", values=tally[state]
                )
        tally.clear()

    def _frame(
        self,
        now_ns: int,
        interval_s: float,
        origins: Origins,
        drained: Drained,
    ) -> Frame:
        store, n = self._store, self._store.ports
        rate, state, total = store.rate, store.publish(), store.total.copy()
        k, shape = len(store.counters), (len(store.queue_counters), len(store.queues), n)
        age = np.full(n, np.inf, np.float32)
        seen = self._read_ns != NO_TIME
        age[seen] = (now_ns - self._read_ns[seen]) / 1e9

        def queued(array: NDArray[Any]) -> NDArray[Any]:
            return array[k:].reshape(shape).transpose(0, 2, 1)

        return Frame(
            time_ns=now_ns,
            interval_s=interval_s,
            counters=store.counters,
            rate=rate[:k],
            total=total[:k],
            state=state[:k],
            queue_counters=store.queue_counters,
            queues=store.queues,
            queue_rate=queued(rate),
            queue_total=queued(total),
            queue_state=queued(state),
            gauges=drained[0],
            queue_gauges=drained[1],
            elapsed_s=np.fmax.reduce(origins.over_s, axis=0, initial=np.float32(np.nan)),
            age_s=age,
            ratios=self._ratios(rate[:k], rate[k:].reshape(shape)),
            origins=origins,
        )

    def _ratios(self, rate: NDArray[np.float32], queue_rate: NDArray[np.float32]) -> Ratios:
        store, n = self._store, self._store.ports
        rows = {counter.id: rate[i] for i, counter in enumerate(store.counters)}
        queues = {counter.id: queue_rate[i] for i, counter in enumerate(store.queue_counters)}
        none = np.full(n, np.nan, np.float32)
        no_queue = np.full((len(store.queues), n), np.nan, np.float32)
        lossless = [i for i, q in enumerate(store.queues) if q in self._lossless]
        return derive(
            Rates(
                port=lambda name: rows.get(name, none),
                queue=lambda name: queues.get(name, no_queue),
                speed_bps=self.table.speed_bps,
                tick_bytes=self.table.tick_bytes,
                lossless=np.array(lossless, np.intp),
            )
        )
