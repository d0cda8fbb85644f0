"""Fabrics that exist: from an interchange `topology.json` or a saved `ibnetdiscover`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fabricmon.errors import ConfigError, FormatError
from fabricmon.formats import interchange
from fabricmon.formats.infiniband.ibfabric import name_nodes
from fabricmon.formats.infiniband.tools import ibnetdiscover
from fabricmon.simulate.fabric.shapes import QUANTUM_TICK_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.formats.base import BadRecord
    from fabricmon.formats.infiniband.ibfabric import IbNode, IbPort
    from fabricmon.model.topology import Topology

_HEAD = 64 << 10


def read_topology(path: Path) -> Topology:
    """The fabric in `path`, without its jobs. Raises `ConfigError` naming file and line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(error.strerror or str(error), file=str(path)) from error
    try:
        if ibnetdiscover.sniff(data[:_HEAD]):
            return _from_discovery(data, str(path))
        return replace(interchange.read_topology(data, str(path)), jobs=())
    except FormatError as error:
        raise ConfigError(error.message, file=str(path), line=error.line) from error


def _from_discovery(data: bytes, file: str) -> Topology:
    """What `ibnetdiscover` printed; a line it garbled is an error here, since nothing is live."""

    def refuse(bad: BadRecord) -> None:
        raise FormatError(bad.reason, file=file, line=bad.line)

    fabric = ibnetdiscover.read(data.decode("latin-1").splitlines(), refuse, file)
    return fabric.topology(name_nodes(fabric.nodes.values()), _tick)


def _tick(node: IbNode, port: IbPort) -> float:
    """The simulated devices count as Quantum switches do, whatever they are called."""
    del node, port
    return QUANTUM_TICK_BYTES
