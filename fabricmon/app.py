"""The composition root: builds every component by hand from the config.

Constructors are inert, so building is cheap and touches nothing; `fabricmon check` stops here.
Only `Daemon.start` and `offline.drive` bring what is built to life.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fabricmon import config as config_file
from fabricmon import evaluate, plugins
from fabricmon.api import Context, Credential, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.guard import Guard
from fabricmon.config import RecordConfig
from fabricmon.diagnose import DiagnoseConfig, Diagnoser
from fabricmon.errors import ConfigError, PluginError
from fabricmon.formats import interchange
from fabricmon.model.maintenance import Maintenance
from fabricmon.model.ports import PortTable
from fabricmon.model.stream import Tick
from fabricmon.model.window import Window
from fabricmon.normalize import Normalizer
from fabricmon.record import Writer
from fabricmon.record.source import open_source
from fabricmon.runtime import inventory, offline
from fabricmon.runtime.assembly import Assembly, FabricPlan
from fabricmon.runtime.cluster import Cluster
from fabricmon.runtime.daemon import Daemon
from fabricmon.runtime.doctor import Patient
from fabricmon.runtime.offline import drive
from fabricmon.runtime.outside import Keeper, job_map, topology_file
from fabricmon.runtime.pipeline import Pipeline, Stages
from fabricmon.selfmon import Reporter, configure_logging
from fabricmon.settings import Settings, validate
from fabricmon.web.config import WebConfig, split_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fabricmon.api import Detector, Exporter, Page
    from fabricmon.config import FabricConfig, Loaded
    from fabricmon.evaluate import Run
    from fabricmon.model.readings import ReadingBatch
    from fabricmon.model.stream import Item
    from fabricmon.model.topology import Intent, Topology
    from fabricmon.runtime.inventory import Shard
    from fabricmon.runtime.once import Outcome
    from fabricmon.web.server import WebServer

_DEADLINE = 0.9
"""Share of the interval one poll of one target may take ..."""
_PATIENCE_S = 10.0
"""... or this long, where the interval is short: a slow target is not a dead one."""


load = config_file.load


def make_context(
    loaded: Loaded | None = None,
    *,
    quiet: bool = False,
    level: str | None = None,
    fmt: str | None = None,
) -> Context:
    """Clock and reporter; `quiet` counts events without logging them."""
    clock = SystemClock()
    if quiet:
        return Context(clock, Reporter(clock))
    log = loaded.config.log if loaded else config_file.LogConfig()
    logger = configure_logging(level or log.level, fmt or log.format)
    return Context(clock, Reporter(clock, logger))


def web_config(loaded: Loaded, **given: Any) -> WebConfig:
    """The `web` section; what was given on the command line wins."""
    section = loaded.section(("web",), WebConfig)
    chosen = {key: value for key, value in given.items() if value is not None}
    if section.state_file is None and (state := loaded.config.state) is not None:
        chosen.setdefault("state_file", state.directory / "web.json")
    try:
        return WebConfig.model_validate({**section.model_dump(), **chosen})
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(str(first["msg"]), key=f"--web.{first['loc'][0]}") from error


def intent_of(loaded: Loaded | None) -> Intent | None:
    """The declared intent of the config's first fabric, for replay under a config."""
    return loaded.config.fabrics[0].intent.intent() if loaded else None


def make_pipeline(
    fabric: str,
    context: Context,
    loaded: Loaded | None = None,
    *,
    intent: Intent | None = None,
    taps: Sequence[Callable[[Item], None]] = (),
    maintenance: Maintenance | None = None,
) -> Pipeline:
    """One fabric's pipeline, under the config's `detect`, `diagnose` and `limits`."""
    limit = loaded.config.limits.ports if loaded else config_file.LimitsConfig().ports
    table = PortTable(limit)
    diagnose = loaded.section(("diagnose",), DiagnoseConfig) if loaded else DiagnoseConfig()
    factory, detect = _detector(loaded)
    stages = Stages(
        table,
        Normalizer(table, fabric, context),
        Window(),
        factory(detect, context),
        Diagnoser(diagnose, fabric, context),
        detect,
        diagnose,
    )
    return Pipeline(fabric, stages, context, intent=intent, taps=taps, maintenance=maintenance)


def _detector(loaded: Loaded | None) -> tuple[Callable[[Settings, Context], Detector], Settings]:
    """The detector's class and its config."""
    written: dict[str, Any] = dict(loaded.config.detect) if loaded else {}
    factory = _plugin(loaded, plugins.DETECTORS, written.pop("kind", "forest"), ("detect", "kind"))
    if loaded is None:
        return factory, factory.Config()
    return factory, validate(factory.Config, loaded.document, written, ("detect",))


def _plugin(loaded: Loaded | None, group: str, kind: str, at: tuple[str | int, ...]) -> Any:
    """The plug-in class; an error names the place in the config that asked for it."""
    try:
        return plugins.find(group, kind)
    except PluginError as error:
        if loaded is None:
            raise
        raise loaded.error(str(error), at) from error


