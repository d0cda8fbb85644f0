"""What outlives a restart: the run goes on as if it had not been broken off."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.pipelines import batch, ports

from fabricmon import app, config, yamlfile
from fabricmon.config import StateConfig
from fabricmon.model.incident import IncidentKind, Verdict
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Job, Link, Node, PortId, Topology
from fabricmon.record.state import read_state, write_state
from fabricmon.runtime import pipeline as pipeline_room
from fabricmon.runtime.outside import Keeper
from fabricmon.simulate import catalogue, load
from fabricmon.web.api.history import History
from fabricmon.web.api.view import moment_json, port_json
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter
from fabricmon_exporters.prometheus.families import FAMILIES
from fabricmon_exporters.remote_write.encode import FabricEncoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.stream import Item
    from fabricmon.runtime.pipeline import Pipeline
    from fabricmon.testing import ManualClock

_S = 10**9
_START = 1_780_000_000 * _S
_AFTER = 16
"""Ticks that are looked at from the first incident on."""


@dataclass
class _Story:
    """The items of a scenario by tick, and how a run that is never broken off sees them."""

    fabric: str
    ticks: list[list[Item]]
    snapshots: list[Snapshot] = field(default_factory=list)


@pytest.fixture(scope="module")
def story() -> _Story:
    """A pause storm that opens before the middle and lasts."""
    scenario = next(s for s in catalogue() if s.name == "pfc-storm")
    simulation = load(scenario)
    found = _Story(simulation.fabric, [[]])
    for item in simulation.items():
        found.ticks[-1].append(item)
        if isinstance(item, Tick):
            found.ticks.append([])
    pipeline = app.make_pipeline(found.fabric, app.make_context(quiet=True))
    for items in found.ticks:
        found.snapshots.append(_tick(pipeline, items))
        if len(found.snapshots) >= _AFTER and found.snapshots[-_AFTER].incidents:
            break
    del found.ticks[len(found.snapshots) :]
    return found


def _tick(pipeline: Pipeline, items: Iterable[Item]) -> Snapshot:
    snapshots = [pipeline.feed(item) for item in items]
    assert snapshots[-1] is not None
    return snapshots[-1]


def _opened(story: _Story) -> int:
    """The tick at which the storm was first told of."""
    return len(story.snapshots) - _AFTER + 3


def _again(pipeline: Pipeline, path: Path, now_ns: int) -> Pipeline:
    """The pipeline of a new process, out of the old one's state file."""
    write_state(path, pipeline.save())
    saved = read_state(path)
    assert saved is not None
    fresh = app.make_pipeline(pipeline.fabric, app.make_context(quiet=True))
    fresh.restore(saved, now_ns)
    return fresh


def test_a_restart_changes_no_number_and_no_incident(story: _Story, tmp_path: Path) -> None:
    """Rates, totals, states, the window and every incident are what they would have been.

    Nor does the detector learn a second time: it fits forests from the rows of the run before.
    """
    breaks = _opened(story)
    pipeline = app.make_pipeline(story.fabric, app.make_context(quiet=True))
    for items in story.ticks[:breaks]:
        last = _tick(pipeline, items)
    pipeline = _again(pipeline, tmp_path / "state.npz", last.frame.time_ns + _S)
    for items, whole in zip(story.ticks[breaks:], story.snapshots[breaks:], strict=True):
        snapshot = _tick(pipeline, items)
        for name in ("rate", "total", "state", "queue_rate", "queue_total", "age_s"):
            mine, other = getattr(snapshot.frame, name), getattr(whole.frame, name)
            assert np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f"), name
        assert snapshot.window is not None
        assert whole.window is not None
        assert [i.id for i in snapshot.incidents] == [i.id for i in whole.incidents]
        assert [i.kind for i in snapshot.incidents] == [i.kind for i in whole.incidents]
    assert snapshot.job_cost == pytest.approx(whole.job_cost)
    ours, theirs = (s.window for s in (snapshot, whole))
    assert ours is not None
    assert theirs is not None
    assert np.array_equal(ours.past("stall"), theirs.past("stall"), equal_nan=True)
    assert not snapshot.scores.learning
    assert [IncidentKind.PFC_STORM] == [i.kind for i in snapshot.incidents]


# --- gaps ----------------------------------------------------------------------------------------


def _run(context: Context, polls: Iterable[int], pipeline: Pipeline | None = None) -> Pipeline:
    """Two ports that move 1000 bytes a second, polled every ten seconds."""
    pipeline = pipeline or app.make_pipeline("pod", context)
    for poll in polls:
        now = _START + poll * 10 * _S
        pipeline.feed(batch("t", ports("leaf", "1", "2"), 5_000 + poll * 10_000, now))
        pipeline.feed(Tick(now, 10.0))
    return pipeline


