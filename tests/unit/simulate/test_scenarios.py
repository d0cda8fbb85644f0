"""The scenario files, and what happens to a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fabricmon.errors import ConfigError
from fabricmon.formats import interchange
from fabricmon.model.incident import IncidentKind
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Technology, Topology
from fabricmon.simulate import Scenario, catalogue, load

if TYPE_CHECKING:
    from pathlib import Path

SCENARIOS = catalogue()

TINY = """\
title: A newcomer's first scenario
kind: slow-receiver
technology: roce
duration: 20s
topology: {leaves: 2, spines: 2, hosts_per_leaf: 4, speed: 400G}
events:
  - {do: slow-receiver, at: 5s, lasts: 10s, host: host1, takes: 0.3}
expect:
  - {kind: slow-receiver, cause: leaf0/Ethernet2}
"""


def test_every_kind_has_a_scenario() -> None:
    """All kinds of incident but the one that means "none of them" are shown by a file."""
    shown = {scenario.kind for scenario in SCENARIOS}
    assert set(IncidentKind) - {"unclassified"} <= shown
    assert "healthy" in shown


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_expected_places_exist(scenario: Scenario) -> None:
    """Causes and victims that a file names are ports or devices of its fabric."""
    wiring = load(scenario).wiring
    for expected in scenario.expect:
        for place in (*expected.causes, *expected.victims):
            if "/" in place:
                wiring.port(place)
            else:
                wiring.device(place)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_scenario_expects_its_own_kind_or_silence(scenario: Scenario) -> None:
    """`kind` is among what is expected; a healthy one expects nothing and forbids something."""
    kinds = {expected.kind for expected in scenario.expect}
    if scenario.kind == "healthy":
        assert not kinds
        assert scenario.never
    else:
        assert scenario.kind in kinds
        assert not kinds & set(scenario.never)


def test_one_file_is_a_scenario(tmp_path: Path) -> None:
    """A newcomer's file runs from its path: topology first, then a tick a poll."""
    path = tmp_path / "mine.yaml"
    path.write_text(TINY)
    simulation = load(path)
    items = list(simulation.items())
    assert isinstance(items[0], Topology)
    assert sum(isinstance(item, Tick) for item in items) == 20
    assert simulation.scenario.name == "mine"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kind: slow-receiver\ntech", "kind: slow-reciever\ntech", "mine.yaml:1"),
        ("do: slow-receiver", "do: slow-motion", "mine.yaml:7"),
        ("takes: 0.3", "takes: 3", "mine.yaml:7: events[0].takes"),
        ("leaves: 2", "leafs: 2", "mine.yaml:5: topology.leafs: unknown key"),
        ("host: host1", "host: host99", "mine.yaml: the fabric has no device 'host99'"),
    ],
)
def test_a_wrong_file_names_its_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    """One message with file and line, or at least the file, for each kind of mistake."""
    path = tmp_path / "mine.yaml"
    path.write_text(TINY.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        list(load(path).items())
    assert told in str(caught.value)


def test_an_unknown_name_lists_what_there_is() -> None:
    """A typing mistake on the command line is answered with the names."""
    with pytest.raises(ConfigError, match=r"no scenario is called 'incst'; known: .*incast"):
        load("incst")


def test_ports_poll_and_duration_can_be_changed() -> None:
    """The command line's options win over the file."""
    simulation = load("healthy", ports=500, poll=5.0, duration=50.0)
    assert len(simulation.wiring) >= 500
    assert sum(isinstance(item, Tick) for item in simulation.items()) == 10
    assert simulation.topology.interval_s == 5.0


def test_a_fabric_from_another_topology() -> None:
    """Any topology can be simulated, such as one that was discovered."""
    real = load("healthy-ib").topology
    simulation = load("healthy", topology=real, duration=10.0)
    assert simulation.wiring.infiniband
    assert {n.technology for n in simulation.topology.nodes} == {Technology.INFINIBAND}
    assert len(list(simulation.items())) > 10


@pytest.mark.parametrize("name", ["incast", "rails-incast", "fat-tree-slow-receiver-ib"])
def test_every_shape_grows_and_keeps_its_hosts(name: str) -> None:
    """`ports` makes the fabric at least that large; hosts that events name stay."""
    grown = load(name, ports=700)
    assert len(grown.wiring) >= 700
    assert {n.name for n in load(name).topology.nodes if n.kind == "host"} <= {
        n.name for n in grown.topology.nodes
    }


def test_a_scenario_may_bring_its_fabric_as_a_file(tmp_path: Path) -> None:
    """`shape: file` reads any topology; without the file, or a missing one, one clear message."""
    topology = tmp_path / "topology.json"
    topology.write_bytes(interchange.write_topology(load("healthy").topology))
    path = tmp_path / "mine.yaml"
    shape = f"topology: {{shape: file, file: {topology}}}"
    path.write_text(TINY.replace(TINY.splitlines()[4], shape))
    assert len(load(path).wiring) == 96
    path.write_text(TINY.replace(TINY.splitlines()[4], "topology: {shape: file}"))
    with pytest.raises(ConfigError, match="needs `file`"):
        load(path)
