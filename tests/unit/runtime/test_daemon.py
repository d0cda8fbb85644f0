"""Reloads of a daemon whose pieces fail at the worst moment: the old config stays, whole."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.pipelines import batch, make_pipeline, ports
from support.selfmon import events, metric

from fabricmon.api import Context, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.guard import Guard
from fabricmon.model.maintenance import Maintenance
from fabricmon.model.readings import Poll
from fabricmon.runtime.assembly import Assembly, FabricPlan
from fabricmon.runtime.daemon import Daemon
from fabricmon.selfmon import Reporter
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_INTERVAL_S = 0.05


class _Named(Settings):
    """Two that differ make a component that has to begin anew."""

    name: str = ""


class _Piece:
    """An exporter and a collector in one: it keeps what is done to it, and breaks where told."""

    Config = _Named

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks
        self.loop = asyncio.get_running_loop()
        self.life: list[str] = []
        self.used = asyncio.Event()
        self._polls = 0

    async def start(self) -> None:
        self.life.append("start")
        if self.breaks:
            raise RuntimeError("no such luck")

    async def stop(self) -> None:
        self.life.append("stop")

    def publish(self, _snapshot: object) -> None:
        self.loop.call_soon_threadsafe(self.used.set)

    def forget(self, fabric: str) -> None:
        self.life.append(f"forget {fabric}")

    async def discover(self, _target: Target) -> None:
        return None

    async def poll(self, target: Target) -> Poll:
        self.used.set()
        self._polls += 1
        return Poll([batch(target.name, ports("leaf", "p1"), self._polls, self._polls)])


def _context() -> Context:
    clock = SystemClock()
    return Context(clock, Reporter(clock))


def _assembly(
    context: Context, exporters: dict[str, _Piece], fabrics: dict[str, _Piece], name: str = ""
) -> Assembly:
    """Each fabric read by its piece; every piece has `name` as its config."""
    plans = {}
    for fabric, collector in fabrics.items():
        target = Target(fabric, f"t-{fabric}", "nowhere")
        guard = Guard("piece", collector, _Named(name=name), [target], context, 1.0)
        plans[fabric] = FabricPlan(make_pipeline(context, fabric), [guard], _INTERVAL_S, 600.0)
    settings: dict[str, Settings] = dict.fromkeys(exporters, _Named(name=name))

    async def probe(*_: Any) -> Any:
        raise NotImplementedError

    return Assembly(plans, dict(exporters), settings, Maintenance(), probe)


@asynccontextmanager
async def _running(
    context: Context, now: Assembly, later: Callable[[], Assembly]
) -> AsyncIterator[Daemon]:
    daemon = Daemon(now, later, context)
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.stop()


async def _used_again(piece: _Piece) -> None:
    """Returns once the piece polled, or was given a tick, from now on."""
    piece.used.clear()
    async with asyncio.timeout(20):
        await piece.used.wait()


async def test_exporters_started_beside_one_that_fails_are_stopped_again() -> None:
    """The first new exporter started well, the second did not: neither stays, the old one does."""
    context, old, first, second = _context(), _Piece(), _Piece(), _Piece(breaks=True)
    source = _Piece()
    now = _assembly(context, {"a": old}, {"pod": source})
    new = _assembly(context, {"a": first, "b": second}, {"pod": source}, "changed")
    async with _running(context, now, lambda: new) as daemon:
        with pytest.raises(RuntimeError):
            await daemon.reload()
        assert first.life == ["start", "stop"]
        assert second.life == ["start", "stop"]
        assert old.life == ["start"]
        await _used_again(old)
        assert metric(context, "fabricmon_config_last_reload_successful") == 0


async def test_a_collector_that_does_not_start_leaves_every_fabric_as_it_was() -> None:
    """Of two fabrics the second's new collector fails: the first goes on with its old one too."""
    context, exporter = _context(), _Piece()
    old = {"one": _Piece(), "two": _Piece()}
    new = {"one": _Piece(), "two": _Piece(breaks=True), "three": _Piece()}
    now = _assembly(context, {"a": exporter}, old)
    changed = _assembly(context, {"a": exporter}, new, "changed")
    changed.settings = now.settings
    async with _running(context, now, lambda: changed) as daemon:
        with pytest.raises(RuntimeError):
            await daemon.reload()
        for source in old.values():
            assert source.life == ["start"]
            await _used_again(source)
        assert new["one"].life == ["start", "stop"]
        assert {target.fabric for target in daemon.targets()} == {"one", "two"}
        while not daemon.ready():
            await _used_again(old["two"])


