"""Episodes: a random fabric, a fault in it, and labels from its healthy twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.interchange import Label
from fabricmon.model.topology import Technology
from fabricmon.simulate.campaign.draw import draw_benign, draw_topology, draw_traffic
from fabricmon.simulate.campaign.faults import DRAW, Fault, Scene
from fabricmon.simulate.engine.counters import ROW
from fabricmon.simulate.fabric.wiring import wire
from fabricmon.simulate.run import EPOCH_NS, Simulation, build_topology, grown
from fabricmon.simulate.scenario import CollectorConfig, Scenario, ScenarioConfig
from fabricmon.simulate.workload.timeline import place_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from fabricmon.simulate.events import AnyEvent

_ROCE_ONLY = {"pfc-storm", "lossless-misconfig"}
KINDS: dict[Technology, tuple[str, ...]] = {
    Technology.ROCE: tuple(DRAW),
    Technology.INFINIBAND: tuple(kind for kind in DRAW if kind not in _ROCE_ONLY),
}
"""Which kinds make sense on which technology."""

_VICTIM_STALL = 0.02
"""A victim is held back for at least this share of the time more than in its healthy twin."""

_TRIES = 20
_OVERSUBSCRIBED = {"oversubscription"}


@dataclass(frozen=True, slots=True)
class Episode:
    """One labelled run. `labels` is empty for a healthy one."""

    simulation: Simulation
    labels: tuple[Label, ...]
    kind: str
    quiet_polls: int
    """Polls before the first fault, for detectors to learn."""
    iteration_s: float
    """Shortest iteration of a job."""


def episode(
    kind: str,
    *,
    seed: int,
    technology: Technology = Technology.ROCE,
    poll: float = 1.0,
    paused_time: bool = True,
    second: str | None = None,
    quiet_polls: int = 150,
    omit: Sequence[str] = (),
) -> Episode:
    """A fault of `kind` (and one of `second`) in a fabric drawn from `seed`.

    `omit` names counters that are not read, such as `link_downed` or `speed_bps`: sources differ.
    Draws that have no effect (a slow link nobody uses) are thrown away, at most twenty of them.
    """
    for attempt in range(_TRIES):
        rng = np.random.default_rng([seed, attempt, sorted(DRAW).index(kind)])
        reading = CollectorConfig(paused_time=paused_time, per_device=False, omit=list(omit))
        made = _attempt(rng, kind, second, technology, poll, quiet_polls, reading)
        if made is not None:
            return made
    raise ValueError(f"no {kind} came of seed {seed} on {technology.value}")


def _attempt(
    rng: np.random.Generator,
    kind: str,
    second: str | None,
    technology: Technology,
    poll: float,
    quiet_polls: int,
    reading: CollectorConfig,
) -> Episode | None:
    tight = kind in _OVERSUBSCRIBED or second in _OVERSUBSCRIBED
    slack = float(rng.uniform(0.3, 0.5)) if tight else float(rng.uniform(1.0, 1.5))
    topology = draw_topology(rng, technology, slack=slack, plain=tight)
    wiring = wire(build_topology(topology, technology))
    intensity = float(rng.uniform(0.3, 0.45)) * slack if tight else 0.0
    traffic = draw_traffic(rng, len(wiring.cards), intensity=intensity, local=tight)
    lasts = poll * int(rng.integers(20, 41))
    iteration = min(job.compute + job.communicate for job in traffic.jobs)
    if kind == "collective-stall":
        lasts = max(lasts, 12 * iteration)
    at = poll * quiet_polls + float(rng.uniform(0, 10 * poll))
    end = at + lasts + 25 * poll
    base = ScenarioConfig(
        title=f"a random {kind}",
        kind=kind,
        technology=technology,
        poll=poll,
        duration=round(end / poll) * poll,
        topology=topology,
        traffic=traffic,
        collector=reading,
    )
    first_poll, last_poll = int(at / poll) + 1, int((at + lasts) / poll)
    seed = int(rng.integers(1 << 31))

    def amounts(events: Sequence[AnyEvent]) -> NDArray[np.float64]:
        """float64[W,S,E]: amount per second in each poll, from the one in which it begins on."""
        config = base.model_copy(update={"duration": (last_poll + 1) * poll})
        run = Simulation(Scenario(kind, config), seed=seed)
        polls = [interval.amount for interval in run.intervals(events)]
        return np.array(polls[first_poll - 1 :]) / poll

    scene = Scene(
        rng,
        wiring,
        traffic,
        place_jobs(wiring, traffic),
        at,
        lasts,
        poll,
        lambda events: _mean(amounts(events))[ROW["stall"]],
    )
    faults = [DRAW[name](scene) for name in (kind, second) if name]
    benign = [] if rng.random() < 0.5 else [_early_change(rng, scene, quiet_polls * poll)]
    labels = _labels(faults, benign, amounts, scene)
    if labels is None:
        return None
    events = [*benign, *(event for fault in faults for event in fault.events)]
    config = base.model_copy(update={"events": events})
    simulation = Simulation(Scenario(f"{kind}-{seed}", config), seed=seed)
    return Episode(simulation, labels, kind, quiet_polls, iteration)


def _early_change(rng: np.random.Generator, scene: Scene, quiet_s: float) -> AnyEvent:
    """Something harmless in the middle of the quiet time."""
    at = float(rng.uniform(0.4, 0.7)) * quiet_s
    return draw_benign(rng, scene.wiring, scene.traffic, at, 0.15 * quiet_s, spare=False)


def _labels(
    faults: Sequence[Fault],
    benign: Sequence[AnyEvent],
    amounts: Callable[[Sequence[AnyEvent]], NDArray[np.float64]],
    scene: Scene,
) -> tuple[Label, ...] | None:
    """The truth, from twins that lack one fault each; None where a fault changes nothing.

    A fault begins with the first poll in which any counter of any port differs from its twin's.
    Of two faults, who would wait for either is a victim of both: mending one alone helps nobody.
    """
    polls = amounts([*benign, *(e for f in faults for e in f.events)])
    everything = _mean(polls)
    quiet = _mean(amounts(benign)) if len(faults) > 1 else None
    labels = []
    for fault in faults:
        others = [e for f in faults if f is not fault for e in f.events]
        healthy = amounts([*benign, *others])
        twin = _mean(healthy)
        if not _matters(everything, twin):
            return None
        worse = _waits(everything, twin)
        if quiet is not None:
            alone = _mean(amounts([*benign, *fault.events]))
            worse |= _waits(alone, quiet) & _waits(everything, quiet)
        if fault.kind == "pfc-deadlock" and not worse.any():
            return None  # the circle did not close
        labels.append(
            Label(
                kind=fault.kind,
                start_ns=EPOCH_NS + round(_shows(polls, healthy, scene) * 1e9),
                end_ns=EPOCH_NS + round((scene.at + scene.lasts) * 1e9),
                causes=fault.causes,
                victims=tuple(scene.wiring.ports[i] for i in np.flatnonzero(worse)),
                reason=fault.reason,
                accept=fault.accept,
                trigger=fault.trigger,
            )
        )
    return tuple(labels)


def _mean(polls: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[S,E]: mean amount per second over the polls that lie in the fault as a whole."""
    return np.asarray(polls[1:].mean(axis=0), np.float64)


