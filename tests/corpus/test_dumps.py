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
    items = list(open_source([folder], context=context).items())
    ticks = [item for item in items if isinstance(item, Tick)]
    batches = [item for item in items if isinstance(item, ReadingBatch)]
    shape, *learned = [item for item in items if isinstance(item, Topology)]
    assert len(ticks) == len(batches) == (160 if trace == "healthy" else 320)
    assert {tick.interval_s for tick in ticks} == {1.0}
    assert sum(node.role is Role.HOST for node in shape.nodes) == 32
    assert len(shape.jobs) == 2
    assert learned == [Topology(intent=Intent((3,), Ecn.UNKNOWN))]
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
    """The eight busiest host ports carry 68.8 Gb/s, the 253-s hole is one step, nothing is lost."""
    folder = samples("roce-production")
    columns = ROOT / "docs" / "examples" / "columns-differences.yaml"
    items = list(open_source([folder], context=context, columns=columns).items())
    batches = [item for item in items if isinstance(item, ReadingBatch)]
    ticks = [item for item in items if isinstance(item, Tick)]
    assert ticks[0].interval_s == pytest.approx(0.576, abs=0.01)
    assert max(np.diff([tick.time_ns for tick in ticks])) / 1e9 == pytest.approx(250, abs=6)
    last = batches[-1]
    assert len(last.ports) == 48
    k = [column.counter.id for column in last.columns].index("rx_bytes")
    first = next(batch for batch in batches if len(batch.ports) == 48)
    seconds = (last.time_ns - first.time_ns) / 1e9
    grown = (last.values[k] - first.values[k])[first.state[k] == State.OK]
    rate = grown * 8 / seconds[first.state[k] == State.OK]
    assert np.sum(np.abs(rate - 68.81e9) < 0.3e9) >= 2
    assert (rate < 200e9).all()