# --- the daemon ------------------------------------------------------------------------------


def assemble(
    loaded: Loaded, context: Context, *, fetch: bool = True, shard: Shard | None = None
) -> Assembly:
    """Everything the config asks for, built and inert. Raises `ConfigError`.

    With `fetch` off, targets behind `http_sd` are left out: nothing is touched (`check`).
    With a `shard`, only its targets are taken.
    """
    config = loaded.config
    maintenance = Maintenance(window.window() for window in config.maintenance)
    targets = [
        (kind, target)
        for kind, target in _targets(loaded, fetch=fetch)
        if shard is None or shard.owns(target.name)
    ]
    if len(targets) > config.limits.targets:
        raise loaded.error(f"{len(targets)} targets; the limit is {config.limits.targets}")
    plans = [
        _plan(loaded, fabric, targets, context, maintenance, shard) for fabric in config.fabrics
    ]
    exporters: dict[str, Exporter] = {}
    settings: dict[str, Settings] = {}
    for kind in sorted(config.exporters):
        factory = _plugin(loaded, plugins.EXPORTERS, kind, ("exporters", kind))
        settings[kind] = loaded.section(("exporters", kind), factory.Config)
        exporters[kind] = factory(settings[kind], context)
    elsewhere = any(target.file_sd or target.http_sd for target in config.targets)
    probe = _make_probe(loaded, context)
    return Assembly(
        {plan.pipeline.fabric: plan for plan in plans},
        exporters,
        settings,
        maintenance,
        probe,
        refresh_s=60.0 if elsewhere else 0.0,
    )


def _targets(loaded: Loaded, *, fetch: bool) -> Iterator[tuple[str, Target]]:
    """(collector, target) for every target, those kept elsewhere included."""
    config = loaded.config
    credentials = {
        name: Credential(name, written.secrets(), written.options())
        for name, written in config.credentials.items()
    }
    names: set[tuple[str, str]] = set()
    for i, written in enumerate(config.targets):
        for entry in inventory.entries(written, loaded.document, ("targets", i), fetch=fetch):
            credential = entry.credential or written.credential
            if credential and credential not in credentials:
                raise loaded.error(
                    f"{entry.address}: unknown credential {credential!r}", ("targets", i)
                )
            fabric = written.fabric or config.fabrics[0].name
            if (fabric, entry.name) in names:
                raise loaded.error(f"target {entry.name!r} is given twice", ("targets", i))
            names.add((fabric, entry.name))
            yield (
                written.collector,
                Target(
                    fabric,
                    entry.name,
                    entry.address,
                    credentials.get(credential),
                    entry.mapping or written.mapping,
                    written.options or None,
                ),
            )


def _plan(
    loaded: Loaded,
    fabric: FabricConfig,
    targets: Sequence[tuple[str, Target]],
    context: Context,
    maintenance: Maintenance,
    shard: Shard | None,
) -> FabricPlan:
    config, record, jobs = loaded.config, loaded.config.record, loaded.config.jobs
    writer = record and Writer(
        record.directory / fabric.name,
        fabric.name,
        context.report,
        rotate_s=record.rotate,
        keep_bytes=record.keep,
    )
    intent, taps = fabric.intent.intent(), [writer.write] if writer else []

    def make() -> Pipeline:
        return make_pipeline(
            fabric.name, context, loaded, intent=intent, taps=taps, maintenance=maintenance
        )

    kept_as = fabric.name if shard is None else f"{fabric.name} {shard}"
    return FabricPlan(
        make(),
        _guards(loaded, fabric, targets, context),
        config.interval,
        fabric.topology.refresh,
        shape=_shape(fabric, context),
        jobs=partial(job_map, jobs, context.report) if jobs.file or jobs.command else None,
        jobs_s=jobs.refresh,
        close=writer.close if writer else lambda: None,
        keeper=Keeper(config.state, kept_as, make, context)
        if config.state and not config.cluster  # whose state is on its log
        else None,
    )


def _guards(
    loaded: Loaded, fabric: FabricConfig, targets: Sequence[tuple[str, Target]], context: Context
) -> list[Guard]:
    """A fabric's collectors, one a kind, each behind its guard."""
    config, guards = loaded.config, list[Guard]()
    deadline_s = max(_DEADLINE * config.interval, _PATIENCE_S)
    for kind in sorted({kind for kind, target in targets if target.fabric == fabric.name}):
        own = [target for k, target in targets if (k, target.fabric) == (kind, fabric.name)]
        at = next(i for i, written in enumerate(config.targets) if written.collector == kind)
        factory = _plugin(loaded, plugins.COLLECTORS, kind, ("targets", at, "collector"))
        section = loaded.section(("collectors", kind), factory.Config)
        section = _told(section, fabric.intent.intent(), config.interval)
        collector = factory(section, own, context)
        guards.append(Guard(kind, collector, section, own, context, deadline_s))
    return guards


