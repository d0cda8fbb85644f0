"""Bars on a terminal, and nothing but data where there is none."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.daemon import FABRICMON, fabricmon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


def _on_a_terminal(folder: Path, *arguments: str) -> tuple[str, str]:
    """(stdout, what the terminal on stderr was sent)."""
    ours, theirs = pty.openpty()
    with (folder / "out").open("w+") as out:
        process = subprocess.Popen([FABRICMON, *arguments], stdout=out, stderr=theirs)
        os.close(theirs)
        shown = b"".join(_parts(ours))
        os.close(ours)
        assert process.wait(60) == 0, shown.decode()
        out.seek(0)
        return out.read(), shown.decode()


def _parts(terminal: int) -> Iterator[bytes]:
    """What is written to it, until its other end is closed, which Linux tells as an error."""
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            yield part


def test_long_work_shows_how_far_it_is(tmp_path: Path) -> None:
    """simulate, replay, report and evaluate each have a bar; what they print is still data."""
    dump = str(tmp_path / "dump")
    write = ("simulate", "incast", "--duration", "150s", "--write", dump)
    _, shown = _on_a_terminal(tmp_path, *write)
    assert "simulating incast" in shown
    assert "150/150" in shown
    for command, words in (
        (("replay", dump, "-o", "json"), "ticks judged"),
        (("report", dump, "-o", "json"), "ticks judged"),
        (("evaluate", dump, "-o", "json"), "dumps judged"),
    ):
        out, shown = _on_a_terminal(tmp_path, *command)
        assert words in shown, command
        assert json.loads(out)
    done = fabricmon("simulate", "incast", "--duration", "20s", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == []
