"""Output of the InfiniBand tools: their counts under the names that a discovery beside them gives.

A folder of a cron job's files is a time series. Text has no times, so that of the file is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.formats.base import ChunkBuilder, PortReading
from fabricmon.formats.infiniband import ibdumps
from fabricmon.formats.infiniband.ibcounts import Identity, merged
from fabricmon.mappings import infiniband as mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricmon.formats.infiniband.ibfabric import IbNode, IbPort
    from fabricmon.formats.infiniband.ibtext import PortCounts
    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope


class InfinibandText:
    """perfquery, ibqueryerrors, ibnetdiscover, iblinkinfo, ibdiagnet's db_csv and pm, UFM."""

    name = "InfiniBand tool output"

    def sniff(self, file: File) -> bool:
        """By the tools' own headings."""
        return bool(ibdumps.sniff(file.head))

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """The discoveries' shape, and all counts as one stream in order of the files' times."""
        files = sorted(files, key=_age)
        fabric = None
        for file in files:
            if ibdumps.sniff(file.head) in ibdumps.SHAPES:
                seen = ibdumps.read(_text(file), scope.bad, file.name).fabric
                if seen is not None:
                    fabric = fabric.joined(seen) if fabric is not None else seen
        identity = Identity(fabric)
        topologies = [fabric.topology(identity.labels, _tick)] if fabric is not None else []
        return topologies, [_pieces(files, scope, identity)]


def _age(file: File) -> tuple[int, str]:
    return file.written_ns, file.name


def _tick(node: IbNode, port: IbPort) -> float:
    return mapping.tick_bytes(node.device_id, port.lanes or 4)


def _text(file: File) -> str:
    return file.read().decode("latin-1")


def _pieces(files: Sequence[File], scope: Scope, identity: Identity) -> Pieces:
    names = mapping.every_field()
    builder = ChunkBuilder(scope.layout)
    for time_ns, blocks in _readings(files, scope):
        for port in merged(blocks, identity):
            values = names.values(port.groups, port.cap_mask, port.cap_mask2)
            builder.add(PortReading(port.device, port.port, values), time_ns)
        yield builder.take()


def _readings(files: Sequence[File], scope: Scope) -> Iterator[tuple[int, list[PortCounts]]]:
    """Blocks of one sweep, which may stand in several files: it ends where a block comes again."""
    blocks: list[PortCounts] = []
    seen: set[tuple[int, int, int, str]] = set()
    time_ns = 0
    for file in files:
        if ibdumps.sniff(file.head) in ibdumps.SHAPES_ALONE:
            continue
        dump = ibdumps.read(_text(file), scope.bad, file.name)
        if dump.times:
            yield from _by_time(dump, file.written_ns)
            continue
        read = dump.counts
        # A group that is told in 64 bits from now on is still the same group.
        keys = {(b.guid, b.lid, b.port, b.group.removesuffix("64")) for b in read}
        if blocks and not keys.isdisjoint(seen):
            yield time_ns, blocks
            blocks, seen = [], set()
        blocks += read
        seen |= keys
        time_ns = file.written_ns
    if blocks:
        yield time_ns, blocks


def _by_time(dump: ibdumps.Dump, written_ns: int) -> Iterator[tuple[int, list[PortCounts]]]:
    """Rows that carry their own time, grouped by it."""
    rows: dict[int, list[PortCounts]] = {}
    for time_ns, counts in zip(dump.times, dump.counts, strict=True):
        rows.setdefault(time_ns or written_ns, []).append(counts)
    yield from sorted(rows.items())
