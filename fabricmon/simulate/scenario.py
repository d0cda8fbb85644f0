"""A scenario is one YAML file: a fabric, its traffic, what happens, and what must be said of it.

    title: Eight hosts send to one
    kind: incast                        # an incident kind, or healthy
    technology: roce                    # or infiniband
    topology: {shape: leaf-spine, leaves: 4, spines: 4, hosts_per_leaf: 8, speed: 100G}
    traffic:
      jobs:
        - {name: A, hosts: 16, collective: ring, compute: 2s, communicate: 2s}
    events:
      - {do: incast, at: 120s, lasts: 60s, to: host3, senders: 8}
    expect:
      - {kind: incast, cause: leaf0/Ethernet4, victims: [spine3/Ethernet1], within: 5}
    never: [slow-receiver]

Every key but `title`, `kind` and `technology` has a default. What `do:` can be is in `events`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from fabricmon.errors import ConfigError
from fabricmon.formats.infiniband.ibfabric import LANE_BPS
from fabricmon.model.incident import IncidentKind, Verdict
from fabricmon.model.topology import Technology
from fabricmon.settings import BitRate, Duration, Settings, Size, validate
from fabricmon.simulate.events import AnyEvent
from fabricmon.yamlfile import Document
from fabricmon.yamlfile import load as load_yaml

Speed = BitRate | Literal["SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"]
"""A rate such as 400G, or an InfiniBand speed name (four lanes)."""


def speed_bps(speed: int | str) -> float:
    """Bits per second of a `Speed`."""
    return LANE_BPS[speed] * 4 if isinstance(speed, str) else float(speed)


class TopologyConfig(Settings):
    """The shape. Over-subscription is what the numbers say: hosts' speed over uplinks' speed."""

    shape: Literal["leaf-spine", "fat-tree", "rails", "planes", "file"] = "leaf-spine"
    leaves: int = Field(4, ge=1, le=4096)
    spines: int = Field(4, ge=0, le=1024)
    hosts_per_leaf: int = Field(8, ge=1, le=1024)
    uplinks: int = Field(1, ge=1, le=64, description="cables from a leaf to each spine")
    k: int = Field(8, ge=2, le=64, description="fat-tree: ports of a switch")
    hosts: int = Field(0, ge=0, le=100_000, description="fat-tree, rails, planes: how many hosts")
    rails: int = Field(8, ge=1, le=16, description="rails, or planes: cards of a host")
    speed: Speed = 100_000_000_000
    uplink_speed: Speed | None = Field(None, description="left out: nothing is over-subscribed")
    file: Path | None = Field(None, description="an interchange topology.json or ibnetdiscover")


class JobConfig(Settings):
    """One training job. `communicate`: how long its collective takes with nothing in its way."""

    name: str
    hosts: int | list[str] = Field(0, description="how many, or which; 0 shares what is left")
    collective: Literal["ring", "tree", "all-to-all"] = "ring"
    compute: Duration = 2.0
    communicate: Duration = 2.0
    intensity: float = Field(0.9, gt=0, le=1, description="share of the card it sustains")
    noise: float = Field(0.03, ge=0, le=1, description="spread of the compute time")
    order: Literal["far", "near"] = "far"
    skew: float = Field(0.0, ge=0, le=2, description="all-to-all: how unequal receivers are")
    gpus_per_host: int = Field(8, ge=1)
    checkpoint: int = Field(0, ge=0, description="write to storage every so many iterations")
    checkpoint_time: Duration = 4.0
    storage: list[str] = Field(default_factory=list, description="hosts that take checkpoints")


class TrafficConfig(Settings):
    """Jobs and the rest."""

    jobs: list[JobConfig] = Field(
        default_factory=lambda: [JobConfig(name="A"), JobConfig(name="B", compute=1.7)]
    )
    background: float = Field(0.01, ge=0, le=0.5, description="share of every card")
    routing: Literal["static", "ecmp", "adaptive"] = "static"
    congestion_control: bool | None = Field(None, description="left out: on RoCE only")
    in_flight: Size = Field(4 << 20, description="bytes one flow of a collective has under way")
    salt: int = 0


class CollectorConfig(Settings):
    """How the counters are read."""

    paused_time: bool = Field(default=True, description="False: pause frames only (RoCE)")
    host_counters: bool = True
    per_device: bool = Field(
        default=True, description="one target per device; False: switches, hosts"
    )
    jitter: Duration = 0.004
    skip: float = Field(0.0, ge=0, le=0.5, description="share of polls that are lost")
    refresh: Duration | None = Field(None, description="devices renew their counters this often")
    omit: list[str] = Field(default_factory=list, description="counters that are not read")
    width: Literal[32, 64] = Field(64, description="bits of packet and discard counters")


class Expectation(Settings):
    """One incident that must be found."""

    kind: IncidentKind
    cause: str | list[str] = Field(default_factory=list, description="device/port or device; any")
    victims: list[str] = Field(default_factory=list, description="ports that must be among them")
    within: int = Field(8, ge=1, description="polls from the start of the event")
    verdict: Verdict | None = None
    reason: str = ""
    accept: list[IncidentKind] = Field(default_factory=list, description="kinds as good")

    @property
    def causes(self) -> tuple[str, ...]:
        """Any of these is right; empty: none can be named."""
        return (self.cause,) if isinstance(self.cause, str) else tuple(self.cause)


class ScenarioConfig(Settings):
    """The whole file."""

    title: str
    kind: str
    technology: Technology
    poll: Duration = 1.0
    duration: Duration = 240.0
    topology: TopologyConfig = TopologyConfig()
    traffic: TrafficConfig = TrafficConfig()
    collector: CollectorConfig = CollectorConfig()
    events: list[AnyEvent] = Field(default_factory=list)
    expect: list[Expectation] = Field(default_factory=list)
    never: list[IncidentKind] = Field(default_factory=list)
    silent: bool = Field(default=False, description="nothing at all may be reported")

    @model_validator(mode="after")
    def _kind_is_known(self) -> ScenarioConfig:
        known = ["healthy", *IncidentKind]
        if self.kind not in known:
            raise ValueError(f"kind {self.kind!r} is not one of {', '.join(known)}")
        return self


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that was read: its name and what the file says."""

    name: str
    config: ScenarioConfig
    document: Document | None = None

    @property
    def kind(self) -> str:
        """What it shows: an incident kind or `healthy`."""
        return self.config.kind

    @property
    def title(self) -> str:
        """One line."""
        return self.config.title

    @property
    def expect(self) -> tuple[Expectation, ...]:
        """What must be found."""
        return tuple(self.config.expect)

    @property
    def never(self) -> tuple[IncidentKind, ...]:
        """What must not be reported: every kind, where the file says `silent`."""
        return tuple(IncidentKind) if self.config.silent else tuple(self.config.never)


_FOLDER = Path(__file__).parent / "scenarios"


def read(name: str | Path) -> Scenario:
    """A built-in scenario by name, or any file. Raises `ConfigError` with file, line and key."""
    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        path = _FOLDER / f"{name}.yaml"
        if not path.exists():
            known = ", ".join(sorted(p.stem for p in _FOLDER.glob("*.yaml")))
            raise ConfigError(f"no scenario is called {str(name)!r}; known: {known}")
    document = load_yaml(path)
    return Scenario(path.stem, validate(ScenarioConfig, document), document)


def catalogue() -> list[Scenario]:
    """Every built-in scenario, by name."""
    return [read(path) for path in sorted(_FOLDER.glob("*.yaml"))]
