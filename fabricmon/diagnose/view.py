"""What a rule may look at: one tick of one fabric, read only, with the graph already built."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.diagnose.fabric.graph import PressureGraph, Sink
from fabricmon.diagnose.fabric.groups import Group, full_groups
from fabricmon.diagnose.fabric.plateau import STANDS, plateaus
from fabricmon.diagnose.fabric.rails import Uneven, uneven
from fabricmon.diagnose.fabric.unread import presumed
from fabricmon.diagnose.past.levels import BLOCK, PAST, Levels
from fabricmon.diagnose.past.memory import STILL, Memory
from fabricmon.diagnose.past.pace import Lag, Pace
from fabricmon.model.frame import PAUSE_BITS
from fabricmon.model.incident import Cause, Evidence, Victim
from fabricmon.model.ports import NO_PEER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.config import DiagnoseConfig
    from fabricmon.diagnose.fabric.shape import Shape
    from fabricmon.model.frame import Frame
    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Scores
    from fabricmon.model.topology import Intent, Topology
    from fabricmon.model.window import Window

_UNITS = {
    "stall": "share of time",
    "press": "share of time",
    "tx_use": "share of link",
    "rx_use": "share of link",
    "rx_pause": "frames/s",
    "tx_pause": "frames/s",
    "ecn": "packets/s",
    "drops": "packets/s",
    "errors": "packets/s",
    "depth": "bytes",
    "resent": "packets/s",
    "downs": "events/s",
}
_AT_PEER = {
    "stall": "press",
    "press": "stall",
    "tx_use": "rx_use",
    "tx_use_long": "rx_use_long",
    "tx_use_poll": "rx_use_poll",
    "rx_use": "tx_use",
    "tx_pause": "rx_pause",
    "rx_pause": "tx_pause",
}
"""The same, as the other end of the cable counts it."""
_TINY = np.float32(1e-9)
_LASTING, _OF = 2, 4
_USED = 0.02
_COLD_STALL = 0.25
"""Stall that a port without a past is taken to show in every healthy iteration."""
_YOUNG = 2 * BLOCK
"""Polls in which there is not yet a past: one block may lie between two collectives."""


def _ramp(values: NDArray[Any], low: float, high: float) -> NDArray[np.float32]:
    """0 at `low`, 1 at `high`, straight between; NaN counts as 0."""
    out: NDArray[np.float32] = np.clip((np.nan_to_num(values) - low) / (high - low), 0, 1)
    return out.astype(np.float32)


@dataclass(slots=True, eq=False)
class Past:
    """What is remembered from tick to tick, one per fabric."""

    levels: Levels = field(default_factory=Levels)
    memory: Memory = field(default_factory=Memory)
    pace: Pace = field(default_factory=Pace)


class FabricView:
    """One tick. Arrays are float32[N] unless said otherwise; NaN is unknown, never zero."""

    def __init__(
        self,
        *,
        config: DiagnoseConfig,
        window: Window,
        scores: Scores,
        table: PortTable,
        topology: Topology,
        shape: Shape,
        past: Past,
    ) -> None:
        """Nothing is computed before it is asked for."""
        assert window.frame is not None
        self.config = config
        self.window = window
        self.frame: Frame = window.frame
        self.scores = scores
        self.table = table
        self.topology = topology
        self.shape = shape
        self.levels = past.levels
        self.memory = past.memory
        self.pace = past.pace

    @property
    def intent(self) -> Intent:
        """How the operators want the fabric to be set."""
        return self.topology.intent

    def level(self, name: str, what: str = "now") -> NDArray[np.float32]:
        """What `Levels` has of each port, as its peer counts it where the port itself is not read.

        `what` is `now`, `high`, `low` or `usual`: what one end sent, the other received.
        """
        own, told = (getattr(self.levels, what)(n) for n in (name, _AT_PEER[name]))
        return np.where(np.isnan(self.levels.now(name)), self.shape.at_peer(told), own)

    def polls(self, signal: str, last: int) -> NDArray[np.float32]:
        """float32[W,N]: the same of a signal in each of the last polls."""
        own, told = (self.window.past(name, last) for name in (signal, _AT_PEER[signal]))
        return np.where(np.isnan(own), self.shape.at_peer(told), own)

    @cached_property
    def stall(self) -> NDArray[np.float32]:
        """Share of time each egress was held back, from its own counters or its peer's."""
        told = self.level("stall")
        return np.where(self._long_pauses, np.fmax(told, self._longest(self.levels.now)), told)

    @cached_property
    def stall_now(self) -> NDArray[np.float32]:
        """The same at this tick alone."""
        own = self.window.now("stall")
        told = np.where(np.isnan(own), self.shape.at_peer(self.window.now("press")), own)
        return np.where(self._long_pauses, np.fmax(told, self._longest(self.window.now)), told)

    @cached_property
    def _long_pauses(self) -> NDArray[np.bool_]:
        """bool[N]: paused by frames that are only counted, each as long as it can be.

        A pause may last from nothing to its longest. Where more stands in the queue than ever
        before and the link has room, it is the pauses that keep the queue from leaving.
        """
        stands = (self.queue >= STANDS) & (self.levels.now("tx_use") < self.config.busy)
        return self.frame.ratios.estimated & stands & self.pause_evident

    def _longest(self, of: Callable[[str], NDArray[np.float32]]) -> NDArray[np.float32]:
        """The most that the pauses can have held back: they fill no time in which it sent."""
        longest = of("rx_pause") * PAUSE_BITS / self.table.speed_bps
        return np.nan_to_num(np.fmin(longest, np.float32(1) - of("tx_use"))).astype(np.float32)

    @cached_property
    def stall_past(self) -> NDArray[np.float32]:
        """What `stall` has reached before; a port without a past must show a clear stall."""
        past = np.nan_to_num(self.level("stall", "high"), nan=_COLD_STALL)
        young = self.levels.ticks < _YOUNG
        return np.fmax(past, np.float32(_COLD_STALL)) if young else past

    @cached_property
    def held(self) -> NDArray[np.float32]:
        """How much more each egress is held back than ever before; 0 where it is not."""
        rise = self.stall - np.float32(1.3) * self.stall_past
        rise = np.where((rise >= self.config.stall) & self.lasting, rise, np.float32(0))
        return np.where(self.latched, np.float32(1), rise)

    @cached_property
    def latched(self) -> NDArray[np.bool_]:
        """bool[N]: paused, then silent, where pauses are only counted (`Memory.latched`).

        And hosts that fell silent before a switch that is stopped on its way to others: the one
        pause that stops a host for good hides among those of any iteration.
        """
        latched, shape = self.memory.latched, self.shape
        ways = latched & ~shape.faces_host & ~shape.host_port
        if not ways.any():
            return latched
        stopped = np.bincount(shape.node, ways, len(shape.is_host)) > 0
        host = shape.host_port & (shape.beyond >= 0) & self.frame.ratios.estimated
        silent = (self.window.now("tx_use") <= STILL) & (self.usual_use > _USED)
        return latched | (host & stopped[shape.beyond] & silent)

    @cached_property
    def lasting(self) -> NDArray[np.bool_]:
        """bool[N]: stalled in at least two of the last polls: one burst is nobody's business."""
        seen = self.polls("stall", _OF) >= self.config.stall
        lasting: NDArray[np.bool_] = seen.sum(axis=0) >= _LASTING
        return lasting | self._long_pauses  # a queue stands meanwhile

    @property
    def onset(self) -> NDArray[np.int64]:
        """int64[N]: tick at which the port began to be held back; huge if it is not."""
        return self.memory.onset

    @cached_property
    def blocked(self) -> NDArray[np.float32]:
        """Share of time the egress could not send in the calmer of the last two polls."""
        least = np.fmin.reduce(self.window.past("stall", 2), axis=0)
        told = self.shape.at_peer(np.fmin.reduce(self.window.past("press", 2), axis=0))
        share = np.where(np.isnan(least), told, least)
        return np.where(self.latched, np.float32(1), np.nan_to_num(share))

    @cached_property
    def pause_in(self) -> NDArray[np.float32]:
        """Pause frames per second that told this egress to stop, counted at either end."""
        return np.fmax(self.levels.now("rx_pause"), self.shape.at_peer(self.levels.now("tx_pause")))

    @cached_property
    def pause_evident(self) -> NDArray[np.bool_]:
        """bool[N]: pauses come in, more than ever before."""
        past = np.nan_to_num(self.levels.high("rx_pause"))
        return np.nan_to_num(self.pause_in) > 1.5 * past + 1.0

    @cached_property
    def down(self) -> NDArray[np.bool_]:
        """bool[N]: the link is known to be down, by either end, or went down lately."""
        up = self.frame.gauges.get("oper_up")
        down = self.memory.breaks() > 0
        if up is not None:
            down |= up < 0.5
        return down | (self.shape.at_peer(down.astype(np.float32), 0.0) > 0)

    @cached_property
    def waited_for(self) -> NDArray[np.bool_]:
        """bool[N]: others wait for this egress, or a queue stands in it, more than before."""
        waiting = self.graph.inflow() >= self.config.stall
        return waiting | (self.queue >= 0.5) | (self.marks >= 0.5)

    @cached_property
    def plateau(self) -> NDArray[np.bool_]:
        """bool[N]: carries less than its link's rate and has a standing queue."""
        return plateaus(self)

    @cached_property
    def full_groups(self) -> list[Group]:
        """Groups in which a way is newly full, or took over what its siblings carried."""
        return full_groups(self)

    @cached_property
    def uneven(self) -> list[Uneven]:
        """Rails and planes that took over what hosts used to divide among them."""
        return uneven(self)

    @cached_property
    def paused_a_little(self) -> NDArray[np.bool_]:
        """bool[N]: some pause or stall, however small, that was not there before."""
        little = self.stall > np.fmax(2 * self.stall_past, 0.002)
        return little | self.pause_evident

    def behind(self, row: int) -> NDArray[np.intp]:
        """Rows held back through `row`, itself included if it is held."""
        return self.graph.upstream(row)[0]

    def behind_break(self, ends: Sequence[int]) -> NDArray[np.intp]:
        """Rows held back in recent polls because the cable with these `ends` was down.

        One poll of it is enough: a link that is down lets nothing through, whatever is offered.
        """
        rise = self.stall - np.float32(1.3) * self.stall_past
        rise = np.where(rise >= self.config.stall, rise, np.float32(0))
        stops = np.zeros_like(rise)
        stops[list(ends)] = 1
        graph = PressureGraph(self.shape, rise, stops, np.zeros_like(rise))
        return np.unique(np.concatenate([graph.upstream(row)[0] for row in ends]))

    def behind_all(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows held back through any of `rows`."""
        return np.unique(np.concatenate([self.behind(int(row)) for row in rows]))

    @cached_property
    def use(self) -> NDArray[np.float32]:
        """Share of the link each egress uses, from its own counters or its peer's."""
        return self.level("tx_use")

    @cached_property
    def lags(self) -> dict[str, Lag]:
        """How each job keeps time, by name."""
        return self.pace.lags()

    @cached_property
    def usual_use(self) -> NDArray[np.float32]:
        """What `use` usually is; NaN without a past."""
        return self.level("tx_use", "usual")

    @cached_property
    def queue(self) -> NDArray[np.float32]:
        """0..1: how much more stands in the queue than ever before; 0 where depth is unknown."""
        depth, past = self.levels.now("depth"), self.levels.high("depth")
        floor = np.float32(np.nanmedian(past)) if np.isfinite(past).any() else _TINY
        return _ramp(depth / np.fmax(np.fmax(past, floor), _TINY), 1.5, 4.0)

    @cached_property
    def marks(self) -> NDArray[np.float32]:
        """0..1: how much more the port marks with ECN than ever before."""
        ecn, past = self.levels.now("ecn"), self.levels.high("ecn")
        return _ramp(ecn / np.fmax(np.nan_to_num(past) * 1.5, 100.0), 1.0, 6.0)

    @cached_property
    def holding(self) -> NDArray[np.float32]:
        """0..1: how much an egress that is not held looks as if others wait for it."""
        full = _ramp(self.use, 0.6, 0.95)
        changed = _ramp(self.use - np.nan_to_num(self.usual_use), 0.02, 0.2)
        busy = full * (np.float32(0.3) + np.float32(0.7) * changed)
        # a poll longer than its bursts never shows it full: what carries far more than usual may be
        rising = _ramp(self.use - np.nan_to_num(self.usual_use), 0.1, 0.25)
        busy = np.fmax(busy, np.float32(0.25) * rising)
        busy = np.where(self.slow & (self.use > _USED), np.float32(1), busy)
        return np.fmax(np.fmax(busy, self.queue), np.float32(0.3) * self.marks)

    @cached_property
    def slow(self) -> NDArray[np.bool_]:
        """bool[N]: the link runs at less than the speed it is made for."""
        slow: NDArray[np.bool_] = self.table.speed_bps < 0.9 * self.table.nominal_bps
        return slow

    @cached_property
    def presumed(self) -> NDArray[np.float32]:
        """How much a port is held back that does not show it itself, as its surroundings do."""
        unshown = np.isnan(self.stall)
        if self.levels.ticks >= PAST:  # so that it is known what a port always waits
            unshown |= self.stall >= self.config.stall
        return presumed(self.shape, self.held, self.holding, unshown)

    @cached_property
    def graph(self) -> PressureGraph:
        """Who waits for whom, at this tick."""
        return PressureGraph(self.shape, self.held, self.holding, self.presumed)

    @cached_property
    def sinks(self) -> list[Sink]:
        """Where the chains of held ports end, the heaviest first."""
        return self.graph.sinks()

    def cause(self, row: int, confidence: float = 0.0, queue: int | None = None) -> Cause:
        """The port as a cause, with what it is connected to."""
        port = self.table.ids[row]
        peer = int(self.shape.peer[row])
        other = self.table.ids[peer] if peer != NO_PEER else None
        return Cause(
            port.device,
            port.port,
            queue,
            other.device if other else "",
            other.port if other else "",
            confidence,
        )

    def device_cause(self, device: int, confidence: float = 0.0) -> Cause:
        """A whole device as a cause."""
        return Cause(self.table.nodes[device], confidence=confidence)

    def victims(self, rows: Iterable[int]) -> tuple[Victim, ...]:
        """The ports as victims, with the share of time they are held back now."""
        found = sorted(((float(self.stall[r]), int(r)) for r in rows), reverse=True)
        ids = self.table.ids
        return tuple(
            Victim(ids[r].device, ids[r].port, min(stall, 1.0))
            for stall, r in found[: self.config.max_victims]
        )

    def evidence(self, row: int, signal: str, expected: str = "") -> Evidence:
        """What `signal` (a name of the window's signals) shows at one port, as the recent mean.

        What the port does not count itself is shown as its peer counts it.
        """
        peer = int(self.shape.peer[row])
        if np.isnan(self.levels.now(signal)[row]) and signal in _AT_PEER and peer != NO_PEER:
            signal, row = _AT_PEER[signal], peer
        port = self.table.ids[row]
        shown = float(self.levels.now(signal)[row])
        if not expected:
            past = float(self.levels.high(signal)[row])
            expected = f"at most {past:.3g} before" if np.isfinite(past) else "no past yet"
        return Evidence(signal, port.device, port.port, shown, _UNITS.get(signal, ""), expected)

    def tree(self, rows: Iterable[int], most: int = 5) -> tuple[Evidence, ...]:
        """The congestion tree as evidence: its most held ports."""
        worst = sorted((int(r) for r in rows), key=lambda r: -self.stall[r])[:most]
        return tuple(self.evidence(row, "stall") for row in worst)
