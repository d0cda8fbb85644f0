"""What users write about InfiniBand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fabricmon.settings import Duration, Settings


class InfinibandConfig(Settings):
    """Options of the InfiniBand collector."""

    read: Literal["auto", "native", "tools"] = "auto"
    """How a local HCA port is used: management datagrams sent by ourselves through libibumad, the
    tools `ibnetdiscover` and `perfquery`, or the first of these that works."""
    command_prefix: list[str] = []
    """Put before every program that is run, such as [sudo, -n]."""
    environment: dict[str, str] = {}
    """Added to the environment of every program that is run."""
    host_ports: bool = True
    """Whether adapters are read too, not only switches."""
    node_names: Path | None = None
    """A node-name-map: lines of `0xGUID "name"`. It wins over node descriptions."""
    tick_bytes: Annotated[float, Field(gt=0)] | None = None
    """Bytes of port time per transmit-wait tick, for devices whose unit is not known."""
    rediscover: Duration = 10.0
    """The tools learn LIDs anew when the last sweep is older than this."""
    tool_timeout: Duration = 20.0
    """A program that takes longer is killed."""
    parallel: Annotated[int, Field(ge=1, le=32)] = 4
    """Programs run at once."""
    max_age: Duration = 600.0
    """A folder whose newest file is older gives nothing."""
    plane: str = ""
    """The plane this subnet is, where several subnets make one fabric."""

    timeout: Duration = 0.3
    """How long a management datagram is waited for."""
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    """How often it is sent again; but once where nothing at all was heard of its node."""
    window: Annotated[int, Field(ge=1, le=4096)] = 256
    """Datagrams on the wire in all."""
    node_window: Annotated[int, Field(ge=1, le=64)] = 4
    """Datagrams on the wire to one node."""
    groups: list[
        Literal[
            "PortXmitDiscardDetails",
            "PortRcvErrorDetails",
            "PortVLXmitWaitCounters",
            "PortRcvConCtrl",
            "PortXmitConCtrl",
            "PortExtendedSpeedsCounters",
        ]
    ] = []
    """Attributes read besides the port counters; each is one more datagram a port."""