def _told(section: Settings, intent: Intent, interval_s: float) -> Settings:
    """What a collector may be told and is not: the lossless priorities, how often it is polled."""
    known = {"queues": list(intent.lossless_queues), "interval": interval_s}
    told = {name: known[name] for name in known if getattr(section, name, 0) in ([], None)}
    return section.model_copy(update=told) if told else section


def _shape(
    fabric: FabricConfig, context: Context
) -> tuple[Callable[[], Topology | None] | None, ...]:
    """Where the shape comes from, in the config's order; None stands for the devices."""
    path = fabric.topology.file
    if path is None:
        return (None,)
    order = dict.fromkeys("file" if word == "file" else "" for word in fabric.topology.from_)
    read = partial(topology_file, path, context.report)
    return tuple(read if word else None for word in order)


def _make_probe(loaded: Loaded, context: Context) -> Callable[[Target, Guard], Awaitable[Page]]:
    async def probe(target: Target, guard: Guard) -> Page:
        async with asyncio.timeout(max(_DEADLINE * loaded.config.interval, _PATIENCE_S)):
            poll = await guard.collector.poll(target)
        return await asyncio.to_thread(_page, loaded, context, {target.fabric: poll.batches})

    return probe


def _page(loaded: Loaded, context: Context, batches: Mapping[str, Sequence[ReadingBatch]]) -> Page:
    """One poll through pipelines of their own, by fabric, rendered by an exporter of its own."""
    quiet = Context(context.clock, Reporter(context.clock))
    factory = plugins.find(plugins.EXPORTERS, "prometheus")
    exporter = factory(factory.Config(), quiet)
    for fabric in loaded.config.fabrics:
        if fabric.name in batches:
            pipeline = make_pipeline(fabric.name, quiet, loaded, intent=fabric.intent.intent())
            for batch in batches[fabric.name]:
                pipeline.feed(batch)
            tick = Tick(context.clock.now_ns(), loaded.config.interval)
            exporter.publish(pipeline.feed(tick))
    page: Page = exporter.page({}, openmetrics=False)
    return page


def make_daemon(
    loaded: Loaded, context: Context, web: WebConfig, shard: Shard | None = None
) -> tuple[Daemon, WebServer]:
    """The daemon and its web server, inert. With a `shard` it polls that part of the targets."""
    from fabricmon.web.server import WebServer  # noqa: PLC0415 - aiohttp, which `check` need not pay

    cluster = Cluster(loaded.config.cluster, context) if loaded.config.cluster else None
    if cluster and shard:
        raise loaded.error("a cluster deals the targets itself: leave --shard out", ("cluster",))

    def built(given: Loaded) -> Assembly:
        document = cluster.config.merged(given.document) if cluster else given.document
        return assemble(config_file.accept(document), context, shard=shard)

    daemon = Daemon(built(loaded), lambda: built(loaded.again()), context)
    if cluster:
        daemon.join(cluster)
    server = WebServer(web, context, daemon, daemon)
    daemon.serve(server)
    return daemon, server


def patient(loaded: Loaded, context: Context) -> Patient:
    """What the doctor examines."""
    web = web_config(loaded)
    return Patient(loaded, assemble(loaded, context), context, split_address(web.listen_address))


def render_once(loaded: Loaded, context: Context, outcomes: Sequence[Outcome]) -> str:
    """One poll of every target as a Prometheus page, for node_exporter's textfile collector."""
    batches: dict[str, list[ReadingBatch]] = {fabric.name: [] for fabric in loaded.config.fabrics}
    for outcome in outcomes:
        if outcome.poll is not None and outcome.target.fabric in batches:
            batches[outcome.target.fabric].extend(outcome.poll.batches)
    return _page(loaded, context, batches).body.decode()


async def write_recording(
    loaded: Loaded, context: Context, directory: Path, seconds: float | None
) -> None:
    """Poll and write recordings into `directory`, for so long or until SIGTERM."""

    def recording(given: Loaded) -> Assembly:
        update = {"record": RecordConfig(directory=directory), "exporters": {}, "state": None}
        config = given.config.model_copy(update=update)
        return assemble(replace(given, config=config), context)

    daemon = Daemon(recording(loaded), lambda: recording(loaded.again()), context)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, daemon.request_stop)
    await daemon.run()


def judge(path: Path, context: Context, loaded: Loaded | None = None, *, thin: int = 1) -> Run:
    """What the product says of one labelled dump, using every `thin`-th poll."""
    known = path / interchange.LABELS
    labels = interchange.read_labels(known.read_bytes(), str(known)) if known.is_file() else ()
    source = open_source([path], report=context.report, intent=intent_of(loaded))
    pipeline = make_pipeline(source.fabric, context, loaded)
    watcher = evaluate.Watcher()
    drive(offline.thinned(source.items(), thin), pipeline, watcher.see)
    return watcher.run(path.name, labels, thin=str(thin))
