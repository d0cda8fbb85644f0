"""Output of the InfiniBand tools: perfquery's counts under the names ibnetdiscover gives.

A folder of a cron job's files is a time series. Text has no times, so that of the file is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.formats import ibnetdiscover, perfquery
from fabricmon.formats.base import ChunkBuilder, PortReading
from fabricmon.formats.ibcounts import Identity, merged
from fabricmon.mappings import infiniband as mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricmon.formats.ibfabric import IbFabric, IbNode, IbPort
    from fabricmon.formats.ibtext import PortCounts
    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope


class InfinibandText:
    """perfquery and ibnetdiscover."""

    name = "InfiniBand tool output"

    def sniff(self, file: File) -> bool:
        """By the tools' own headings."""
        return ibnetdiscover.sniff(file.head) or perfquery.sniff(file.head)

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """The discoveries' shape, and all counts as one stream in order of the files' times."""
        shapes = [file for file in files if ibnetdiscover.sniff(file.head)]
        counts = [file for file in files if file not in shapes]
        fabric = None
        for file in sorted(shapes, key=_age):
            fabric = _with(fabric, ibnetdiscover.read(_text(file), scope.bad, file.name))
        identity = Identity(fabric)
        topologies = [fabric.topology(identity.labels, _tick)] if fabric is not None else []
        return topologies, [_pieces(sorted(counts, key=_age), scope, identity)]


def _age(file: File) -> tuple[int, str]:
    return file.written_ns, file.name


def _with(known: IbFabric | None, newer: IbFabric) -> IbFabric:
    """A later sweep wins; nodes that only an earlier one saw are kept."""
    if known is not None:
        newer.nodes = {**known.nodes, **newer.nodes}
    return newer


def _tick(node: IbNode, port: IbPort) -> float:
    return mapping.tick_bytes(node.device_id, port.lanes or 4)


def _text(file: File) -> list[str]:
    return file.read().decode("latin-1").splitlines()


def _pieces(files: Sequence[File], scope: Scope, identity: Identity) -> Pieces:
    names = mapping.field_names("pma")
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
        read = list(perfquery.read(_text(file), scope.bad, file.name))
        keys = {(block.guid, block.lid, block.port, block.group) for block in read}
        if blocks and not keys.isdisjoint(seen):
            yield time_ns, blocks
            blocks, seen = [], set()
        blocks += read
        seen |= keys
        time_ns = file.written_ns
    if blocks:
        yield time_ns, blocks
