"""The house rules that lint cannot see."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support import ROOT

import fabricmon.cli
from fabricmon import plugins

_SOURCES = sorted(
    path for room in ("fabricmon", "exporters") for path in (ROOT / room).rglob("*.py")
)
_CATALOGUES = {"cli", "rules", "mappings", "scenarios"}


def _project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("path", _SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_stay_short(path: Path) -> None:
    """A module over 400 lines is two modules."""
    assert len(path.read_text().splitlines()) <= 400


def test_rooms_stay_small() -> None:
    """More than ten modules in a folder that is no catalogue is two rooms."""
    folders: dict[Path, int] = {}
    for path in _SOURCES:
        if path.name != "__init__.py":
            folders[path.parent] = folders.get(path.parent, 0) + 1
    full = {
        str(folder.relative_to(ROOT)): count
        for folder, count in folders.items()
        if count > 10 and folder.name not in _CATALOGUES
    }
    assert {"fabricmon": 10} | full == {"fabricmon": 10}, full


def test_only_clock_reads_real_time() -> None:
    """Everything else takes a Clock, so that hours of daemon life run in milliseconds."""
    pattern = re.compile(r"\btime\.(time|monotonic|perf_counter)(_ns)?\(|datetime\.now\(|utcnow\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _SOURCES
        if path.name != "clock.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert [] == found


def test_every_command_is_one_file_with_help() -> None:
    """The table of commands and the folder agree, and each command explains itself."""
    files = {p.stem for p in (ROOT / "fabricmon/cli").glob("*.py")} - {"__init__", "common"}
    assert set(fabricmon.cli.COMMANDS) == {name for name in files if not name.startswith("_")}


def test_entry_points_load() -> None:
    """Every built-in comes through the same door as an outsider's plug-in, and loads."""
    declared = _project()["project"]["entry-points"]  # type: ignore[index]
    for group, points in declared.items():
        for kind in points:
            found = plugins.find(group, kind)
            assert hasattr(found, "Config") or group == plugins.RULES, f"{group}:{kind}"


def test_every_test_states_its_fact() -> None:
    """A test without a docstring does not say what it proves."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert [] == silent


def test_help_is_light() -> None:
    """`--help` imports none of the heavy libraries."""
    code = (
        "import sys, click.testing, fabricmon.cli as c;"
        "click.testing.CliRunner().invoke(c.main, ['--help']);"
        "heavy = {'numpy','sklearn','pyarrow','aiohttp','pysnmp','pydantic'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


def test_check_imports_nothing_heavy(tmp_path: Path) -> None:
    """Constructors are inert: `check` builds everything without the libraries that do the work."""
    config = tmp_path / "fabricmon.yaml"
    config.write_text(
        "targets:\n"
        "  - {collector: snmp, address: 127.0.0.1, name: a, credential: ro}\n"
        "  - {collector: infiniband, address: mlx5_0, name: b}\n"
        f"  - {{collector: gnmi_file, address: {tmp_path}, name: c}}\n"
        "credentials: {ro: {community: {env: FM_COMMUNITY}}}\n"
        "exporters: {prometheus: {}}\n"
    )
    code = (
        "import sys, click.testing, fabricmon.cli as c;"
        f"r = click.testing.CliRunner().invoke(c.main, ['check', {str(config)!r}]);"
        "assert r.exit_code == 0, r.output;"
        "heavy = {'sklearn','scipy','pyarrow','pysnmp','grpc','aiohttp'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "[]" == done.stdout.strip(), done.stdout + done.stderr
