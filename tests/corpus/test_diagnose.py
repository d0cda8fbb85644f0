"""Traces of a packet-level simulator that is not ours: right kind, right cable, silent twins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import samples
from support.rules_only import incidents

from fabricmon.model.topology import PortId
from fabricmon.record import open_source

if TYPE_CHECKING:
    from fabricmon.api import Context


def _answer(name: str, context: Context) -> list[tuple[str, PortId, set[str]]]:
    """(kind, cause, devices at both ends of it) of every incident, worst first."""
    source = open_source([samples("labelled", name)], report=context.report)
    found = []
    for incident in incidents(source.items(), context):
        cause = incident.cause
        assert cause is not None
        ends = {cause.device, cause.peer_device}
        found.append((incident.kind.value, PortId(cause.device, cause.port), ends))
    return found


@pytest.mark.parametrize("name", ["ls32_healthy_s1", "ls32_benign_shift_s1"])
def test_healthy_traces_are_silent(name: str, context: Context) -> None:
    """Neither the healthy twin nor a change of the workload opens anything."""
    assert _answer(name, context) == []


@pytest.mark.parametrize(
    "name", ["ls32_incast_s1", "ls32_nic_storm_s1", "ls32_link_loss_s1", "ls32_ecn_late_s1"]
)
def test_each_fault_is_named_with_its_cable(name: str, context: Context) -> None:
    """One incident, of the labelled kind or one that counts as right, at the labelled place."""
    (label,) = json.loads(samples("labelled", name, "labels.json").read_text())
    ((kind, port, ends),) = _answer(name, context)
    assert kind in {label["kind"], *label["accept"]}
    right = label["causes"][0]
    assert right["device"] in ends
    assert port.port in {"", right.get("port", ""), *_partners(name, right)}


def _partners(name: str, port: dict[str, str]) -> set[str]:
    """Names of the port at the other end of the cable."""
    links = json.loads(samples("labelled", name, "topology.json").read_text())["links"]
    own = [port["device"], port.get("port")]
    other = [k["b"] if k["a"] == own else k["a"] for k in links if own in (k["a"], k["b"])]
    return {end[1] for end in other}
