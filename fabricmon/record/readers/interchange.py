"""Interchange dumps: counters in long form, a topology, and labels that a replay does not use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord
from fabricmon.formats.interchange import TOPOLOGY, read_topology
from fabricmon.formats.tables import longtable
from fabricmon.record.readers.base import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope

_TOPOLOGY = re.compile(rb'^\s*\{(?s:.*)"(?:nodes|links|jobs)"\s*:\s*\[')
_LABELS = re.compile(rb'^\s*\[\s*(\]\s*$|\{(?s:.*)"(?:kind|causes)"\s*:)')


class Counters:
    """`counters.parquet`, `counters.csv`."""

    name = "interchange counters"

    def sniff(self, file: File) -> bool:
        """Parquet, or CSV with the columns of the long form."""
        return longtable.sniff(file.head)

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """One stream a file."""
        return [], [self._pieces(file, scope) for file in files]

    @staticmethod
    def _pieces(file: File, scope: Scope) -> Pieces:
        with file.open() as stream:
            yield from in_order(longtable.read(stream, file.name, scope.layout, scope.bad))


class TopologyFile:
    """`topology.json`."""

    name = "interchange topology"

    def sniff(self, file: File) -> bool:
        """A JSON object with nodes, links or jobs near its beginning."""
        return _TOPOLOGY.match(file.head) is not None

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """Each as it is; a later one wins. Another JSON that lies in the folder costs itself."""
        topologies = []
        for file in files:
            try:
                topologies.append(read_topology(file.read(), file.name))
            except FormatError as error:
                if file.given or file.path.name.startswith(TOPOLOGY):
                    raise
                scope.bad(BadRecord(file.name, 0, error.message))
        return topologies, []


class LabelFile:
    """`labels.json`: known here so that a dump is read whole without complaint."""

    name = "interchange labels"

    def sniff(self, file: File) -> bool:
        """A JSON list of objects with a kind or causes, or an empty one."""
        return _LABELS.match(file.head) is not None

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """Nothing: labels are what the outcome is compared with."""
        del files, scope
        return [], []
