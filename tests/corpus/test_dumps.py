"""Real dumps: labelled traces of a foreign simulator, and an hour of a production network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import ROOT, samples

from fabricmon.formats.interchange import LABELS, read_labels
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Ecn, Intent, Role, Topology
from fabricmon.record import open_source

if TYPE_CHECKING:
    from fabricmon.api import Context

TRACES = ("healthy", "benign_shift", "incast", "nic_storm", "link_loss", "ecn_late")


@pytest.mark.parametrize("trace", TRACES)
def test_a_labelled_trace_loads_right(trace: str, context: Context) -> None:
    """Every poll is one tick, every port of the topology has bytes, counts never fall."""
    folder = samples("labelled", f"ls32_{trace}_s1")
    items = list(open_source([folder], report=context.report).items())
    ticks = [item for item in items if isinstance(item, Tick)]
    batches = [item for item in items if isinstance(item, ReadingBatch)]
    shape, *learned = [item for item in items if isinstance(item, Topology)]
    assert len(ticks) == len(batches) == (160 if trace == "healthy" else 320)
    assert {tick.interval_s for tick in ticks} == {1.0}
    assert sum(node.role is Role.HOST for node in shape.nodes) == 32
    assert len(shape.jobs) == 2
    assert [item.intent for item in learned] == [Intent((3,), Ecn.UNKNOWN)]
    ends = {end for link in shape.links for end in (link.a, link.b)}
    assert set(zip(batches[0].ports.device, batches[0].ports.port, strict=True)) == ends
    k = [column.counter.id for column in batches[0].columns].index("tx_bytes")
    values = np.stack([batch.values[k] for batch in batches]).astype(np.int64)
    assert all((batch.state[k] == State.OK).all() for batch in batches)
    assert (np.diff(values, axis=0) >= 0).all()
    assert (values[-1] > 0).all()
    for label in read_labels((folder / LABELS).read_bytes()):
        assert ticks[0].time_ns <= label.start_ns < label.end_ns <= ticks[-1].time_ns
        assert label.causes


def test_an_hour_of_production_differences_gives_the_known_rates(context: Context) -> None:
    """Eight host ports carry 69.0 Gb/s within 0.1, the 253-s hole is one step, nothing is lost."""
    folder = samples("roce-production")
    columns = ROOT / "docs" / "examples" / "columns-differences.yaml"
    items = list(open_source([folder], report=context.report, columns=columns).items())
    batches = [item for item in items if isinstance(item, ReadingBatch)]
    ticks = [item for item in items if isinstance(item, Tick)]
    assert ticks[0].interval_s == pytest.approx(0.576, abs=0.01)
    assert max(np.diff([tick.time_ns for tick in ticks])) / 1e9 == pytest.approx(250, abs=6)
    totals: dict[str, list[tuple[int, int]]] = {}
    for batch in batches:
        k = [column.counter.id for column in batch.columns].index("rx_bytes")
        for n in np.flatnonzero(batch.state[k] == State.OK).tolist():
            sample = int(batch.time_ns[n]), int(batch.values[k, n])
            totals.setdefault(batch.ports.device[n] + batch.ports.port[n], []).append(sample)
    assert len(totals) == 48
    rates = [
        (series[-1][1] - series[0][1]) * 8e9 / (series[-1][0] - series[0][0])
        for series in totals.values()
    ]
    assert sum(abs(rate - 69.0e9) < 0.1e9 for rate in rates) >= 8
    assert max(rates) < 100e9
