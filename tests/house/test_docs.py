"""The docs say what is: generated pages are current, links lead somewhere, examples load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

from fabricmon import app
from fabricmon.cli import COMMANDS

_PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md"), *ROOT.glob("*.md")]
)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_the_config_reference_is_current(tmp_path: Path) -> None:
    """`docs/config.md` and its schema are what the models say now."""
    before = {p.name: p.read_text() for p in (ROOT / "docs").glob("config.*") if p.suffix != ".py"}
    copy = tmp_path / "config.py"
    copy.write_text((ROOT / "docs/config.py").read_text())
    subprocess.run([sys.executable, copy], check=True, cwd=tmp_path)
    assert before == {name: (tmp_path / name).read_text() for name in before}


@pytest.mark.parametrize("page", _PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of every page names a file that is there."""
    broken = [
        link
        for link in _LINK.findall(page.read_text())
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    "example", sorted((ROOT / "deploy/examples").glob("*.yaml")), ids=lambda p: p.name
)
def test_example_configs_are_good(example: Path) -> None:
    """Every example passes `fabricmon check`."""
    loaded = app.load(example)
    assembly = app.assemble(loaded, app.make_context(quiet=True), fetch=False)
    app.web_config(loaded)
    assert assembly.fabrics


def test_every_command_is_documented() -> None:
    """The README or a page of docs shows each command."""
    text = "".join(page.read_text() for page in _PAGES)
    assert [name for name in COMMANDS if f"fabricmon {name}" not in text] == []


def test_yaml_blocks_of_the_docs_are_good_configs() -> None:
    """A block that begins with `# fabricmon.yaml` loads as it stands."""
    blocks = [
        block
        for page in _PAGES
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        if block.startswith("# fabricmon.yaml")
    ]
    assert blocks
    for block in blocks:
        document = app.yamlfile.loads(block, file="<docs>")
        app.config_file.accept(document)
