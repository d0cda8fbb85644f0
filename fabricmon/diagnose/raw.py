"""The raw counters behind a number, and how it follows from them: what makes evidence checkable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.past.levels import SPAN
from fabricmon.diagnose.past.memory import RECENT
from fabricmon.model.counters import BY_ID, Scope
from fabricmon.model.frame import PAUSE_BITS, SILENT_USE, STUCK_PAUSE, TYPICAL_PAUSE
from fabricmon.model.incident import RawCounter, Sample, rfc3339
from fabricmon.model.ports import NO_PEER
from fabricmon.model.readings import State
from fabricmon.model.window import DEPTHS, PORT_RATES, QUEUE_RATES, SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.frame import Frame

_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Series:
    """One counter, of one queue where it is counted per queue."""

    counter: str
    queue: int | None = None

    def __str__(self) -> str:
        return self.counter if self.queue is None else f"{self.counter}[{self.queue}]"


@dataclass(frozen=True, slots=True)
class Proof:
    """How a number follows from `raw`. `formula` is words, or an expression a reader can evaluate.

    In an expression a counter stands for its rate per second, a gauge for its level; `; x = ...`
    says what a letter stands for.
    """

    formula: str
    raw: tuple[RawCounter, ...]


class Raw:
    """The raw counters of one port over the latest `polls` polls."""

    def __init__(self, view: FabricView, row: int, polls: int = SPAN) -> None:
        """Nothing is read before it is asked for."""
        self._view, self._row, self._polls = view, row, polls
        self._frames = [f for f in view.window.frames if row < f.n_ports][-polls - 1 :]

    @property
    def _recent(self) -> list[Frame]:
        return self._frames[-self._polls :]

    def series(self, *counters: str, queues: Iterable[int] | None = None) -> list[Series]:
        """Which of these counters were known here; of queues only `queues`, if given."""
        found = []
        for counter in counters:
            own: Iterable[int | None] = (None,)
            if BY_ID[counter].scope is Scope.QUEUE:
                own = self._view.frame.queues if queues is None else queues
            found += [Series(counter, queue) for queue in own]
        return [one for one in found if self._known(one)]

    def moved(self, series: Sequence[Series]) -> list[Series]:
        """Those of `series` that are not 0 all the time; the first where all are."""
        return [one for one in series if any(self._values(one))] or list(series[:1])

    def _known(self, series: Series) -> bool:
        return any(value is not None for value in self._values(series))

    def _values(self, series: Series) -> list[float | None]:
        """Rates of a count, levels of a gauge, poll by poll."""
        samples = [self._sample(series, frame) for frame in self._recent]
        gauge = BY_ID[series.counter].is_gauge
        return [(s.value if gauge else s.rate) if s is not None else None for s in samples]

    def counter(self, series: Series) -> RawCounter:
        """Its samples over these polls, with the one before for a count."""
        counter, row = BY_ID[series.counter], self._row
        frames = self._recent if counter.is_gauge else self._frames
        samples = [s for frame in frames if (s := self._sample(series, frame)) is not None]
        if samples and not counter.is_gauge and len(frames) > self._polls:
            samples[0] = Sample(samples[0].at_ns, samples[0].value)
        port = self._view.table.ids[row]
        source = self._view.frame.source_of(series.counter, row, series.queue)
        return RawCounter(
            series.counter, port.device, port.port, series.queue, counter.unit, source,
            tuple(samples),
        )  # fmt: skip

    def counters(self, series: Iterable[Series]) -> tuple[RawCounter, ...]:
        """`counter` of each."""
        return tuple(map(self.counter, series))

    def _sample(self, series: Series, frame: Frame) -> Sample | None:
        if BY_ID[series.counter].is_gauge:
            return self._level(series, frame)
        at, row = frame.series(series.counter, series.queue), self._row
        if at is None:
            return None
        if series.queue is None:
            arrays = frame.total[at], frame.rate[at], frame.state[at]
        else:
            k, q = frame.queue_row(series.counter), frame.queues.index(series.queue)
            arrays = (
                frame.queue_total[k, :, q],
                frame.queue_rate[k, :, q],
                frame.queue_state[k, :, q],
            )
        total, rate, state = (array[row] for array in arrays)
        at_ns, over_s = frame.time_ns, np.float32(frame.interval_s)
        if frame.origins is not None:
            group = frame.origins.group[at]
            at_ns, over_s = int(frame.origins.at_ns[group, row]), frame.origins.over_s[group, row]
        if at_ns == _NO_TIME:
            return None
        name = State(int(state)).name.lower()
        return Sample(at_ns, int(total), _number(over_s), _number(rate), name)

    def _level(self, series: Series, frame: Frame) -> Sample | None:
        row, at_ns = self._row, frame.time_ns
        if series.queue is None:
            values = frame.gauges.get(series.counter)
        else:
            queued = frame.queue_gauges.get(series.counter)
            values = None if queued is None else queued[:, frame.queues.index(series.queue)]
        if values is None or np.isnan(values[row]):
            return None
        if frame.origins is not None:
            at_ns = int(frame.origins.levels.at_ns[row])
        return Sample(at_ns, float(values[row]))


def _number(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)


def prove(signal: str, row: int, view: FabricView) -> Proof | None:
    """How a level (the recent mean of one of the window's signals) came about; None if unknown."""
    raw = Raw(view, row)
    story = _STORIES.get(signal, _sum)(signal, raw, view, row)
    if story is None:
        return None
    polls = view.window.past(signal, SPAN)[:, row]
    shown = ", ".join("unknown" if np.isnan(poll) else f"{poll:.4g}" for poll in polls)
    return Proof(f"mean of {len(polls)} polls ({shown}) of {story[0]}", raw.counters(story[1]))


def prove_strays(row: int, queues: Iterable[int], share: float, view: FabricView) -> Proof | None:
    """How the share of bytes outside these lossless queues came about in the latest poll."""
    raw = Raw(view, row, polls=1)
    series, own = raw.series("queue_tx_bytes"), raw.series("queue_tx_bytes", queues=queues)
    if not series:
        return None
    parts = [" + ".join(map(str, some)) or "0" for some in (own, series)]
    text = f"mean of 1 polls ({share:.4g}) of 1 - ({parts[0]}) / ({parts[1]})"
    return Proof(text, raw.counters(series))


def sent_lately(view: FabricView, row: int, polls: int) -> RawCounter:
    """Bytes per second that a port sent, as either end counts them, poll by poll.

    So far back only rates are remembered.
    """
    counter, peer = "tx_bytes", int(view.shape.peer[row])
    if np.isnan(view.levels.now("tx_use")[row]) and peer != NO_PEER:
        counter, row = "rx_bytes", peer
    return _remembered(view, row, f"{counter[:2]}_rate", counter, polls)


def breaks_lately(view: FabricView, row: int) -> Proof:
    """When a link broke of late, and what its counter of downs, or its traffic, showed then."""
    ago = view.memory.when(row, view.window.ticks)
    times = view.window.times()
    told = ", ".join(rfc3339(int(times[-1 - polls])) for polls in ago if polls < len(times))
    counted = _remembered(view, row, "downs", "link_downed", RECENT)
    moved = tuple(sample for sample in counted.samples if sample.rate)
    raw = [replace(counted, samples=moved), Raw(view, row).counter(Series("link_downed"))]
    return Proof(f"breaks at {told}", tuple(raw) if moved else (sent_lately(view, row, RECENT),))


def _remembered(view: FabricView, row: int, signal: str, counter: str, polls: int) -> RawCounter:
    """What the window remembers of a signal, told as the rate of the counter behind it."""
    rates = view.window.of_port(row)[SIGNALS.index(signal)][-polls:]
    samples = tuple(
        Sample(int(at), None, None, _number(rate), "missing" if np.isnan(rate) else "ok")
        for at, rate in zip(view.window.times(polls), rates, strict=True)
    )
    port, source = view.table.ids[row], view.frame.source_of(counter, row)
    unit = BY_ID[counter].unit
    return RawCounter(counter, port.device, port.port, None, unit, source, samples)


Story = tuple[str, list[Series]]
"""One poll's value as an expression over rates per second (gauges: levels), and what is in it."""


def _held(_signal: str, raw: Raw, view: FabricView, row: int) -> Story | None:
    """Own waiting time, else the time paused, else pause frames: as `normalize` believes them."""
    for series in raw.series("tx_wait_ns"):
        return f"min(1, {series} / 1e9)", [series]
    line, tick = view.table.speed_bps[row] / 8, view.table.tick_bytes[row]
    for series in raw.series("tx_wait_ticks") if tick * line > 0 else ():
        return f"min(1, {series} * {tick:g} / {line:.9g})", [series]
    return _paused("rx_pfc_ns", raw, view) or _frames("rx", "tx", raw, view, row)


def _pressing(_signal: str, raw: Raw, view: FabricView, row: int) -> Story | None:
    return _paused("tx_pfc_ns", raw, view) or _frames("tx", "rx", raw, view, row)


def _own_queues(view: FabricView) -> list[int]:
    """Queues that make a port's stall: those declared lossless, else all."""
    queues = view.frame.queues
    return [queue for queue in queues if queue in view.intent.lossless_queues] or list(queues)


def _paused(counter: str, raw: Raw, view: FabricView) -> Story | None:
    series = raw.moved(raw.series(counter, queues=_own_queues(view)))
    return (f"min(1, {_largest(series)} / 1e9)", series) if series else None


def _frames(side: str, other: str, raw: Raw, view: FabricView, row: int) -> Story | None:
    """Pauses counted in frames: each a typical share of the longest; all of it if nothing moves."""
    series = raw.series(f"{side}_pfc_frames", queues=_own_queues(view))
    series = raw.moved([*series, *raw.series(f"{side}_pause_frames")])
    speed = view.table.speed_bps[row]
    if not series or not speed > 0:
        return None
    sent = raw.series(f"{other}_bytes")[:1]
    use = f"min(1, {sent[0]} / {speed / 8:.9g})" if sent else "0"
    share = f"(1 if x >= {STUCK_PAUSE} and u <= {SILENT_USE} else {TYPICAL_PAUSE})"
    longest = f"x = {_largest(series)} * {PAUSE_BITS / speed:.9g}"
    return f"min(x * {share}, 1 - u); {longest}; u = {use}", series + sent


def _use(signal: str, raw: Raw, view: FabricView, row: int) -> Story | None:
    for series in raw.series(f"{signal[:2]}_bytes"):
        return f"min(1, {series} / {view.table.speed_bps[row] / 8:.9g})", [series]
    return None


def _depth(_signal: str, raw: Raw, _view: FabricView, _row: int) -> Story | None:
    series = raw.moved(raw.series(*DEPTHS))
    return (_largest(series), series) if series else None


def _sum(signal: str, raw: Raw, _view: FabricView, _row: int) -> Story | None:
    counters = PORT_RATES.get(signal, ()) + QUEUE_RATES.get(signal, ())
    series = raw.moved(raw.series(*counters))
    return (" + ".join(map(str, series)), series) if series else None


def _largest(series: Sequence[Series]) -> str:
    names = ", ".join(map(str, series))
    return names if len(series) == 1 else f"max({names})"


_STORIES = {
    "stall": _held,
    "press": _pressing,
    "tx_use": _use,
    "rx_use": _use,
    "depth": _depth,
}
"""Signals that are no plain sums of rates."""
