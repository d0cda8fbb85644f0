"""A pipeline with a detector that sees nothing, and batches to feed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon import app, config, yamlfile
from fabricmon.diagnose import DiagnoseConfig, Diagnoser
from fabricmon.model.counters import BY_ID
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.snapshot import Scores
from fabricmon.model.window import Window
from fabricmon.normalize import Normalizer
from fabricmon.runtime.pipeline import Pipeline, Stages
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.api import Context
    from fabricmon.model.ports import PortTable as Table
    from fabricmon.model.topology import Topology

COLUMNS = (Column(BY_ID["rx_bytes"]), Column(BY_ID["tx_bytes"]))


class BlindDetector:
    """Scores every port 0: what is left is physics."""

    Config = Settings

    def score(self, window: Window, _table: Table, _topology: Topology) -> Scores:
        """Nothing is ever strange."""
        assert window.frame is not None
        n = window.frame.n_ports
        return Scores(np.zeros(n, np.float32), np.zeros(n, np.bool_))

    def fit_with(self, executor: object) -> None:
        """Nothing to learn."""

    def feedback(self, _findings: Sequence[Any]) -> None:
        """Nothing to learn."""


def make_pipeline(context: Context, fabric: str = "pod", **options: Any) -> Pipeline:
    """A pipeline of real rooms around the blind detector."""
    table = PortTable()
    stages = Stages(
        table,
        Normalizer(table, fabric, context),
        Window(),
        BlindDetector(),
        Diagnoser(DiagnoseConfig(), fabric, context),
        Settings(),
        DiagnoseConfig(),
    )
    return Pipeline(fabric, stages, context, **options)


def limited(context: Context, limit: int) -> Pipeline:
    """The product's own, with room for so many ports."""
    loaded = config.accept(yamlfile.loads(f"limits: {{ports: {limit}}}", file="limits.yaml"))
    return app.make_pipeline("pod", context, loaded)


def batch(target: str, ports: PortSet, value: int, time_ns: int, **more: Any) -> ReadingBatch:
    """Both byte counters of every port at `value`."""
    n = len(ports)
    return ReadingBatch(
        target,
        ports,
        COLUMNS,
        np.full((2, n), value, np.uint64),
        np.zeros((2, n), np.uint8),
        np.full(n, time_ns, np.int64),
        **more,
    )


def ports(device: str, *names: str) -> PortSet:
    """Ports of one device."""
    return PortSet((device,) * len(names), names)
