"""Files as a cron job of the InfiniBand tools leaves them: ibnetdiscover once, counts each poll."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from fabricmon.errors import FormatError
from fabricmon.formats.infiniband.ibcounts import Identity
from fabricmon.formats.infiniband.ibfabric import from_topology
from fabricmon.formats.infiniband.ibtext import PortCounts
from fabricmon.formats.infiniband.tools import ibnetdiscover, ibqueryerrors, perfquery
from fabricmon.mappings import infiniband as mapping
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology
from fabricmon.record.writers.base import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.formats.interchange import Label
    from fabricmon.model.readings import Column, PortSet
    from fabricmon.model.stream import Item
    from fabricmon.selfmon import Reporter

# What a device says that counts everything the mapping reads from the extended attribute.
_CAP_MASK, _CAP_MASK2 = 0x5A00, 0x2


class _Place(NamedTuple):
    """A port in the tools' terms."""

    guid: int
    number: int
    lid: int
    description: str


class PerfqueryWriter:
    """`perfquery-TIME.txt`, one file a poll, every port in its blocks."""

    _prefix, _mapping = "perfquery", "pma"
    _groups: tuple[str, ...] = ("PortCountersExtended", "PortXmitDiscardDetails")

    def __init__(self, folder: Path, fabric: str, report: Reporter) -> None:
        """Nothing is written yet."""
        del fabric, report
        self._folder = folder
        self._topology = Topology()
        self._places: dict[tuple[str, str], _Place] = {}
        self._batches: list[ReadingBatch] = []
        self._zeros: dict[tuple[str, int], tuple[PortSet, NDArray[np.uint64]]] = {}
        names = mapping.field_names(self._mapping)
        self._fields = {
            group: {
                (column.counter.id, column.queue): (field, column)
                for field, column in names.fields(group)
            }
            for group in self._groups
        }

    def write(self, item: Item) -> None:
        """Take one item. Raises `FormatError` for a fabric that has no InfiniBand ports."""
        match item:
            case Topology():
                self._shape(self._topology.merged(item))
            case ReadingBatch():
                self._batches.append(item)
            case Tick():
                self._poll(item.time_ns)

    def close(self, labels: Sequence[Label]) -> None:
        """Every file is ended already; text holds no labels."""
        del labels

    def _shape(self, topology: Topology) -> None:
        self._topology = topology
        fabric = from_topology(topology)
        if not fabric.nodes:
            raise FormatError("the fabric has no InfiniBand ports, which is what the tools print")
        identity = Identity(fabric)
        self._places = {}
        for node in fabric.nodes.values():
            label = identity.labels[node.guid]
            for number in node.ports:
                place = _Place(node.guid, number, node.lid_of(number), node.description)
                self._places[label.device, label.port(number)] = place
        text = "".join(f"{line}\n" for line in ibnetdiscover.write(fabric))
        (self._folder / "ibnetdiscover.txt").write_text(text, encoding="utf-8")

    def _poll(self, time_ns: int) -> None:
        batches, self._batches = self._batches, []
        path = self._folder / f"{self._prefix}-{stamp(time_ns)}.txt"
        blocks = (block for batch in batches for block in self._blocks(batch))
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._lines(blocks))
        os.utime(path, ns=(time_ns, time_ns))

    def _lines(self, blocks: Iterable[PortCounts]) -> Iterable[str]:
        return perfquery.write(blocks)

    def _blocks(self, batch: ReadingBatch) -> Iterator[PortCounts]:
        rows = {
            group: [
                (k, column, *fields[column.counter.id, column.queue])
                for k, column in enumerate(batch.columns)
                if (column.counter.id, column.queue) in fields
            ]
            for group, fields in self._fields.items()
        }
        zero = self._zero(batch)
        for n, name in enumerate(zip(batch.ports.device, batch.ports.port, strict=True)):
            place = self._places.get(name)
            if place is None:
                continue
            for group, known in rows.items():
                values: dict[str, int | None] = {
                    field: _in_field(int(batch.values[k, n]), column, written, int(zero[k, n]))
                    for k, column, field, written in known
                    if batch.state[k, n] == State.OK
                }
                if values:
                    yield PortCounts(
                        group,
                        place.number,
                        guid=place.guid,
                        lid=place.lid,
                        cap_mask=_CAP_MASK,
                        cap_mask2=_CAP_MASK2,
                        values=values,
                        name=place.description,
                    )

    def _zero(self, batch: ReadingBatch) -> NDArray[np.uint64]:
        """uint64[K,N]: what counts begin at, so that narrow fields do not begin at their top."""
        key = (batch.target, id(batch.ports))
        known = self._zeros.get(key)
        if known is None or known[1].shape != batch.values.shape:
            known = self._zeros[key] = (batch.ports, batch.values.copy())
        zero = known[1]
        zero[batch.values < zero] = 0  # it was cleared on the way
        return zero


class ErrorsWriter(PerfqueryWriter):
    """`ibqueryerrors-TIME.txt`, one file a poll."""

    _prefix, _mapping = "ibqueryerrors", "ibqueryerrors"
    _groups = (ibqueryerrors.WIDE,)

    def _lines(self, blocks: Iterable[PortCounts]) -> Iterable[str]:
        return ibqueryerrors.write(blocks)


def _in_field(value: int, column: Column, written: Column, zero: int) -> int:
    """A count in the field's own unit; it sticks at the field's top, and so does what stuck."""
    top = (1 << written.bits) - 1
    if column.saturates and value >= (1 << column.bits) - 1:
        return top
    if written.bits < column.bits:
        value -= zero
    return min(value * column.scale // written.scale, top)