def _waits(with_it: NDArray[np.float64], without: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool[E]: held back for noticeably longer."""
    more: NDArray[np.bool_] = with_it[ROW["stall"]] - without[ROW["stall"]] > _VICTIM_STALL
    return more


def _shows(with_it: NDArray[np.float64], without: NDArray[np.float64], scene: Scene) -> float:
    """Second at which the fault, or the first poll that it changes anything in, begins.

    A slow host cannot be seen while its job computes, nor can anybody say since when it is slow.
    """
    differs = ~np.isclose(with_it, without, rtol=1e-6, atol=1e-6).all(axis=(1, 2))
    first = (int(scene.at / scene.poll) + int(np.argmax(differs))) * scene.poll
    return max(scene.at, first) if differs.any() else scene.at


def _matters(with_it: NDArray[np.float64], without: NDArray[np.float64]) -> bool:
    """Whether somebody is held back, loses packets, or gets less through."""
    slower = with_it[ROW["bytes"]].sum() < 0.97 * without[ROW["bytes"]].sum()
    rare = sum(
        float(with_it[ROW[name]].sum() - without[ROW[name]].sum())
        for name in ("damaged", "egress_drops", "ingress_drops", "downs")
    )
    return bool(_waits(with_it, without).any() or slower or rare > 0.005)


def healthy_run(
    *,
    seed: int,
    technology: Technology = Technology.ROCE,
    poll: float = 10.0,
    hours: float = 24.0,
    ports: int = 0,
    changes_per_hour: float = 2.0,
    paused_time: bool = True,
) -> Episode:
    """A long run in which only harmless things happen, at least `changes_per_hour` of them.

    Uplinks have room to spare, so that taking one out of service harms nobody.
    """
    rng = np.random.default_rng([seed, 77])
    topology = draw_topology(rng, technology, slack=float(rng.uniform(1.6, 2.2)))
    if ports:
        topology = grown(topology, ports)
    wiring = wire(build_topology(topology, technology))
    traffic = draw_traffic(rng, len(wiring.cards))
    duration = hours * 3600
    count = int(np.ceil(hours * changes_per_hour))
    slot = duration / max(count, 1)
    events = [
        draw_benign(rng, wiring, traffic, (i + 0.3) * slot, float(rng.uniform(0.1, 0.5)) * slot)
        for i in range(count)
    ]
    config = ScenarioConfig(
        title="a healthy day",
        kind="healthy",
        technology=technology,
        poll=poll,
        duration=duration,
        topology=topology,
        traffic=traffic,
        collector=CollectorConfig(paused_time=paused_time, per_device=False),
        events=events,
        silent=True,
    )
    iteration = min(job.compute + job.communicate for job in traffic.jobs)
    simulation = Simulation(Scenario(f"healthy-{seed}", config), seed=seed)
    return Episode(simulation, (), "healthy", 0, iteration)
