"""What users write: one YAML file, validated whole, every error naming file, line and key.

    interval: 10s
    fabrics:
      - name: pod1
        technology: roce
        intent: {lossless_queues: [3], ecn: required}
        topology: {from: [lldp, file], file: topology.json}
    credentials:
      ro: {community: {file: /etc/fabricmon/community}}
    targets:
      - {collector: snmp, address: leaf1.example, credential: ro}
      - {collector: snmp, file_sd: [/etc/fabricmon/switches/*.yaml], credential: ro}
    collectors: {snmp: {max_repetitions: 50}}
    exporters: {prometheus: {}}

Sections that belong to a plug-in or a room (`collectors.KIND`, `exporters.KIND`, `detect`,
`diagnose`, `web`) are checked against the model that the plug-in or room declares; `app`
brings them together through `Loaded.section`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, Field, RootModel, model_validator

from fabricmon import yamlfile
from fabricmon.model.maintenance import MaintenanceWindow
from fabricmon.model.topology import Ecn, Intent, Technology
from fabricmon.settings import Duration, NatsAccess, Secret, Settings, Size, validate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabricmon.errors import ConfigError
    from fabricmon.yamlfile import Document

_SECRET_WORDS = re.compile(r"community|key$|password|passphrase|token|secret")

Label = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
"""A name that becomes a label value."""


class IntentConfig(Settings):
    """How the fabric is meant to be set. Misconfiguration is judged against this."""

    lossless_queues: list[Annotated[int, Field(ge=0, le=15)]] = []
    ecn: Ecn = Ecn.UNKNOWN

    def intent(self) -> Intent:
        """The model form."""
        return Intent(tuple(sorted(set(self.lossless_queues))), self.ecn)


class TopologyConfig(Settings):
    """Where the fabric's shape comes from; what comes later in the list wins."""

    from_: Annotated[
        list[Literal["discovery", "lldp", "ibnetdiscover", "gnmi", "file"]], Field(alias="from")
    ] = ["discovery"]
    file: Path | None = None
    refresh: Duration = 600.0

    @model_validator(mode="after")
    def _file_is_named(self) -> TopologyConfig:
        if ("file" in self.from_) != (self.file is not None):
            raise ValueError("`from: [file]` and `file: PATH` go together")
        return self


class FabricConfig(Settings):
    """One fabric: a back-end network, a storage network."""

    name: Label
    technology: Technology = Technology.ROCE
    intent: IntentConfig = IntentConfig()
    topology: TopologyConfig = TopologyConfig()


class LabelsConfig(Settings):
    """Which label of an inventory's entry has what."""

    name: str = "name"
    address: str = "address"
    credential: str = "credential"
    mapping: str = "mapping"


class TargetConfig(Settings):
    """One address to poll, or a list of them kept elsewhere (`file_sd`, `http_sd`)."""

    collector: str
    fabric: str = ""
    """May be left out where there is one fabric."""
    name: str = ""
    """The `target` label; the address where left out."""
    address: str = ""
    file_sd: list[str] = []
    http_sd: str = ""
    http_sd_authorization: Secret | None = None
    """What to send as `Authorization` with `http_sd`, such as `Token …` for NetBox."""
    labels: LabelsConfig = LabelsConfig()
    credential: str = ""
    mapping: str = ""
    options: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_source(self) -> TargetConfig:
        given = [bool(self.address), bool(self.file_sd), bool(self.http_sd)]
        if sum(given) != 1:
            raise ValueError("give exactly one of address, file_sd, http_sd")
        if self.name and not self.address:
            raise ValueError("`name` goes with `address`; discovered targets bring their own")
        if self.labels != LabelsConfig() and self.address:
            raise ValueError("`labels` goes with file_sd and http_sd")
        if self.http_sd_authorization and not self.http_sd:
            raise ValueError("`http_sd_authorization` goes with `http_sd`")
        return self


