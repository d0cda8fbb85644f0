"""Every example of README and docs is tried: configs are checked, commands parsed, some run."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

import click
import helm_python
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML
from support import ROOT

from fabricmon import yamlfile
from fabricmon.cli import COMMANDS, main
from fabricmon.config import TargetConfig
from fabricmon.runtime import inventory

if TYPE_CHECKING:
    from pathlib import Path

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`((?:fabricmon|make) [^`]+)`")
_SPOKEN = re.compile(r"`fabricmon (is|listens|shows) ")
CONFIG = "fabricmon.yaml"
ELSEWHERE = {"fabricmon/mappings/snmp/acme.yaml", "fabricmon/simulate/scenarios/slow-reader.yaml"}
"""Tried to the end by test_docs."""

OTHERS = {"curl", "eval", "fabricmon", "helm", "kubectl", "pip", "podman", "sudo", "systemctl"}


class Example(NamedTuple):
    """A piece of a page."""

    page: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.name}"


def _fenced(language: str) -> list[Example]:
    """Blocks of that language; a comment on the first line names the file it is."""
    found = []
    for page in PAGES:
        for kind, text in _FENCE.findall(page.read_text()):
            if kind == language:
                first = re.match(r"# (\S+)\n", text)
                where = str(page.relative_to(ROOT))
                found.append(Example(where, first[1] if first else CONFIG, text))
    return found


def _commands() -> list[Example]:
    """Every command in a block or in running text."""
    found = []
    for page in PAGES:
        where, text = str(page.relative_to(ROOT)), page.read_text()
        spans = [" ".join(span.split()) for span in _SPAN.findall(_SPOKEN.sub("", text))]
        blocks = [block for kind, block in _FENCE.findall(text) if kind == "console"]
        lines = [
            line.removeprefix("$ ").strip()
            for block in blocks
            for line in block.replace("\\\n", " ").splitlines()
            if line.startswith("$ ")
        ]
        found += [Example(where, one, one) for one in [*spans, *lines]]
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        lines = (command.epilog or "").splitlines()[2:]
        found += [Example(f"{name} --help", line.strip(), line.strip()) for line in lines]
    return sorted(set(found))


def _make(text: str) -> bool:
    """Whether the Makefile has every target that is named."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = [word for word in text.split()[1:] if word[0] != "-" and "=" not in word]
    return set(words) <= targets


def _parsed(text: str) -> click.Context:
    """The command line, by click's own parser; paths and names in capitals are placeholders."""
    words = shlex.split(text, comments=True)
    words = words[words.index("fabricmon") + 1 :] if "fabricmon" in words else words[1:]
    root = click.Context(main)
    named = not words[0].startswith("-")
    command = main.get_command(root, words[0].replace("COMMAND", "run")) if named else main
    assert command is not None, f"no command {words[0]}"
    context = click.Context(command, info_name=words[0])
    given, _, order = command.make_parser(context).parse_args(words[named:])
    for parameter in order:
        value = given.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)
    return context


@pytest.mark.parametrize("example", _commands(), ids=str)
def test_a_command_that_is_shown_exists(example: Example) -> None:
    """Command, options and their choices are there; so are targets of make."""
    text = re.sub(r"^(\w+=\S+ )*(\S*/)?fabricmon ", "fabricmon ", example.text)
    text = text.split(" | ")[0].split(" > ")[0]
    if text.startswith("make "):
        assert _make(text)
    elif text.startswith("fabricmon "):
        _parsed(text)
    else:
        assert text.split()[0] in OTHERS, text


@pytest.mark.parametrize("example", _fenced("yaml"), ids=str)
def test_a_file_that_is_shown_is_good(example: Example, tmp_path: Path) -> None:
    """Configs pass `fabricmon check`, inventories give targets, values make a chart."""
    path = tmp_path / example.name.rpartition("/")[2]
    if example.name == CONFIG:
        (tmp_path / "switches.yaml").write_text("[{targets: ['leaf2.example']}]")
    path.write_text(example.text.replace("/etc/fabricmon/switches", f"{tmp_path}/switches"))
    match path.name:
        case "fabricmon.yaml":
            done = CliRunner().invoke(main, ["check", str(path)])
            assert done.exit_code == 0, done.output
        case "switches.yaml":
            written = TargetConfig(collector="snmp", file_sd=[str(path)])
            document = yamlfile.loads("", file="fabricmon.yaml")
            assert list(inventory.entries(written, document, (), fetch=False))
        case "values.yaml":
            with helm_python.Chart.load(ROOT / "deploy/helm/fabricmon") as chart:
                assert chart.render(YAML(typ="safe").load(example.text), name="x", namespace="y")
        case _:
            assert example.name in ELSEWHERE


def test_the_first_incident_is_what_the_simulator_tells() -> None:
    """The text that the page explains is what the command under it prints, numbers aside."""
    page = (ROOT / "docs/first-incident.md").read_text()
    shown = _FENCE.search(page)
    command = re.search(r"^\(`fabricmon (.*)`\)$", page, re.MULTILINE)
    assert shown is not None
    assert command is not None
    done = CliRunner().invoke(main, command[1].split())
    assert done.exit_code == 0, done.output

    def outline(text: str) -> list[str]:
        lines = re.sub(r"\bid [0-9a-f]{12}", "id", text).splitlines()
        return [re.sub(r"[\d.]+", "N", line) for line in lines]

    expected = outline(shown[2])
    assert outline(done.output)[: len(expected)] == expected


def test_the_readme_shows_top_as_it_is() -> None:
    """The columns in the picture are those of the program."""
    source = (ROOT / "fabricmon/cli/_top.py").read_text()
    titles = re.findall(r'\("(\w+)", \d+\)', source)
    (picture,) = [t for k, t in _FENCE.findall((ROOT / "README.md").read_text()) if " open, " in t]
    assert len(titles) > 8
    assert [title for title in titles if title not in picture.split()] == []


def test_the_container_is_built_of_what_is_there() -> None:
    """What is copied exists, what runs is rootless, and the command is one of ours."""
    text = (ROOT / "deploy/container/Containerfile").read_text()
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
        for word in line.split()
    ]
    assert len(copied) >= 5
    assert [word for word in copied if not (ROOT / word).exists()] == []
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["65532:65532"]
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert json.loads(entry)[0].endswith("/fabricmon")
    _parsed(shlex.join(["fabricmon", *json.loads(command)]))
