"""gNMI-style JSON: whatever gnmic, telegraf and people's scripts wrote."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fabricmon.formats.gnmi import gnmi
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.continuity import Continuity
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.formats.system import sonic
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.record.readers.clocks import Clocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.formats.system.sonic import Names
    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope

_READ = 4 << 20


class GnmiJson:
    """gnmic `event` and `json`, protojson, telegraf and their like."""

    name = "gNMI JSON"

    def sniff(self, file: File) -> bool:
        """By the keys of the first record."""
        return gnmi.sniff(file.head)

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """One stream a file; cables that LLDP names come with it."""
        paths = GnmiPaths.load()
        table = SeriesTable(scope.layout, paths)
        # A state that is sent when it changes holds until it is sent again.
        scope.settle.append(Continuity(table).apply)
        names: dict[tuple[str, str], Names] = {}
        pieces = [self._pieces(file, scope, table, paths, names) for file in files]
        for file, piece in zip(files, pieces, strict=True):
            if sonic.is_map(file.name):  # all that is in there is what others need
                deque(piece, maxlen=0)
        return [], pieces

    @staticmethod
    def _pieces(
        file: File,
        scope: Scope,
        table: SeriesTable,
        paths: GnmiPaths,
        names: dict[tuple[str, str], Names],
    ) -> Pieces:
        recorder = Recorder(table, paths, device=file.path.stem)
        recorder.names = names
        decoder = gnmi.GnmiDecoder(recorder, scope.bad, file.name)
        clocks = Clocks(scope.layout, scope.bad, file.name)
        written_ns, known = file.written_ns, None
        with file.open() as stream:
            while data := stream.read(_READ):
                decoder.feed(data, written_ns)
                shape = recorder.topology()
                if shape is not None and shape != known:
                    known = shape
                    yield shape
                yield clocks.corrected(recorder.samples.take())
            decoder.close(written_ns)
            shape = recorder.topology()
            if shape is not None and shape != known:
                yield shape
            yield clocks.corrected(recorder.samples.take())