@pytest.mark.parametrize(
    ("away", "rate", "held"), [(1, 1000.0, 5), (20, 1000.0, 5), (3_000, None, 1), (-3, None, 1)]
)
def test_the_age_of_a_state_decides_what_it_is_good_for(
    context: Context, tmp_path: Path, away: int, rate: float | None, held: int
) -> None:
    """Within a window's time the first poll has the true mean rate; else it is a beginning."""
    pipeline = _run(context, range(4))
    back = 3 + away
    pipeline = _again(pipeline, tmp_path / "s.npz", _START + back * 10 * _S)
    latest = _run(context, [back], pipeline).latest
    assert latest is not None
    found = latest.frame.rate_of("rx_bytes")[0]
    assert found == rate if rate is not None else np.isnan(found)
    assert latest.frame.total[0].tolist() == [5_000 + back * 10_000] * 2
    assert latest.window is not None
    assert len(latest.window) == held


def test_a_source_that_repeats_its_past_after_a_restart_is_not_counted_twice(
    context: Context, tmp_path: Path
) -> None:
    """A file is read from its beginning again, and only after the first tick: old is old."""
    pipeline = _again(_run(context, range(8)), tmp_path / "s.npz", _START + 16 * 10 * _S)
    pipeline.feed(Tick(_START + 16 * 10 * _S, 10.0))
    now = _START + 17 * 10 * _S
    for poll in range(18):
        stamp = _START + poll * 10 * _S
        pipeline.feed(batch("t", ports("leaf", "1", "2"), 5_000 + poll * 10_000, stamp))
    snapshot = pipeline.feed(Tick(now, 10.0))
    assert snapshot is not None
    assert snapshot.frame.total[0].tolist() == [5_000 + 17 * 10_000] * 2
    assert snapshot.frame.rate_of("rx_bytes")[0] == 1000.0


def test_a_narrow_counter_begins_anew_after_a_gap(context: Context, tmp_path: Path) -> None:
    """A 32-bit counter may have wrapped twice meanwhile; a wide one, or a short break, cannot."""
    from dataclasses import replace

    from support.pipelines import COLUMNS

    narrow = tuple(replace(column, bits=32) for column in COLUMNS[:1]) + COLUMNS[1:]
    known = ports("leaf", "1")
    for away, states in ((1, [0, 0]), (10, [10, 0])):
        pipeline = app.make_pipeline("pod", context)
        for poll in (0, 1, 1 + away):
            if poll == 1 + away:
                now = _START + poll * 10 * _S
                pipeline = _again(pipeline, tmp_path / f"{away}.npz", now)
            now = _START + poll * 10 * _S
            reading = batch("t", known, poll * 1_000, now)
            pipeline.feed(replace(reading, columns=narrow))
            snapshot = pipeline.feed(Tick(now, 10.0))
        assert snapshot is not None
        assert [int(s) for s in snapshot.frame.state[:, 0]] == states


def test_a_fabric_that_was_rebuilt_meanwhile_is_not_remembered(
    context: Context, tmp_path: Path
) -> None:
    """The old shape serves until every target was asked; then only what they told counts."""
    old = Topology((Node("a", "switch"), Node("b", "switch")), jobs=(Job("j", ("h",)),))
    pipeline = app.make_pipeline("pod", context)
    pipeline.feed(old)
    pipeline.feed(Tick(_START, 10.0))
    pipeline = _again(pipeline, tmp_path / "s.npz", _START)
    assert [node.name for node in pipeline.topology.nodes] == ["a", "b"]
    pipeline.feed(Topology((Node("a", "switch"), Node("c", "switch"))))
    pipeline.rediscovered()
    assert [node.name for node in pipeline.topology.nodes] == ["a", "c"]
    assert pipeline.topology.jobs == old.jobs


# --- files ---------------------------------------------------------------------------------------


def _events(context: Context, event: str) -> float:
    registry = context.report.metrics.registry
    return registry.get_sample_value("fabricmon_self_events_total", {"event": event}) or 0.0


def _keeper(context: Context, path: Path) -> Keeper:
    written = StateConfig(directory=path.parent)
    return Keeper(written, path.stem, lambda: app.make_pipeline("pod", context), context)


async def test_a_keeper_saves_when_due(
    context: Context, clock: ManualClock, tmp_path: Path
) -> None:
    """Not at once, not at every look, but after its time and when told."""
    path = tmp_path / "deep" / "pod.npz"
    keeper, pipeline = _keeper(context, path), _run(context, range(2))
    keeper.keep(pipeline)
    assert not path.exists()
    await clock.advance(301)
    keeper.keep(pipeline)
    assert path.exists()
    path.unlink()
    keeper.keep(pipeline)
    assert not path.exists()
    keeper.keep(pipeline, now=True)
    assert [path] == list(path.parent.iterdir())


def test_a_first_start_is_cold_and_no_error(context: Context, tmp_path: Path) -> None:
    """Without a file the pipeline is the one that was built."""
    pipeline = app.make_pipeline("pod", context)
    assert _keeper(context, tmp_path / "none.npz").revive(pipeline) is pipeline
    assert _events(context, "state_refused") == 0


def test_a_broken_file_is_a_named_cold_start(context: Context, tmp_path: Path) -> None:
    """Cut at any place, flipped in any content, or of another kind: refused, counted, and cold."""
    path = tmp_path / "pod.npz"
    write_state(path, _run(context, range(3)).save())
    whole = path.read_bytes()
    generator = np.random.default_rng(4)
    pieces = [b"", b"nonsense" * 40]
    pieces += [whole[:at] for at in generator.integers(1, len(whole) - 1, 5).tolist()]
    for at in generator.choice(_content(path), 15).tolist():
        pieces.append(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    for piece in pieces:
        path.write_bytes(piece)
        pipeline = _keeper(context, path).revive(app.make_pipeline("pod", context))
        latest = _run(context, range(5, 7), pipeline).latest
        assert latest is not None
        assert latest.frame.rate_of("rx_bytes").tolist() == [1000.0, 1000.0]
    assert _events(context, "state_refused") == len(pieces)
    assert _events(context, "state_restored") == 0


def _content(path: Path) -> list[int]:
    """Where a file of state has content: the zip's own times may be wrong without harm."""
    data, places = path.read_bytes(), []
    with zipfile.ZipFile(path) as members:
        for member in members.infolist():
            lengths = struct.unpack_from("<HH", data, member.header_offset + 26)
            begin = member.header_offset + 30 + sum(lengths)
            places += range(begin, begin + member.compress_size)
    return places


@pytest.mark.parametrize("name", ["window.ring", "diagnoser.levels.high.stall", "table.device"])
def test_an_array_of_another_shape_is_refused(context: Context, tmp_path: Path, name: str) -> None:
    """A whole zip whose parts do not fit each other leaves nothing half restored."""
    saved = _run(context, range(3)).save()
    saved.write("pipeline", {"ticks": 3, "time_ns": context.clock.now_ns(), "interval_s": 10.0})
    saved.ports[name] = saved.ports[name][..., :1].repeat(7, axis=0)
    write_state(tmp_path / "pod.npz", saved)
    pipeline = _keeper(context, tmp_path / "pod.npz").revive(app.make_pipeline("pod", context))
    assert _events(context, "state_refused") == 1
    assert len(pipeline.table) == 0


def test_pickles_are_never_loaded(context: Context, tmp_path: Path) -> None:
    """An array of objects in the file is refused before anything of it runs."""
    write_state(tmp_path / "pod.npz", _run(context, range(3)).save())
    evil = tmp_path / "evil.npy"
    np.save(evil, np.array([print], object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "pod.npz", "a") as file:
        file.write(evil, "other.evil.npy")
    assert _keeper(context, tmp_path / "pod.npz").revive(app.make_pipeline("pod", context))
    assert _events(context, "state_refused") == 1


def test_a_state_beyond_the_limit_of_ports_is_refused(context: Context, tmp_path: Path) -> None:
    """A smaller `limits.ports` than before: a cold start under the new limit."""
    write_state(tmp_path / "pod.npz", _run(context, range(3)).save())
    loaded = config.accept(yamlfile.loads("limits: {ports: 1}", file="limits.yaml"))
    pipeline = app.make_pipeline("pod", context, loaded)
    _keeper(context, tmp_path / "pod.npz").revive(pipeline)
    assert _events(context, "state_refused") == 1


# --- rows ----------------------------------------------------------------------------------------


def _limited(context: Context, limit: int) -> Pipeline:
    loaded = config.accept(yamlfile.loads(f"limits: {{ports: {limit}}}", file="limits.yaml"))
    return app.make_pipeline("pod", context, loaded)


def test_rows_of_ports_long_gone_are_given_to_new_ones(context: Context) -> None:
    """The table is full of ports that nobody tells of any more: new ones take their rows."""
    pipeline = _limited(context, 6)
    cable = Topology(links=(Link(PortId("leaf", "1"), PortId("spine", "9")),))
    pipeline.feed(cable)
    stay, gone, late = ports("leaf", "1"), ports("old", "a", "b", "c"), ports("new", "x", "y", "z")
    page = PrometheusExporter(PrometheusConfig(), context)
    pushed, history = FabricEncoder("pod", FAMILIES, {}), History(1 << 30)
    for poll in range(140):
        now = _START + poll * 10 * _S
        pipeline.feed(batch("leaf", stay, poll * 1_000, now))
        if poll < 5:
            pipeline.feed(batch("old", gone, poll * 2_000, now))
        if poll > 70:
            pipeline.feed(batch("new", late, poll * 3_000, now))
        snapshot = pipeline.feed(Tick(now, 10.0))
        assert snapshot is not None
        page.publish(snapshot)
        list(pushed.requests(snapshot))
        history.add(snapshot)
        row = snapshot.table.row(PortId("leaf", "1"))
        assert row is not None
        if poll > 0:
            assert snapshot.frame.rate_of("rx_bytes")[row] == 100.0
            assert snapshot.window is not None
    named = {(port.device, port.port) for port in snapshot.table.ids}
    assert named == {("leaf", "1"), ("spine", "9"), ("new", "x"), ("new", "y"), ("new", "z")}
    rates = dict(zip(snapshot.table.ids, snapshot.frame.rate_of("rx_bytes").tolist(), strict=True))
    assert rates[PortId("new", "z")] == 300.0
    assert snapshot.table.peer[snapshot.table.row(PortId("leaf", "1"))] == snapshot.table.row(
        PortId("spine", "9")
    )
    assert snapshot.window.of_port(row)[5, -1] == 100.0
    assert _events(context, "ports_forgotten") >= 1

    text = page.page({}, openmetrics=False).body.decode()
    for (device, port), rate in ((PortId("new", "z"), 3_000), (PortId("leaf", "1"), 1_000)):
        labels = f'{{device="{device}",fabric="pod",port="{port}"}}'
        assert f"fabricmon_port_receive_bytes_total{labels} {rate * 139}.0" in text.replace(
            f" {rate * 139}\n", f" {rate * 139}.0\n"
        )
    assert 'device="old"' not in text
    sent = b"".join(request.body for request in pushed.requests(snapshot))
    fresh = FabricEncoder("pod", FAMILIES, {})
    assert len(sent) == len(b"".join(request.body for request in fresh.requests(snapshot)))
    assert b"old" not in sent
    moments = history.moments("pod")
    seen = port_json(snapshot, row, snapshot.window, moments)["rates"]["rx_bytes"]
    assert set(seen[1:]) == {100.0}
    assert moment_json(snapshot, moments[3])["tick"] == 4


def test_few_rows_are_not_worth_the_copying(context: Context) -> None:
    """Where there is room, a handful of rows stays; a port that returns has its own row again."""
    pipeline = _limited(context, 100)
    for poll in range(90):
        now = _START + poll * 10 * _S
        pipeline.feed(batch("leaf", ports("leaf", "1"), poll, now))
        if poll < 5 or poll == 89:
            pipeline.feed(batch("old", ports("old", "a"), poll, now))
        pipeline.feed(Tick(now, 10.0))
    assert _events(context, "ports_forgotten") == 0
    assert len(pipeline.table) == 2


def _fabric(snapshot: Snapshot) -> list[tuple[object, ...]]:
    """Incidents but those about telemetry: a crowd that went silent is no trouble once gone."""
    return [
        (i.id, i.kind, i.cause and i.cause.port, {(v.device, v.port) for v in i.victims})
        for i in snapshot.incidents
        if i.verdict is not Verdict.TELEMETRY
    ]


def test_giving_rows_back_changes_no_number_and_no_incident(
    story: _Story, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of rows go while a storm is on: beside a run that keeps them nothing differs."""
    opened = _opened(story)
    runs, stories = [], []
    for few in (pipeline_room._FEW_GONE, 10_000):
        monkeypatch.setattr(pipeline_room, "_FEW_GONE", few)
        pipeline = app.make_pipeline(story.fabric, context)
        snapshots, told = [], []
        for number, items in enumerate(story.ticks):
            if number == opened - 62:
                first = items[-1]
                assert isinstance(first, Tick)
                crowd = ports("crowd", *map(str, range(300)))
                pipeline.feed(batch("crowd", crowd, 1, first.time_ns))
            snapshots.append(_tick(pipeline, items))
            told.append(_fabric(snapshots[-1]))
        runs.append(snapshots)
        stories.append(told)
    assert _events(context, "ports_forgotten") == 1
    n = len(runs[0][-1].table)
    assert 300 + n == len(runs[1][-1].table)
    assert stories[0] == stories[1]
    assert stories[0][-1]
    old = [runs[1][-1].table.row(port) for port in runs[0][-1].table.ids]
    for signal in ("stall", "tx_use", "rx_pause"):
        mine, other = (run[-1].window.past(signal) for run in runs)
        assert np.array_equal(mine, other[:, old], equal_nan=True)
    anomaly, kept = (run[-1].scores.anomaly for run in runs)
    assert np.array_equal(anomaly, kept[old], equal_nan=True)
