"""Looks at any files and gives the stream that is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats.base import Layout
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology
from fabricmon.record import recording
from fabricmon.record.files import found, numbered
from fabricmon.record.recording import Recording
from fabricmon.record.ticks import DEFAULT_INTERVAL_S, Feed, stream
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fabricmon.formats.base import BadRecord
    from fabricmon.model.stream import Item, Source
    from fabricmon.model.topology import Intent
    from fabricmon.record.files import File
    from fabricmon.record.readers import Family, Scope
    from fabricmon.record.readers.base import Pieces
    from fabricmon.selfmon import Reporter


def open_source(
    paths: Sequence[Path],
    *,
    report: Reporter,
    fabric: str = "",
    columns: Path | None = None,
    intent: Intent | None = None,
    interval_s: float = 0.0,
) -> Source:
    """The stream in files and folders, whatever they are; found by looking at them.

    `fabric` names it where the files do not. `columns` is the map of a CSV of any make. `intent`
    and `interval_s` win over what the files say. Raises `FormatError` where nothing can be read;
    a bad record costs that record and is reported.
    """
    apart_s = interval_s or DEFAULT_INTERVAL_S
    files, series = numbered(found(paths), apart_s)
    if series:
        reason = f"files {series} have lost their times: taken as {apart_s:g} s apart"
        report.emit(Event.FALLBACK, str(paths[0]), reason=reason)
    known, recorded = _sorted_out(files, _families(columns), report)
    if recorded:
        if any(family.name != "interchange topology" for family in known):
            raise FormatError("a recording cannot be mixed with other files", file=str(paths[0]))
        source: Source = Recording([file.path for file in recorded], report, fabric=fabric)
        extra = [
            topology
            for family, own in known.items()
            for topology in family.read(own, _scope("", report))[0]
        ]
        return _Recorded(source, extra, intent) if extra or intent else source
    if not known:
        raise FormatError("nothing in it can be read", file=", ".join(map(str, paths)))
    _refuse_several(known)
    return _Dump(known, fabric or _named(paths), report, intent, interval_s)


def read_shape(path: Path, report: Reporter) -> Topology:
    """All that a file or folder tells of a fabric's shape. Raises as `open_source` does."""
    source = open_source([path], report=report)
    items = source.pieces() if isinstance(source, _Dump) else source.items()
    return Topology().merged(*(item for item in items if isinstance(item, Topology)))


def _families(columns: Path | None) -> tuple[Family, ...]:
    from fabricmon.record.readers import FAMILIES  # noqa: PLC0415 - mappings of every family

    if columns is None:
        return FAMILIES
    from fabricmon.record.readers.columns import MappedCsv  # noqa: PLC0415 - pydantic models

    return (MappedCsv(columns), *FAMILIES)


def _refuse_several(known: dict[Family, list[File]]) -> None:
    """A folder of dumps is not one dump: their ports and times would be mixed."""
    folders = {family.name: {file.path.parent for file in files} for family, files in known.items()}
    whole = folders.get("interchange counters", set()) & folders.get("interchange topology", set())
    if len(whole) > 1:
        names = ", ".join(sorted(folder.name for folder in whole))
        raise FormatError(f"several dumps: {names}; name one", file=str(min(whole).parent))


def _scope(fabric: str, report: Reporter) -> Scope:
    """What the readers of one replay share; bad records are reported."""
    from fabricmon.record.readers import Scope  # noqa: PLC0415 - see `_families`

    def bad(record: BadRecord) -> None:
        report.emit(Event.RECORD_SKIPPED, record.file, reason=str(record))

    return Scope(Layout(fabric), bad)


def _named(paths: Sequence[Path]) -> str:
    """A fabric called after the first path."""
    first = paths[0].resolve()
    return first.name if first.is_dir() else first.name.split(".")[0]


def _sorted_out(
    files: Sequence[File], families: Sequence[Family], report: Reporter
) -> tuple[dict[Family, list[File]], list[File]]:
    """Files by family, and recordings. A file of no family is told, and fatal if it was named."""
    known: dict[Family, list[File]] = {}
    recorded = []
    for file in files:
        try:
            family = next((family for family in families if family.sniff(file)), None)
            if family is not None:
                known.setdefault(family, []).append(file)
                continue
            if recording.sniff(file.head):
                recorded.append(file)
                continue
            start = file.head[:80].decode("utf-8", "replace").encode("unicode_escape").decode()
            reason = f"no format that is known; it begins with: {start}" if start else "is empty"
            problem = FormatError(reason, file=file.name)
        except FormatError as error:
            problem = error
        if file.given:
            raise problem
        report.emit(Event.RECORD_SKIPPED, file.name, reason=str(problem))
    return known, recorded


class _Recorded:
    """A recording under a topology or an intent that was given beside it."""

    def __init__(self, source: Source, extra: Sequence[Topology], intent: Intent | None) -> None:
        self.fabric = source.fabric
        self._source, self._extra, self._intent = source, extra, intent

    def items(self) -> Iterator[Item]:
        """The recording's own stream, with the topologies adapted."""
        extra = Topology()
        for topology in self._extra:
            extra = extra.merged(topology)
        yield self._adapted(extra)
        for item in self._source.items():
            yield self._adapted(item.merged(extra)) if isinstance(item, Topology) else item

    def _adapted(self, topology: Topology) -> Topology:
        return topology.with_intent(self._intent) if self._intent else topology


class _Dump:
    """Files of any family, read side by side and cut into ticks."""

    def __init__(
        self,
        known: dict[Family, list[File]],
        fabric: str,
        report: Reporter,
        intent: Intent | None,
        interval_s: float,
    ) -> None:
        self.fabric = fabric
        self._known, self._report = known, report
        self._intent, self._interval_s = intent, interval_s

    def items(self) -> Iterator[Item]:
        """Topology first, then batches and ticks in order of time."""
        ticks = 0
        for item in self.pieces():
            ticks += isinstance(item, Tick)
            yield item
        if not ticks:
            reason = "nothing in it is a counter of the catalogue"
            self._report.emit(Event.RECORD_SKIPPED, self.fabric, reason=reason)

    def pieces(self) -> Iterator[Item]:
        """The same; that there is no counter in it is nothing to tell."""
        scope = _scope(self.fabric, self._report)
        shape = Topology()
        pieces: list[Pieces] = []
        for family, files in self._known.items():
            topologies, streams = family.read(files, scope)
            pieces += streams
            for topology in topologies:
                shape = shape.merged(topology)
        shape = shape.with_inferred_roles()
        if self._intent is not None:
            shape = shape.with_intent(self._intent)
        if shape != Topology():
            yield shape
        feeds = [Feed(self._guarded(piece)) for piece in pieces]
        known = shape
        interval_s = self._interval_s or shape.interval_s
        for item in stream(feeds, scope.layout, interval_s, scope.settle):
            if not isinstance(item, Topology):
                yield item
            elif (found := _under(item, shape)) != known:
                known = found
                yield found

    def _guarded(self, pieces: Pieces) -> Pieces:
        """A file that cannot be read on costs what is left of it."""
        try:
            yield from pieces
        except FormatError as error:
            self._report.emit(Event.RECORD_SKIPPED, error.file, reason=str(error))


def _under(found: Topology, given: Topology) -> Topology:
    """What was found on the way, as far as nothing else was given from the start."""
    merged = found.merged(given)
    if given.intent.lossless_queues or not found.intent.lossless_queues:
        return merged
    return merged.with_intent(replace(given.intent, lossless_queues=found.intent.lossless_queues))