class CredentialConfig(RootModel[dict[str, Secret | str | int | bool]]):
    """Words and secrets that say how to reach. A mapping (`file:`, `env:`) is a secret."""

    @model_validator(mode="after")
    def _secrets_are_elsewhere(self) -> CredentialConfig:
        for key, value in self.root.items():
            if _SECRET_WORDS.search(key) and not isinstance(value, Secret):
                raise ValueError(f"`{key}` is a secret: give it as {{file: PATH}} or {{env: NAME}}")
        return self

    def secrets(self) -> dict[str, Secret]:
        """The secrets by name."""
        return {key: value for key, value in self.root.items() if isinstance(value, Secret)}

    def options(self) -> dict[str, str]:
        """The plain words by name."""
        return {k: str(value) for k, value in self.root.items() if not isinstance(value, Secret)}


class LogConfig(Settings):
    """How fabricmon logs, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"


class LimitsConfig(Settings):
    """Ceilings on what devices can invent. What is beyond them is refused and counted."""

    ports: Annotated[int, Field(ge=1)] = 200_000
    targets: Annotated[int, Field(ge=1)] = 20_000


class JobsConfig(Settings):
    """Where the map from hosts to jobs comes from; read again every `refresh`."""

    file: Path | None = None
    command: list[str] = []
    format: Literal["auto", "yaml", "slurm", "kubernetes", "prometheus"] = "auto"
    gpus_per_host: Annotated[int, Field(ge=1)] = 8
    refresh: Duration = 60.0

    @model_validator(mode="after")
    def _one_source(self) -> JobsConfig:
        if self.file is not None and self.command:
            raise ValueError("give either `file` or `command`")
        return self


class RecordConfig(Settings):
    """Write down everything that is read, so that it can be replayed."""

    directory: Path
    rotate: Duration = 3600.0
    """A new file this often."""
    keep: Size = 10 << 30
    """Oldest files go beyond this many bytes per fabric; 0 keeps all."""


class ClusterConfig(NatsAccess):
    """Several daemons as one, over NATS JetStream (server 2.9 or newer)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")] = "fabricmon"
    """Clusters of different names on one server do not see each other."""
    worker: str = ""
    """This worker's name, by which its work finds back to it; the host name where left out."""
    shards: Annotated[int, Field(ge=1, le=1024)] = 32
    """Parts that the targets are dealt in; the same for all workers, many more than workers."""
    ttl: Annotated[Duration, Field(ge=1)] = 10.0
    """The work of a worker that died is taken over within this; the same for all workers."""
    members: Annotated[int, Field(ge=1)] = 1
    """So many workers are waited for, two `ttl` at most, before targets are dealt."""
    history: Annotated[Duration, Field(ge=10)] = 1200.0
    """How much of the past a judge that joins reads; more than `topology.refresh`."""
    max_bytes: Annotated[Size, Field(ge=1 << 20)] = 4 << 30
    """The same in bytes on the server's disk."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Servers that keep the log and the leases."""
    buffer: Size = 64 << 20
    """What waits in memory while the server is away; beyond it the oldest is dropped."""


class StateConfig(Settings):
    """Keep what a restart should not lose: window, baselines, open incidents, last readings."""

    directory: Path
    every: Duration = 300.0
    """Saved this often, when incidents open or close (at most once a minute), and at the stop."""


class MaintenanceConfig(Settings):
    """A window of planned work: incidents there are kept and marked, alerts are not fired."""

    device: Label
    port: str = ""
    fabric: str = ""
    from_: Annotated[AwareDatetime, Field(alias="from")]
    to: AwareDatetime
    comment: str = ""

    def window(self) -> MaintenanceWindow:
        """The model form."""
        start, end = (round(at.timestamp() * 1e9) for at in (self.from_, self.to))
        return MaintenanceWindow(
            self.device, start, end, self.port, self.fabric, self.comment, "config"
        )


