"""What judges a fabric knows physics, and no scenario, no sample and no device by name."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support import ROOT, samples

from fabricmon.model.incident import IncidentKind
from fabricmon.simulate import catalogue, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_JUDGES = ("model", "normalize", "detect", "diagnose", "evaluate")
_SOURCES = sorted(path for room in _JUDGES for path in (ROOT / "fabricmon" / room).rglob("*.py"))
_REASONS = {"pfc-off", "lossless-drops", "ecn-late", "ecn-silent", "global-pause"}
_REASONS |= {"pfc-one-sided", "wrong-priority"}
"""Scenarios that are called by what must be said of them."""


def _literals(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every string that is no docstring and no comment."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


@cache
def _names() -> frozenset[str]:
    """Scenarios, sample folders, and what their devices and ports are called."""
    names = {scenario.name for scenario in catalogue()} - set(IncidentKind) - _REASONS
    topologies = [load(scenario).topology for scenario in catalogue()]
    for topology in topologies:
        names |= {node.name for node in topology.nodes}
        names |= {port for link in topology.links for end in (link.a, link.b) for port in end}
        names |= {job.name for job in topology.jobs}
    for folder in samples("labelled").iterdir():
        shape = json.loads((folder / "topology.json").read_text())
        names |= {folder.name, *(node["name"] for node in shape["nodes"])}
        names |= {name for link in shape["links"] for end in (link["a"], link["b"]) for name in end}
    files = samples("roce-production").rglob("*.csv.gz")
    names |= {"labelled", "roce-production", *(file.name.split("_")[0] for file in files)}
    words = {"host", "healthy"}  # what we call things ourselves
    return frozenset(name for name in names if len(name) > 2 and name not in words)


@pytest.mark.parametrize("path", _SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_that_judges_knows_a_name(path: Path) -> None:
    """No string in these rooms is, or holds as a word, a scenario's, a sample's or a device's."""
    known = {
        (line, word)
        for line, text in _literals(path)
        for word in {text, *re.findall(r"[\w./-]+", text)}
        if word in _names()
    }
    assert known == set()


def test_the_names_are_those_that_a_special_case_would_use() -> None:
    """The list the other test searches for holds scenarios, devices, ports and samples."""
    assert {"benign-checkpoint", "host9", "leaf0", "Ethernet4", "ls32_incast_s1"} <= _names()
