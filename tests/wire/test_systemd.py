"""The unit, as systemd reads it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support import ROOT, require
from support.daemon import FABRICMON

from fabricmon.cli import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.wire

UNIT = ROOT / "deploy" / "systemd" / "fabricmon.service"
DROP_IN = ROOT / "deploy" / "systemd" / "infiniband.conf"
MOST = 2.5
"""The exposure, of 10, that the unit may have."""


@pytest.fixture(params=[False, True], ids=["plain", "infiniband"])
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The unit with the program where it is here, and with the drop-in or without."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/fabricmon/bin/fabricmon", FABRICMON))
    if request.param:
        folder = tmp_path / f"{UNIT.name}.d"
        folder.mkdir()
        (folder / DROP_IN.name).write_text(DROP_IN.read_text())
    return path


def _analyze(*arguments: str) -> str:
    done = subprocess.run(
        [require("systemd-analyze"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout + done.stderr


def test_systemd_has_nothing_to_say_against_it(unit: Path) -> None:
    """`systemd-analyze verify` is silent."""
    assert _analyze("verify", str(unit)) == ""


def test_it_is_hardened(unit: Path) -> None:
    """`systemd-analyze security` rates it at 2.5 or better."""
    said = _analyze("security", "--offline=true", f"--threshold={MOST * 10:.0f}", str(unit))
    exposure = re.search(r"exposure level for fabricmon.service: ([\d.]+)", said)
    assert exposure is not None
    assert float(exposure[1]) <= MOST


def test_it_starts_what_is_there() -> None:
    """The options of `ExecStart` exist, and what is written is in the state directory."""
    (line,) = re.findall(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.MULTILINE)
    done = CliRunner().invoke(main, [*line.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "--web.state-file=%S/fabricmon/" in line
    assert "StateDirectory=fabricmon" in UNIT.read_text()
