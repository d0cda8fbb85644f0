"""A fabric's state file: written when due, and refused whole where it is broken or does not fit."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.pipelines import limited
from support.restarts import steady
from support.selfmon import events

from fabricmon import app
from fabricmon.config import StateConfig
from fabricmon.record.state import write_state
from fabricmon.runtime.outside import Keeper

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.testing import ManualClock


def _keeper(context: Context, path: Path) -> Keeper:
    written = StateConfig(directory=path.parent)
    return Keeper(written, path.stem, lambda: app.make_pipeline("pod", context), context)


async def test_a_keeper_saves_when_due(
    context: Context, clock: ManualClock, tmp_path: Path
) -> None:
    """Not at once, not at every look, but after its time and when told."""
    path = tmp_path / "deep" / "pod.npz"
    keeper, pipeline = _keeper(context, path), steady(context, range(2))
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
    assert events(context, "state_refused") == 0


def test_a_broken_file_is_a_named_cold_start(context: Context, tmp_path: Path) -> None:
    """Cut at any place, flipped in any content, or of another kind: refused, counted, and cold."""
    path = tmp_path / "pod.npz"
    write_state(path, steady(context, range(3)).save())
    whole = path.read_bytes()
    generator = np.random.default_rng(4)
    pieces = [b"", b"nonsense" * 40]
    pieces += [whole[:at] for at in generator.integers(1, len(whole) - 1, 5).tolist()]
    for at in generator.choice(_content(path), 15).tolist():
        pieces.append(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    for piece in pieces:
        path.write_bytes(piece)
        pipeline = _keeper(context, path).revive(app.make_pipeline("pod", context))
        latest = steady(context, range(5, 7), pipeline).latest
        assert latest is not None
        assert latest.frame.rate_of("rx_bytes").tolist() == [1000.0, 1000.0]
    assert events(context, "state_refused") == len(pieces)
    assert events(context, "state_restored") == 0


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
    saved = steady(context, range(3)).save()
    saved.write("pipeline", {"ticks": 3, "time_ns": context.clock.now_ns(), "interval_s": 10.0})
    saved.ports[name] = saved.ports[name][..., :1].repeat(7, axis=0)
    write_state(tmp_path / "pod.npz", saved)
    pipeline = _keeper(context, tmp_path / "pod.npz").revive(app.make_pipeline("pod", context))
    assert events(context, "state_refused") == 1
    assert len(pipeline.table) == 0


def test_pickles_are_never_loaded(context: Context, tmp_path: Path) -> None:
    """An array of objects in the file is refused before anything of it runs."""
    write_state(tmp_path / "pod.npz", steady(context, range(3)).save())
    evil = tmp_path / "evil.npy"
    np.save(evil, np.array([print], object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "pod.npz", "a") as file:
        file.write(evil, "other.evil.npy")
    assert _keeper(context, tmp_path / "pod.npz").revive(app.make_pipeline("pod", context))
    assert events(context, "state_refused") == 1


def test_a_state_beyond_the_limit_of_ports_is_refused(context: Context, tmp_path: Path) -> None:
    """A smaller `limits.ports` than before: a cold start under the new limit."""
    write_state(tmp_path / "pod.npz", steady(context, range(3)).save())
    _keeper(context, tmp_path / "pod.npz").revive(limited(context, 1))
    assert events(context, "state_refused") == 1
