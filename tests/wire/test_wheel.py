"""The wheel, as somebody installs it who has no copy of the sources."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from support import ROOT
from support.daemon import running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `hatchling` builds of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_what_runs_and_nothing_else(wheel: Path) -> None:
    """Page, mappings and scenarios are in it; tests, docs and deployment are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "fabricmon",
        "fabricmon_exporters",
    }
    here = {
        str(path.relative_to(ROOT))
        for pattern in ("*.yaml", "*.js", "*.css", "*.html", "*.svg", "*.txt", "py.typed")
        for path in (ROOT / "fabricmon").rglob(pattern)
    }
    assert here <= set(names)


def test_it_serves_the_page_and_the_demo_from_a_clean_environment(
    wheel: Path, tmp_path: Path
) -> None:
    """Installed beside its locked dependencies alone, it shows an incident and stops when told."""
    environment = tmp_path / "venv"
    python, fabricmon = environment / "bin" / "python", environment / "bin" / "fabricmon"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    lock = str(ROOT / "requirements.lock")
    subprocess.run([*pip, "install", "--require-hashes", "-r", lock], check=True)
    subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True)
    subprocess.run([*pip, "check"], check=True)

    def said(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    where = said(str(python), "-c", "import fabricmon; print(fabricmon.__file__)")
    assert where.startswith(str(environment))
    assert "slow-receiver" in said(str(fabricmon), "simulate", "--list")
    assert "arista" in said(str(fabricmon), "mappings")
    with running(tmp_path, program=str(fabricmon)) as daemon:
        page = daemon.get("/")
        assert "/static/app.js" in page
        for path in ("/static/app.js", "/static/vendor-preact.js", "/static/style.css"):
            assert len(daemon.get(path)) > 1000, path
        daemon.wait(lambda: daemon.samples("fabricmon_incident_active"))
        assert daemon.json("/api/v1/status")["fabrics"][0]["name"] == "demo"
        assert daemon.stop()[0] == 0
