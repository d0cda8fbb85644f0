"""What a scenario expects, as the labels of a dump written from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.formats.interchange import Label
from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from fabricmon.simulate.run import Simulation


def labels_of(simulation: Simulation) -> tuple[Label, ...]:
    """One label per expectation, over the time in which the scenario's events act.

    Victims are those the scenario names; there may be more.
    """
    config = simulation.scenario.config
    if not config.events:
        return ()
    start_s = min(event.at for event in config.events)
    end_s = min(max(event.until for event in config.events), config.duration)
    return tuple(
        Label(
            expected.kind.value,
            simulation.start_ns + round(start_s * 1e9),
            simulation.start_ns + round(end_s * 1e9),
            tuple(_port(cause) for cause in expected.causes),
            tuple(_port(victim) for victim in expected.victims),
            expected.reason,
            tuple(kind.value for kind in expected.accept),
        )
        for expected in config.expect
    )


def _port(text: str) -> PortId:
    """`leaf0/Ethernet4`, `gpu1/mlx5_0/1` or a device alone."""
    device, _, port = text.partition("/")
    return PortId(device, port)