async def test_a_reload_that_cannot_be_built_is_a_failed_one() -> None:
    """A bug in building shows in the metric and the events as a bad config does."""
    context = _context()

    def broken() -> Assembly:
        raise ZeroDivisionError

    async with _running(context, _assembly(context, {}, {"pod": _Piece()}), broken) as daemon:
        with pytest.raises(ZeroDivisionError):
            await daemon.reload()
    assert events(context, "config_rejected") == 1
    assert metric(context, "fabricmon_config_last_reload_successful") == 0


async def test_targets_kept_elsewhere_are_applied_only_where_they_are_others() -> None:
    """Asked again for the same targets, nothing is begun anew; for others, it is a reload."""
    context, exporter, source = _context(), _Piece(), _Piece()
    now = _assembly(context, {"a": exporter}, {"pod": source})
    same = _assembly(context, {"a": exporter}, {"pod": source})
    other = _assembly(context, {"a": exporter}, {"pod": _Piece()}, "changed")
    answers, closed = [same, other], []
    same.fabrics["pod"].close = lambda: closed.append("same")
    async with _running(context, now, lambda: answers.pop(0)) as daemon:
        await daemon.refresh()
        assert closed == ["same"]
        assert events(context, "config_reloaded") == 0
        assert source.life == ["start"]
        await daemon.refresh()
        assert events(context, "config_reloaded") == 1
        assert source.life == ["start", "stop"]


async def test_fabrics_and_targets_come_and_go() -> None:
    """A new fabric is ticked, a dropped one is forgotten and let go of, the rest goes on."""
    context, exporter = _context(), _Piece()
    kept, gone, fresh = _Piece(), _Piece(), _Piece()
    now = _assembly(context, {"a": exporter}, {"kept": kept, "gone": gone})
    new = _assembly(context, {"a": exporter}, {"kept": kept, "fresh": fresh})
    async with _running(context, now, lambda: new) as daemon:
        for source in (kept, gone):
            await _used_again(source)
        await daemon.reload()
        for source in (kept, fresh):
            await _used_again(source)
        while "fresh" not in daemon.snapshots():
            await _used_again(exporter)
        assert set(daemon.windows()) == set(daemon.snapshots()) == {"kept", "fresh"}
    assert kept.life == fresh.life == ["start", "stop"]
    assert gone.life == ["start", "stop"]
    assert exporter.life == ["start", "forget gone", "stop"]
    assert metric(context, "fabricmon_config_last_reload_successful") == 1


async def test_an_exporter_that_fails_costs_only_itself() -> None:
    """Its error is counted at every tick; the others are given every tick."""
    context, good = _context(), _Piece()

    class Bad(_Piece):
        def publish(self, _snapshot: object) -> None:
            raise OSError("full")

    now = _assembly(context, {"bad": Bad(), "good": good}, {"pod": _Piece()})
    async with _running(context, now, lambda: now):
        await _used_again(good)
        await _used_again(good)
    assert events(context, "component_failed") >= 2


async def test_a_component_that_does_not_stop_is_left_behind() -> None:
    """SIGTERM ends the daemon though an exporter hangs; that is counted."""
    context = _context()

    class Stuck(_Piece):
        async def stop(self) -> None:
            await asyncio.sleep(3600)

    now = _assembly(context, {"stuck": Stuck()}, {"pod": _Piece()})
    async with _running(context, now, lambda: now):
        pass
    assert events(context, "component_failed") == 1
