"""Dice for fabrics, traffic and harmless changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fabricmon.model.topology import Technology
from fabricmon.simulate.events import AnyEvent, JobChange, LinkDown, Load
from fabricmon.simulate.scenario import JobConfig, TopologyConfig, TrafficConfig, speed_bps

if TYPE_CHECKING:
    import numpy as np

    from fabricmon.simulate.fabric.wiring import Wiring

_ROCE_BPS = (100_000_000_000, 200_000_000_000, 400_000_000_000, 800_000_000_000)
_IB_SPEEDS: tuple[Literal["EDR", "HDR", "NDR", "XDR"], ...] = ("EDR", "HDR", "NDR", "XDR")


def draw_topology(
    rng: np.random.Generator, technology: Technology, *, slack: float = 1.0, plain: bool = False
) -> TopologyConfig:
    """A fabric of 16 to 72 hosts; `slack` is uplink over host capacity of a leaf.

    Mostly leaf-spine (`plain`: always), else a fat tree or rails.
    """
    if technology is Technology.INFINIBAND:
        speed: int | str = _IB_SPEEDS[int(rng.integers(len(_IB_SPEEDS)))]
    else:
        speed = _ROCE_BPS[int(rng.integers(len(_ROCE_BPS)))]
    bps = speed_bps(speed)
    shape: dict[str, object]
    dice = 1.0 if plain else rng.random()
    if dice < 0.12:
        shape = {
            "shape": "fat-tree",
            "k": int(rng.choice([4, 6])),
            "uplink_speed": round(bps * slack),
        }
    elif dice < 0.24:
        rails, hosts = int(rng.choice([2, 4])), int(rng.integers(8, 13))
        wide = bps * max(slack, 1.0) * hosts / 2
        shape = {"shape": "rails", "rails": rails, "hosts": hosts * 2, "hosts_per_leaf": hosts}
        shape |= {"spines": 2, "uplink_speed": round(wide)}
    else:
        spines = int(rng.choice([2, 3, 4]))
        hosts = spines * int(rng.choice([2, 3] if spines > 2 else [3, 4]))
        shape = {"leaves": int(rng.integers(4, 7)), "spines": spines, "hosts_per_leaf": hosts}
        shape |= {"uplink_speed": round(bps * hosts / spines * slack)}
    return TopologyConfig.model_validate({**shape, "speed": speed})


def draw_traffic(
    rng: np.random.Generator, hosts: int, *, intensity: float = 0.0, local: bool = False
) -> TrafficConfig:
    """One to three jobs with iterations of 2.5 to 8 seconds, and a little background."""
    count = int(rng.integers(1, 4)) if hosts >= 24 else int(rng.integers(1, 3))
    return TrafficConfig(
        jobs=[_job(rng, name, hosts // count, intensity, local=local) for name in "ABC"[:count]],
        background=float(rng.uniform(0.003, 0.015)),
        in_flight=int(2 ** rng.uniform(20, 23.5)),
        salt=int(rng.integers(1 << 20)),
    )


def _job(
    rng: np.random.Generator, name: str, hosts: int, intensity: float, *, local: bool
) -> JobConfig:
    collective = str(rng.choice(["ring", "ring", "ring", "tree", "all-to-all"]))
    far = not local and rng.random() < 0.7
    return JobConfig.model_validate(
        {
            "name": name,
            "hosts": hosts,
            "collective": collective,
            "compute": float(rng.uniform(1.2, 4.0)),
            "communicate": float(rng.uniform(1.2, 4.0)),
            "intensity": intensity or float(rng.uniform(0.7, 0.92)),
            "noise": float(rng.uniform(0.01, 0.05)),
            "order": "far" if far else "near",
            "skew": float(rng.uniform(0.02, 0.25)) if collective == "all-to-all" else 0.0,
        }
    )


def draw_benign(
    rng: np.random.Generator,
    wiring: Wiring,
    traffic: TrafficConfig,
    at: float,
    lasts: float,
    *,
    spare: bool = True,
) -> AnyEvent:
    """A change that operators make every day, and that harms nobody.

    An all-to-all congests as it is: uplinks are not taken from it, nor where none is to `spare`,
    and what others send on top of it makes hosts wait that never did.
    """
    choices = ["stop", "volume", "compute"]
    if all(job.collective != "all-to-all" for job in traffic.jobs):
        choices += ["load", "drain"] if spare else ["load"]
    job = traffic.jobs[int(rng.integers(len(traffic.jobs)))].name
    when = {"at": at, "lasts": lasts}
    match str(rng.choice(choices)):
        case "stop":
            return JobChange(do="job", job=job, running=False, **when)
        case "volume":
            return JobChange(do="job", job=job, volume=float(rng.uniform(0.5, 1.6)), **when)
        case "compute":
            return JobChange(do="job", job=job, compute=float(rng.uniform(0.6, 1.6)), **when)
        case "load":
            names = [n.name for n in wiring.topology.nodes if n.kind == "host"]
            picked = [str(n) for n in rng.permutation(names)[: max(2, len(names) // 4)]]
            shifted = picked[1:] + picked[:1]
            amount = float(rng.uniform(0.01, 0.05))
            return Load(do="load", sources=picked, sinks=shifted, intensity=amount, **when)
        case _:
            return drained(rng, wiring, at, lasts)


def drained(rng: np.random.Generator, wiring: Wiring, at: float, lasts: float) -> AnyEvent:
    """An uplink taken out of service by hand."""
    tier = wiring.tier
    up = (tier[wiring.source] == 1) & (tier[wiring.target] > 1)
    ports = [wiring.ports[i] for i in up.nonzero()[0]]
    port = ports[int(rng.integers(len(ports)))]
    link = f"{port.device}/{port.port}"
    return LinkDown(do="link-down", link=link, announced=True, at=at, lasts=lasts)
