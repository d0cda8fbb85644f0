"""Plans of cables: lldpctl's JSON, containerlab topologies, PTM's `topology.dot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.formats import cabling
from fabricmon.record.files import untimed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope


class Cabling:
    """Files that hold a shape and no counters."""

    name = "plan of cables"

    def sniff(self, file: File) -> bool:
        """By their first words."""
        return cabling.sniff(file.head)

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """Each as it is. `lldpctl` does not say where it was run: the file's name does."""
        del scope
        return [
            cabling.read(
                file.read().decode("utf-8", "replace"), file=file.name, device=untimed(file)
            )
            for file in files
        ], []
