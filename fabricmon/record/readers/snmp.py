"""Walks of SNMP agents: `snmpwalk -On` text and snmpsim's recordings. Each file is one reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord
from fabricmon.formats.snmp import snmprec
from fabricmon.mappings.snmp import SnmpMappings, oid
from fabricmon.mappings.snmp_build import build
from fabricmon.mappings.snmp_walk import Walk, port_names
from fabricmon.record.files import untimed
from fabricmon.record.readers.base import OLDEST_FIRST, chunk_of, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.formats.base import Chunk
    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope

_DESCR, _OBJECT_ID, _UPTIME, _NAME = (oid(f"1.3.6.1.2.1.1.{n}.0") for n in (1, 2, 3, 5))


class SnmpWalks:
    """The mapping is chosen by what the agent says it is, as for a live device."""

    name = "SNMP walk"

    def sniff(self, file: File) -> bool:
        """By the form of the first line."""
        head = file.head.decode("utf-8", "replace")
        return snmprec.is_snmprec(head) or snmprec.is_walk(head)

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """All walks in order of their files' times."""
        return [], [self._pieces(sorted(files, key=OLDEST_FIRST), scope)]

    def _pieces(self, files: Sequence[File], scope: Scope) -> Pieces:
        mappings = SnmpMappings()
        for file in files:
            try:
                yield self._walk(file, scope, mappings)
            except FormatError as error:
                scope.bad(BadRecord(file.name, 0, error.message))

    @staticmethod
    def _walk(file: File, scope: Scope, mappings: SnmpMappings) -> Chunk:
        def problem(line: int, reason: str) -> None:
            scope.bad(BadRecord(file.name, line, reason))

        lines = lines_of(file)
        recorded = snmprec.is_snmprec(file.head.decode("utf-8", "replace"))
        read = snmprec.read_snmprec if recorded else snmprec.read_walk
        values = {varbind.oid: varbind.value for varbind in read(lines, problem)}
        walk = Walk({o: value for o, value in values.items() if isinstance(value, int | bytes)})
        object_id = values.get(_OBJECT_ID)
        kind = object_id if isinstance(object_id, tuple) else ()
        profile = mappings.choose(kind, walk.text(_DESCR))
        names = port_names(profile, walk)
        if not names:
            raise FormatError("the walk names no Ethernet port in its interface table")
        device = walk.text(_NAME) or untimed(file)
        grid, instances = build(profile, device, names, walk)
        filled, state = grid.fill(instances, walk)
        uptime = walk.number(_UPTIME)
        batch = grid.batch(device, filled, state, file.written_ns, uptime_cs=uptime)
        return chunk_of(scope.layout, batch)
