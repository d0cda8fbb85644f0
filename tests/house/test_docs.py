"""The docs say what is: generated pages are current, links lead somewhere, examples load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from support import ROOT

from fabricmon import app, config, yamlfile
from fabricmon.cli import COMMANDS
from fabricmon.mappings.snmp import SnmpMappings, oid
from fabricmon.model.snapshot import Snapshot
from fabricmon.runtime.offline import drive
from fabricmon.simulate import load

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


@pytest.mark.parametrize(
    "example", sorted((ROOT / "deploy/examples").glob("*.yaml")), ids=lambda p: p.name
)
def test_editors_take_the_examples_too(example: Path) -> None:
    """The JSON Schema for editors allows what the models allow, and knows a wrong word."""
    schema = json.loads((ROOT / "docs/config.schema.json").read_text())
    document = yamlfile.load(example).data
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "fabrics": [{"name": "a", "technology": "x"}]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "tragets": []}, schema)


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
        config.accept(yamlfile.loads(block, file="<docs>"))


def _example(name: str, folder: Path) -> Path:
    """The block of CONTRIBUTING.md that begins with the file's name, written to `folder`."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    (block,) = [b for b in blocks if b.startswith(f"# {name}\n")]
    path = folder / Path(name).name
    path.write_text(block)
    return path


def test_the_example_of_a_vendor_is_a_mapping(tmp_path: Path) -> None:
    """It loads from a folder of one's own, fits its device, and adds to what it inherits."""
    _example("fabricmon/mappings/snmp/acme.yaml", tmp_path)
    mappings = SnmpMappings([tmp_path])
    profile = mappings.choose(oid("1.3.6.1.4.1.99999.1.7"), "Acme AOS 7.2")
    assert profile.name == "acme"
    assert {"rx_pfc_frames", "rx_pfc_ns", "queue_discards"} <= set(profile.by_counter)
    assert profile.by_counter.keys() > mappings.profile("generic").by_counter.keys()
    assert profile.by_counter["rx_pfc_ns"][0].column().scale == 1000


def test_the_example_of_a_scenario_is_told_as_it_says(tmp_path: Path) -> None:
    """The whole pipeline finds what the example expects, in time, and nothing it forbids."""
    simulation = load(_example("fabricmon/simulate/scenarios/slow-reader.yaml", tmp_path))
    begun: dict[str, int] = {}

    def see(snapshot: Snapshot) -> None:
        for incident in snapshot.incidents:
            begun.setdefault(incident.id, snapshot.tick)

    pipeline = app.make_pipeline(simulation.fabric, app.make_context(quiet=True))
    outcome = drive(simulation.items(), pipeline, see)
    scenario = simulation.scenario
    (expected,) = scenario.expect
    (event,) = scenario.config.events
    found = [i for i in outcome.worst_first() if i.kind is expected.kind]
    assert [f"{i.cause.device}/{i.cause.port}" for i in found if i.cause] == [expected.cause]
    assert found[0].verdict is expected.verdict
    assert event.at < begun[found[0].id] <= event.at + expected.within
    assert not {i.kind for i in outcome.worst_first()} & set(scenario.never)