class Config(Settings):
    """The whole file. Everything has a default: an empty file is a valid config."""

    interval: Duration = 10.0
    fabrics: list[FabricConfig] = [FabricConfig(name="fabric")]
    targets: list[TargetConfig] = []
    credentials: dict[str, CredentialConfig] = {}
    collectors: dict[str, Any] = {}
    exporters: dict[str, Any] = {"prometheus": {}}
    detect: dict[str, Any] = {}
    diagnose: dict[str, Any] = {}
    record: RecordConfig | None = None
    state: StateConfig | None = None
    cluster: ClusterConfig | None = None
    web: dict[str, Any] = {}
    log: LogConfig = LogConfig()
    limits: LimitsConfig = LimitsConfig()
    jobs: JobsConfig = JobsConfig()
    maintenance: list[MaintenanceConfig] = []


_S = TypeVar("_S", bound=BaseModel)


_DEMO = """\
# What `fabricmon run` does without a config: an embedded simulated fabric with changing faults.
interval: 1s
fabrics:
  - {name: demo, technology: roce, intent: {lossless_queues: [3], ecn: required}}
targets:
  - {collector: simulated, name: simulated, address: demo}
"""

_DEMO_NAME = "<built-in demo>"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A config and the file it came from, for errors found later."""

    config: Config
    document: Document

    def section(self, path: tuple[str | int, ...], model: type[_S]) -> _S:
        """Validate the part at `path` as `model`; a part that was not written gives defaults."""
        data: Any = self.document.data
        for part in path:
            data = data.get(part) if isinstance(data, dict) else data[part]
            if data is None:
                data = {}
        return validate(model, self.document, data, path)

    def error(self, message: str, path: tuple[str | int, ...] = ()) -> ConfigError:
        """An error that points at `path` in the file."""
        return self.document.error(message, path)

    def again(self) -> Loaded:
        """The same file as it is now; the demo never changes. Raises `ConfigError`."""
        return self if self.document.file == _DEMO_NAME else load(Path(self.document.file))


def load(path: Path | None) -> Loaded:
    """Read and validate one file; without one, the demo's. Raises `ConfigError`."""
    if path is None:
        return accept(yamlfile.loads(_DEMO, file=_DEMO_NAME))
    return accept(yamlfile.load(path))


def accept(document: Document) -> Loaded:
    """Validate a document as a config; an empty one is valid. Raises `ConfigError`."""
    if document.data is None:
        document = yamlfile.Document(document.file, {}, document.lines)
    if not isinstance(document.data, dict):
        raise document.error("a config is a mapping of keys to values")
    config = validate(Config, document)
    loaded = Loaded(config, document)
    _check_names(loaded)
    return loaded


def _check_names(loaded: Loaded) -> None:
    """Names that point elsewhere in the file must point at something."""
    config = loaded.config
    fabrics = [fabric.name for fabric in config.fabrics]
    if not fabrics:
        raise loaded.error("at least one fabric is needed", ("fabrics",))
    for i, name in enumerate(fabrics):
        if name in fabrics[:i]:
            raise loaded.error(f"{name!r} is given twice", ("fabrics", i, "name"))
    seen: set[tuple[str, str]] = set()
    for i, target in enumerate(config.targets):
        at: tuple[str | int, ...] = ("targets", i)
        if target.credential and target.credential not in config.credentials:
            known = _listing(config.credentials)
            raise loaded.error(f"unknown; credentials are: {known}", (*at, "credential"))
        if target.fabric and target.fabric not in fabrics:
            raise loaded.error(f"unknown; fabrics are: {', '.join(fabrics)}", (*at, "fabric"))
        if not target.fabric and len(fabrics) > 1:
            raise loaded.error(f"say which fabric: {', '.join(fabrics)}", at)
        key = (target.fabric or fabrics[0], target.name or target.address)
        if target.address and key in seen:
            raise loaded.error(f"target {key[1]!r} is given twice", at)
        seen.add(key)


def _listing(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"
