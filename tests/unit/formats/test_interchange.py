"""formats/interchange: topology and labels, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.streams import topologies

from fabricmon.errors import FormatError
from fabricmon.formats.interchange import (
    Label,
    read_labels,
    read_topology,
    write_labels,
    write_topology,
)
from fabricmon.model.topology import Ecn, Intent, PortId, Role, Technology, Topology


@given(topologies)
def test_any_topology_comes_back_equal(topology: Topology) -> None:
    """What is written reads back equal, facts and intent included."""
    assert read_topology(write_topology(topology)) == topology


def test_a_hand_written_topology_is_read_with_its_defaults() -> None:
    """Only names are required; unknown fields are ignored."""
    topology = read_topology(
        b"""{"nodes": [{"name": "h1", "kind": "host", "colour": "red"},
                       {"name": "s1", "technology": "infiniband", "role": "leaf"}],
             "links": [{"a": ["h1", "eth0"], "b": ["s1", 7], "speed_bps": 4e11}],
             "jobs": [{"name": "j", "hosts": ["h1"]}],
             "fabric": {"lossless_queues": [3], "ecn": "required", "interval_s": 5},
             "ports": [{"device": "s1", "port": "7", "tick_bytes": 64, "lanes": 4, "rail": 2}]}"""
    )
    host, switch = topology.nodes
    assert (host.kind, host.role, switch.kind) == ("host", Role.HOST, "switch")
    assert switch.technology is Technology.INFINIBAND
    assert topology.links[0].b == PortId("s1", "7")
    assert topology.intent == Intent((3,), Ecn.REQUIRED)
    assert topology.interval_s == 5.0
    assert topology.jobs[0].gpus_per_host == 8
    facts = topology.ports[0]
    assert (facts.tick_bytes, facts.lanes, facts.rail) == (64.0, 4, "2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"nodes": [{"kind": "host"}]}', r"f: nodes\[0\] has no 'name'"),
        (b'{"nodes": [{"name": "a", "role": "top"}]}', r"nodes\[0\]: 'top' is not a valid Role"),
        (b'{"nodes": [{"name": "a", "kind": "hub"}]}', r"`kind` is one of switch, host"),
        (b'{"links": [{"a": ["x"], "b": ["y", "1"]}]}', r"links\[0\]"),
        (b'{"links": {}}', r"`links` is a list"),
        (b"[]", r"a topology is an object"),
        (b'{"nodes": [\n\n{]}', r"f:3: "),
    ],
)
def test_what_is_wrong_is_named(text: bytes, said: str) -> None:
    """A topology that cannot be read names the file and the entry or the line."""
    if b'links": {}' not in text:
        with pytest.raises(FormatError, match=said):
            read_topology(text, "f")
    else:
        assert read_topology(text, "f") == Topology()


def test_labels_come_back_equal_and_need_little() -> None:
    """A label needs kind, start and end; the rest has a meaning when it is left out."""
    (short,) = read_labels(b'[{"kind": "incast", "start": 5, "end": 9, "note": "x"}]')
    assert short == Label("incast", 5, 9)
    full = Label(
        "lossless-misconfig",
        1,
        2,
        (PortId("leaf", ""),),
        (PortId("h", "eth0"),),
        "ecn-late",
        ("incast",),
        "incast",
    )
    assert read_labels(write_labels([short, full])) == (short, full)
    assert read_labels(b"[]") == ()


def test_a_wrong_label_is_named_by_its_place() -> None:
    """The second label lacks its end."""
    with pytest.raises(FormatError, match=r"label\[1\] has no 'end'"):
        read_labels(
            b'[{"kind": "a", "start": 1, "end": 2}, {"kind": "a", "start": 1}]', "labels.json"
        )
