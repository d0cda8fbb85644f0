"""Values to exposition text: whole columns at a time, in Arrow, without a Python object a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.counters import Scope
from fabricmon_exporters.prometheus.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fabricmon_exporters.prometheus.families import Family
    from fabricmon_exporters.prometheus.labels import PortLabels
    from fabricmon_exporters.prometheus.samples import Values


@dataclass(frozen=True, slots=True)
class Choice:
    """What a page is to hold.

    families     which families, None for the default page
    shard        (i, of n), None for all ports
    per_port     series a port at most; 0 for no limit
    """

    families: frozenset[str] | None = None
    shard: tuple[int, int] | None = None
    per_port: int = 10


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of one family of one fabric, each ended by a newline."""

    family: Family
    text: bytes
    series: int


def render(
    values: Values, labels: PortLabels, choice: Choice, ceiling: int
) -> tuple[list[Block], int]:
    """Every chosen family of one fabric that has series, and how many series the ceiling cost."""
    table = values.snapshot.table
    labels.grow(table, values.n)
    blocks: list[Block] = []
    room, dropped = ceiling, 0
    for family, numbers, mask in _chosen(values, choice, _shard(values, labels, choice)):
        wanted = int(np.count_nonzero(mask))
        series = min(wanted, room)
        if series < wanted:
            dropped += wanted - series
            mask = _first(mask, series)  # noqa: PLW2901 - the narrowed mask is what goes on
        if series == 0:
            continue
        room -= series
        if family.scope is Scope.PORT:
            strings = labels.info(table, values.n) if family.extra_labels else labels.port()
            text = _lines(family.name, strings, "", numbers, mask)
        else:
            text = b"".join(
                _lines(family.name, *labels.queue(queue), numbers[:, q], mask[:, q])
                for q, queue in enumerate(values.frame.queues)
            )
        blocks.append(Block(family, text, series))
    return blocks, dropped


def _shard(values: Values, labels: PortLabels, choice: Choice) -> NDArray[np.bool_] | None:
    if choice.shard is None:
        return None
    return labels.in_shard(values.snapshot.table, values.n, choice.shard)


def _chosen(
    values: Values, choice: Choice, inside: NDArray[np.bool_] | None
) -> Iterator[tuple[Family, NDArray[Any], NDArray[np.bool_]]]:
    """Family, values and mask, in order; on the default page within the limit a port."""
    limit = choice.per_port if choice.families is None else 0
    fits = _Limit(values, limit) if limit else None
    for family in FAMILIES:
        if choice.families is not None and family.name not in choice.families:
            continue
        samples = family.read(values)
        if samples is None:
            continue
        mask = samples.mask
        if fits is not None:
            mask = mask & fits(samples.has)
        if inside is not None:
            mask = mask & (inside if mask.ndim == 1 else inside[:, None])
        yield family, samples.values, mask


class _Limit:
    """Lets each port have its first `limit` series. Of queues, only the busy ones count."""

    def __init__(self, values: Values, limit: int) -> None:
        self._limit = limit
        self._used = np.zeros(values.n, np.int32)
        self._busy = values.busy_queues()

    def __call__(self, has: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Bool like `has`: those that fit; they are counted as used."""
        if has.ndim == 1:
            fits = has & (self._used < self._limit)
            self._used += fits
            return fits
        has = has & self._busy
        fits = has & (self._used[:, None] + np.cumsum(has, axis=1) <= self._limit)
        self._used += fits.sum(axis=1, dtype=np.int32)
        return fits


def _first(mask: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """The first `count` true places of `mask`."""
    out = np.zeros_like(mask)
    out.flat[np.flatnonzero(mask)[:count]] = True
    return out


def _lines(
    name: str, labels: Any, tail: str, values: NDArray[Any], mask: NDArray[np.bool_]
) -> bytes:
    """`name{labels} value` for every row of `mask`."""
    import pyarrow as pa  # noqa: PLC0415 - 0.2 s that `check` must not pay
    import pyarrow.compute as pc  # noqa: PLC0415

    if mask.all():
        labels = labels.slice(0, len(mask))
    else:
        rows = np.flatnonzero(mask)
        if not len(rows):
            return b""
        labels, values = labels.take(pa.array(rows)), values[rows]
    numbers = pc.cast(pa.array(np.ascontiguousarray(values)), pa.string())
    middle = (pa.scalar(tail),) if tail else ()
    # The newline stands in front, since a scalar there is free; the data buffer is then the text.
    joined = pc.binary_join_element_wise(pa.scalar("\n" + name), labels, *middle, numbers, "")
    _, _, data = joined.buffers()
    return memoryview(data)[1 : _length(joined)].tobytes() + b"\n"


def _length(strings: Any) -> int:
    """Bytes in use of the data buffer, which Arrow allocates with room to spare."""
    offsets = np.frombuffer(strings.buffers()[1], np.int32)
    return int(offsets[len(strings)])
