"""What users may set about diagnosis. All thresholds are shares of time or counts of polls."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabricmon.settings import Settings

Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Polls = Annotated[int, Field(ge=1, le=1000)]


class DiagnoseConfig(Settings):
    """Thresholds hold for every fabric, speed and poll length: they are ratios and polls."""

    stall: Share = 0.02
    """Smallest rise of a port's stall over its own past that counts as held back."""
    busy: Share = 0.88
    """Share of the link in use from which an egress counts as full."""
    continuous: Share = 0.99
    """Share of the interval from which a pause counts as continuous."""
    loss: Share = 1e-5
    """Faulty or lost packets per packet from which a link counts as degraded."""
    open_after: Polls = 2
    """Polls that must show a finding before it becomes an incident ..."""
    open_within: Polls = 3
    """... among the last so many."""
    clear_after: Polls = 6
    """Polls without the finding before an incident is closed."""
    stale_after: Polls = 5
    """Polls without a fresh value before a target counts as stale."""
    max_causes: Annotated[int, Field(ge=1, le=16)] = 5
    """Ranked causes kept per incident."""
    max_victims: Annotated[int, Field(ge=1)] = 1000
    """Victims kept per incident; the rest still count in the cost."""
    price_per_gpu_hour: Annotated[float, Field(ge=0.0)] = 0.0
    """What an hour of one GPU costs, in the operators' own currency; 0 leaves money out."""
    disabled: tuple[str, ...] = ()
    """Kinds that are not looked for."""
