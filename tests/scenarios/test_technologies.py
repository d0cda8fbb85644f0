"""One fault on an InfiniBand fabric and on a RoCE fabric is one story."""

from __future__ import annotations

import pytest

from fabricmon import app
from fabricmon.runtime.offline import drive
from fabricmon.simulate import load

Place = tuple[str, str]


def _neutral(device: str, port: str | None) -> Place:
    """A port under a name that both technologies share: its number, or the host's adapter."""
    if port is None or device.startswith("host"):
        return device, "adapter" if port else ""
    return device, port.removeprefix("Ethernet")


def told(name: str) -> list[tuple[str, set[Place], set[Place]]]:
    """Kind, the two ends of the cause's link and the victims of every incident of a scenario."""
    simulation = load(name, poll=2.0, duration=190.0)
    pipeline = app.make_pipeline(simulation.fabric, app.make_context())
    story = []
    for incident in drive(simulation.items(), pipeline).worst_first():
        cause = incident.cause
        assert cause is not None
        ends = {_neutral(cause.device, cause.port)}
        if cause.peer_device:
            ends.add(_neutral(cause.peer_device, cause.peer_port))
        victims = {_neutral(victim.device, victim.port) for victim in incident.victims}
        story.append((incident.kind.value, ends, victims))
    return story


@pytest.mark.parametrize("name", ["incast", "slow-receiver", "oversubscription"])
def test_the_same_fault_is_told_alike(name: str) -> None:
    """Kind, cause and every victim are the same, though ticks are counted here and pauses there."""
    roce, infiniband = told(name), told(f"{name}-ib")
    assert roce == infiniband
    (story,) = roce
    assert story[0] == name
    assert story[2]
