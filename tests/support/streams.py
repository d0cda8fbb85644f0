"""Hypothesis strategies for the stream a pipeline is driven by, and exact equality of items."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fabricmon.errors import Reason
from fabricmon.model.counters import CATALOGUE, NO_QUEUE, Scope
from fabricmon.model.readings import Column, PortSet, ReadingBatch, State
from fabricmon.model.stream import PollFailure, Tick
from fabricmon.model.topology import (
    Ecn,
    Intent,
    Job,
    Link,
    Node,
    PortFacts,
    PortId,
    Role,
    Technology,
    Topology,
)

if TYPE_CHECKING:
    from fabricmon.model.stream import Item

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
times = st.integers(0, 2**62)
rates = st.floats(0, 1e13, allow_nan=False)
port_ids = st.builds(PortId, names, names)


@st.composite
def columns(draw: st.DrawFn, *, gauges: bool) -> tuple[Column, ...]:
    """Columns of counters that are (or are not) levels, each counter and queue once."""
    counter = st.sampled_from([c for c in CATALOGUE if c.is_gauge is gauges])
    column = st.builds(
        Column,
        counter,
        st.integers(0, 7),
        st.sampled_from([8, 16, 32, 64]),
        st.booleans(),
        st.sampled_from([1, 4, 1000]),
        names,
        st.booleans(),
    )
    drawn = draw(st.lists(column, max_size=4, unique_by=lambda c: (c.counter.id, c.queue)))
    return tuple(
        Column(c.counter, NO_QUEUE if c.counter.scope is Scope.PORT else c.queue, *_rest(c))
        for c in {
            (c.counter.id, c.counter.scope is Scope.PORT or c.queue): c for c in drawn
        }.values()
    )


def _rest(column: Column) -> tuple[Any, ...]:
    return column.bits, column.saturates, column.scale, column.source, column.estimated


@st.composite
def batches(draw: st.DrawFn) -> ReadingBatch:
    """Any batch, with states, levels and times of its own per row."""
    ports = draw(st.lists(port_ids, max_size=4, unique=True))
    n = len(ports)
    counts, levels = draw(columns(gauges=False)), draw(columns(gauges=True))
    states = st.sampled_from([State.OK, State.MISSING, State.UNSUPPORTED]).map(int)
    return ReadingBatch(
        draw(names),
        PortSet(tuple(p.device for p in ports), tuple(p.port for p in ports)),
        counts,
        draw(npst.arrays(np.uint64, (len(counts), n))),
        draw(npst.arrays(np.uint8, (len(counts), n), elements=states)),
        draw(npst.arrays(np.int64, n, elements=times)),
        levels,
        draw(npst.arrays(np.float64, (len(levels), n))),
        draw(st.booleans()),
        draw(st.booleans()),
    )


topologies = st.builds(
    Topology,
    st.lists(
        st.builds(
            Node,
            names,
            st.sampled_from(["switch", "host"]),
            st.sampled_from(Role),
            st.sampled_from(Technology),
            st.text("0123456789abcdef", max_size=16),
        ),
        max_size=3,
    ).map(tuple),
    st.lists(st.builds(Link, port_ids, port_ids, rates), max_size=3).map(tuple),
    st.lists(
        st.builds(PortFacts, port_ids, rates, rates, rates, st.integers(0, 8), names, names),
        max_size=3,
    ).map(tuple),
    st.lists(
        st.builds(Job, names, st.lists(names, max_size=3).map(tuple), st.integers(1, 16)),
        max_size=2,
    ).map(tuple),
    st.builds(Intent, st.lists(st.integers(0, 7), max_size=3).map(tuple), st.sampled_from(Ecn)),
    rates,
)
failures = st.builds(PollFailure, names, names, st.sampled_from(Reason), times, names)
ticks = st.builds(Tick, times, st.floats(0.01, 1e5))
streams = st.lists(st.one_of(batches(), topologies, failures, ticks), max_size=12)


def same(one: Item, other: Item) -> bool:
    """Equality to the byte: arrays by their bytes and types, everything else by value."""
    if not isinstance(one, ReadingBatch) or not isinstance(other, ReadingBatch):
        return type(one) is type(other) and one == other
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
                return False
        elif a != b:
            return False
    return True
