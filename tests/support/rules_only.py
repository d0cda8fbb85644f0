"""The product without its forest, on any stream of items: what physics alone says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose import DiagnoseConfig, Diagnoser
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import ReadingBatch
from fabricmon.model.snapshot import Scores
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology
from fabricmon.model.window import Window
from fabricmon.normalize import Normalizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.api import Context
    from fabricmon.model.incident import Incident
    from fabricmon.model.stream import Item


def incidents(items: Iterable[Item], context: Context) -> list[Incident]:
    """Every incident in its last state, worst first."""
    table, window = PortTable(), Window()
    normalizer = Normalizer(table, "fabric", context)
    diagnoser = Diagnoser(DiagnoseConfig(), "fabric", context)
    topology = Topology()
    found: dict[str, Incident] = {}
    for item in items:
        if isinstance(item, Topology):
            topology = topology.merged(item).with_inferred_roles()
            table.adopt(topology)
            normalizer.adopt(topology.intent)
        elif isinstance(item, ReadingBatch):
            normalizer.absorb(item)
        elif isinstance(item, Tick):
            window.push(normalizer.tick(item.time_ns, item.interval_s))
            calm = np.zeros(window.frame.n_ports if window.frame else 0, np.float32)
            diagnosis = diagnoser.diagnose(window, Scores(calm, calm > 1), table, topology)
            found.update({i.id: i for i in (*diagnosis.open, *diagnosis.closed)})
    return sorted(found.values(), key=lambda incident: incident.sort_key())
