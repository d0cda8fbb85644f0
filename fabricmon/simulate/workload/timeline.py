"""A scenario in time: which epoch holds when, and what it adds to the counters.

Nothing is stepped: the loop jumps from change to change (a job's phase, an event, a poll), and an
epoch that was solved before is looked up. A long healthy day costs a handful of solutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.engine.conditions import healthy
from fabricmon.simulate.engine.counters import ROW, SIGNALS, signals
from fabricmon.simulate.engine.epoch import EpochSolver
from fabricmon.simulate.engine.flows import Network
from fabricmon.simulate.events import EventConfig, Reading
from fabricmon.simulate.fabric.routing import Router
from fabricmon.simulate.workload.jobs import Habit, JobRun
from fabricmon.simulate.workload.traffic import Planner, Wish, background, collective

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.fabric.wiring import Wiring
    from fabricmon.simulate.scenario import TrafficConfig
    from fabricmon.simulate.workload.traffic import Plan

_STEPS_PER_POLL = 100_000
_NEVER = 1e18


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """One poll interval of the fabric itself, before anybody reads it.

    amount   float64[S,E]  per signal: what was added (levels: the time-weighted mean)
    peak     float64[E]    highest queue depth
    depth    float64[E]    queue depth at the end
    reading  how it is read at the end
    coarse   bool[E]       ports that speak global pause
    deaf     bool[E]       ports that ignore pauses
    unpaused bool[E]       ports whose far end never pauses them
    end_s    second at which it ends
    """

    amount: NDArray[np.float64]
    peak: NDArray[np.float64]
    depth: NDArray[np.float64]
    reading: Reading
    coarse: NDArray[np.bool_]
    deaf: NDArray[np.bool_]
    unpaused: NDArray[np.bool_]
    end_s: float


class _State:
    """The fabric between two events: flows, ways and the solutions found so far."""

    def __init__(self, wiring: Wiring, conditions: Conditions, plan: Plan) -> None:
        self.conditions, self.plan = conditions, plan
        self._wiring = wiring
        self._network = Network(plan.flows, len(wiring))
        self._solver = EpochSolver(wiring, conditions, self._network)
        self._known: dict[bytes, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def at(
        self, names: Sequence[tuple[str, str]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Signals float64[S,E] and progress float64[G] while these groups send."""
        on = self.plan.mask(names)
        key = on.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._solve(on)
        return found

    def _solve(self, on: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        epoch = self._solver.solve(on)
        if (epoch.stuck & ~self.conditions.stuck).any():
            self.conditions.stuck |= epoch.stuck
            self._solver = EpochSolver(self._wiring, self.conditions, self._network)
            self._known.clear()
            epoch = self._solver.solve(on)
        progress = np.ones(max(1, len(self.plan.groups)))
        progress[: len(epoch.progress)] = epoch.progress
        progress[list(self.plan.dead)] = 0.0
        return signals(self._wiring, self.conditions, self._network, epoch), progress


class Timeline:
    """Plays events over a wiring and its traffic."""

    def __init__(
        self,
        wiring: Wiring,
        traffic: TrafficConfig,
        events: Sequence[EventConfig],
        duration: float,
        seed: int,
        repeat_from: float | None = None,
    ) -> None:
        """`duration` and all times in seconds from the start.

        With `repeat_from` the run has no end: at `duration` it is that second again for the events.
        """
        self._wiring, self._traffic, self._events = wiring, traffic, events
        self._duration = duration
        self._rng = np.random.default_rng([seed, 1])
        self._background = background(wiring, traffic.background, np.random.default_rng([seed, 2]))
        self.placement = place_jobs(wiring, traffic)
        self._wishes: dict[str, dict[str, Wish]] = {}
        self.jobs: dict[str, JobRun] = {}
        for i, job in enumerate(traffic.jobs):
            rng = np.random.default_rng([seed, 3, i])
            groups = collective(job, self._ranks(job.name), rng)
            self._wishes[job.name] = groups
            self.jobs[job.name] = JobRun(job, tuple(groups), rng)
        self._repeat_from = repeat_from
        self._moments = sorted({t for e in events for t in e.changes(duration)} - {0.0})
        self._tellers = [e for e in events if type(e).reading is not EventConfig.reading]
        self._routers: dict[bytes, Router] = {}
        self._latched: tuple[frozenset[int], NDArray[np.bool_] | None] = (frozenset(), None)

    def _ranks(self, name: str) -> NDArray[np.int32]:
        """int32[R,N]: the cards of a job's hosts, per rail."""
        wiring = self._wiring
        per_host = [
            wiring.cards[wiring.source[wiring.cards] == wiring.device(host)]
            for host in self.placement[name]
        ]
        rails = min(len(cards) for cards in per_host)
        return np.array([[cards[r] for cards in per_host] for r in range(rails)], np.int32)

    def intervals(self, poll: float) -> Iterator[Interval]:
        """Every poll interval up to the duration, or for ever."""
        state = self._enter(0.0)
        upcoming = self._upcoming()
        change = next(upcoming, _NEVER)
        now = 0.0
        last = round(self._duration / poll) if self._repeat_from is None else None
        for i in count(1):
            if last is not None and i > last:
                return
            end = i * poll
            amount = np.zeros((len(SIGNALS), len(self._wiring)))
            peak = np.zeros(len(self._wiring))
            while now < end - 1e-9:
                now = self._run(state, now, min(end, change), amount, peak)
                if now >= change - 1e-9:
                    state = self._enter(self._folded(change))
                    change = next(upcoming, _NEVER)
            for level in ("depth", "up", "speed_bps"):
                amount[ROW[level]] /= poll
            depth = self._rates(state)[0][ROW["depth"]]
            now_set = state.conditions
            unpaused = now_set.mute[self._wiring.target]
            yield Interval(
                amount,
                peak,
                depth,
                self._reading(end),
                now_set.coarse,
                now_set.deaf,
                unpaused,
                end,
            )

    def _upcoming(self) -> Iterator[float]:
        """Seconds at which something changes, in order."""
        yield from self._moments
        if self._repeat_from is None or not self._moments:
            return
        span = self._duration - self._repeat_from
        for lap in count(1):
            for moment in (self._duration, *(t for t in self._moments if t > self._repeat_from)):
                yield moment + (lap - (moment == self._duration)) * span

    def _folded(self, second: float) -> float:
        """The second of the scenario, once it repeats."""
        if self._repeat_from is None or second < self._duration:
            return second
        span = self._duration - self._repeat_from
        return self._repeat_from + (second - self._duration) % span

    def _run(
        self,
        state: _State,
        now: float,
        until: float,
        amount: NDArray[np.float64],
        peak: NDArray[np.float64],
    ) -> float:
        """Advance to `until`, adding up what counters see."""
        spans: dict[int, tuple[NDArray[np.float64], float]] = {}
        for _ in range(_STEPS_PER_POLL):
            if now >= until - 1e-9:
                break
            rates, progress = self._rates(state)
            paces = {
                name: float(progress[state.plan.groups[job.group]])
                if job.group in state.plan.groups
                else 1.0
                for name, job in self.jobs.items()
            }
            step = min(until - now, *(job.left(paces[n]) for n, job in self.jobs.items()), 1e9)
            step = max(step, 1e-6)
            held = spans.get(id(rates))
            spans[id(rates)] = (rates, step + (held[1] if held else 0.0))
            for name, job in self.jobs.items():
                job.advance(step, paces[name])
            now += step
        for rates, seconds in spans.values():
            amount += rates * seconds
            np.maximum(peak, rates[ROW["depth"]], out=peak)
        return now

    def _rates(self, state: _State) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Signals and progress at this moment."""
        names = [group for job in self.jobs.values() if (group := job.group) is not None]
        return state.at([*self._always(state), *names])

    @staticmethod
    def _always(state: _State) -> list[tuple[str, str]]:
        """Groups that are on as long as they exist."""
        return [name for name in state.plan.groups if name[0] == ""]

    def _active(self, second: float) -> list[tuple[int, EventConfig]]:
        return [(i, e) for i, e in enumerate(self._events) if e.active(second)]

    def _reading(self, second: float) -> Reading:
        reading = Reading()
        moment = self._folded(second - 1e-6)
        for event in self._tellers:
            if event.active(moment):
                event.reading(reading, self._wiring)
        return reading

    def _enter(self, second: float) -> _State:
        """The fabric from this moment on."""
        active = self._active(second)
        conditions = healthy(self._wiring)
        for _, event in active:
            event.touch(self._wiring, conditions, second)
        self._keep_latch(conditions, frozenset(i for i, _ in active))
        self._change_jobs([event for _, event in active])
        router = self._router(conditions.up)
        planner = Planner(self._wiring, router, conditions, self._traffic)
        if self._traffic.background:
            planner.add(("", "background"), self._background)
        for name, job in self.jobs.items():
            for stage, wish in self._wishes[name].items():
                planner.add((name, stage), wish)
            if job.habit.late > 0:
                planner.add((name, "early"), self._without(name, job.habit.late_host))
            if job.config.storage:
                planner.add((name, "checkpoint"), self._checkpoint(name))
        for i, event in active:
            for wish in event.wishes(self._wiring):
                planner.add(("", f"event {i}"), wish)
        state = _State(self._wiring, conditions, planner.finish())
        self._latched = (frozenset(i for i, _ in active), conditions.stuck)
        return state

    def _keep_latch(self, conditions: Conditions, active: frozenset[int]) -> None:
        """A deadlock outlives what happens beside it, until one of its reasons is taken away."""
        before, stuck = self._latched
        if stuck is not None and before <= active:
            conditions.stuck |= stuck

    def _router(self, up: NDArray[np.bool_]) -> Router:
        key = up.tobytes()
        if key not in self._routers:
            self._routers[key] = Router(self._wiring, up)
        return self._routers[key]

    def _change_jobs(self, active: Sequence[EventConfig]) -> None:
        habits = {name: Habit() for name in self.jobs}
        for event in active:
            event.habits(habits)
        for name, job in self.jobs.items():
            if habits[name].running and not job.habit.running:
                job.restart()
            if job.habit.late > 0 and not habits[name].late > 0:
                job.restart()  # what is left of this iteration would wait for nobody
            job.habit = habits[name]

    def _without(self, name: str, host: str) -> Wish:
        """The first stage of a job without what `host` sends."""
        wish = next(iter(self._wishes[name].values()))
        keep = self._wiring.source[wish.start] != self._wiring.device(host)
        return Wish(wish.start[keep], wish.end[keep], wish.share[keep])

    def _checkpoint(self, name: str) -> Wish:
        """Every host of a job writes to its storage hosts in turn."""
        job = self.jobs[name].config
        cards = np.sort(self._ranks(name)[0])
        stores = np.array([self._wiring.card(host) for host in job.storage], np.int32)
        into = np.resize(stores, len(cards))
        writers_per_store = np.ceil(len(cards) / len(stores))
        share = np.full(len(cards), min(0.8, 0.95 / float(writers_per_store)))
        return Wish(cards, into, share, coupled=False)


def place_jobs(wiring: Wiring, traffic: TrafficConfig) -> dict[str, tuple[str, ...]]:
    """Hosts of each job in rank order.

    Jobs take hosts in turn. `far` orders ranks so that neighbours sit on different leaves, `near`
    so that they share one where they can.
    """
    hosts = [
        n.name for n, tier in zip(wiring.topology.nodes, wiring.tier, strict=True) if tier == 0
    ]
    named = {h for job in traffic.jobs if isinstance(job.hosts, list) for h in job.hosts}
    stores = {h for job in traffic.jobs for h in job.storage}
    free = [h for h in hosts if h not in named | stores]
    counted = [job for job in traffic.jobs if not isinstance(job.hosts, list)]
    taken: dict[str, list[str]] = {job.name: [] for job in counted}
    wanted = {job.name: job.hosts or len(free) for job in counted}
    for i, host in enumerate(free):
        for j in range(len(counted)):
            name = counted[(i + j) % len(counted)].name
            if len(taken[name]) < wanted[name]:  # type: ignore[operator]  # counted: an int
                taken[name].append(host)
                break
    leaf = {
        int(s): int(t)
        for s, t in zip(wiring.source[wiring.cards], wiring.target[wiring.cards], strict=True)
    }
    placed: dict[str, tuple[str, ...]] = {}
    for job in traffic.jobs:
        own = job.hosts if isinstance(job.hosts, list) else taken[job.name]
        ranks = {leaf[wiring.device(h)]: 0 for h in own}
        turn: dict[str, tuple[int, int]] = {}
        for host in own:
            node = leaf[wiring.device(host)]
            turn[host] = (ranks[node], node) if job.order == "far" else (node, ranks[node])
            ranks[node] += 1
        placed[job.name] = tuple(sorted(own, key=turn.__getitem__))
    return placed
