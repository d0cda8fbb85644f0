"""Collector of gNMI-style files: finished ones, and such that grow and rotate.

The target's address is a file, a directory or a glob. Each poll gives what came since the last one,
in order of time. Reading happens in a thread, at most `max_bytes` a poll.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from fabricmon.collectors.gnmi.harvest import Harvest, load_paths
from fabricmon.collectors.gnmi.tail import Followed, News, Tail
from fabricmon.errors import FormatError, PollError, Reason
from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi.gnmi import GnmiDecoder
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.line_forms import LineForms
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.selfmon import Event
from fabricmon.settings import Duration, Settings, Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fabricmon.api import Context, Target
    from fabricmon.formats.base import BadRecord
    from fabricmon.model.readings import Poll
    from fabricmon.model.topology import Topology


class GnmiFileConfig(Settings):
    """`collectors.gnmi_file` of the config."""

    mappings: list[Path] = []
    """Folders with mapping files of your own; they win over the built-in ones."""
    backlog: Size = 64 << 20
    """How much at the end of an existing file is read at the start."""
    max_bytes: Annotated[Size, Field(ge=1 << 16)] = 64 << 20
    """How much is read in one poll at most; the rest waits for the next."""
    silence: Duration = 60.0
    """A target whose files did not grow for this long counts as failed."""
    series: Annotated[int, Field(ge=1)] = 8_000_000
    """Series that one target may have; more are refused and counted. Silent ports are forgotten."""


class GnmiFileCollector:
    """Reads files; one `_Source` a target."""

    Config: ClassVar[type[Settings]] = GnmiFileConfig

    def __init__(self, config: GnmiFileConfig, targets: Sequence[Target], context: Context) -> None:
        """Store; nothing is opened before the first poll."""
        self._config = config
        self._targets = tuple(targets)
        self._context = context
        self._sources: dict[str, _Source] = {}

    async def start(self) -> None:
        """Nothing to prepare: files may not be there yet."""

    async def stop(self) -> None:
        """Close all files."""
        sources = list(self._sources.values())
        self._sources.clear()
        for source in sources:
            await asyncio.to_thread(source.close)

    async def discover(self, target: Target) -> Topology | None:
        """The cables that LLDP records in the files named so far."""
        source = self._sources.get(target.name)
        return source.recorder.topology() if source is not None else None

    async def poll(self, target: Target) -> Poll:
        """What came since the last poll."""
        source = self._sources.get(target.name)
        if source is None:
            source = self._sources[target.name] = _Source(target, self._config, self._context)
        try:
            return await asyncio.to_thread(source.poll)
        except FileNotFoundError as error:
            raise PollError(Reason.NOT_FOUND, f"{target.address}: no file there") from error
        except PermissionError as error:
            raise PollError(Reason.PERMISSION, f"{target.address}: may not be read") from error
        except OSError as error:
            text = error.strerror or str(error)
            raise PollError(Reason.UNREACHABLE, f"{target.address}: {text}") from error

    def more(self, target: Target) -> bool:
        """Whether the last poll left something for the next, since it was too much."""
        source = self._sources.get(target.name)
        return source is not None and source.more

    def unmatched_of(self, target: Target) -> Mapping[str, int]:
        """The paths in a target's files that no mapping knows, the most frequent."""
        source = self._sources.get(target.name)
        return source.harvest.unmatched if source is not None else {}

    @property
    def unmatched(self) -> Counter[str]:
        """Paths seen in the files that no mapping knows, all of them."""
        total = Counter[str]()
        for source in self._sources.values():
            total.update(source.paths.unmatched)
        return total


class _Source:
    """The files of one target, and what was learnt of them."""

    def __init__(self, target: Target, config: GnmiFileConfig, context: Context) -> None:
        self._target, self._config, self._context = target, config, context
        self.paths = load_paths(target.mapping, config.mappings)
        table = SeriesTable(Layout(target.name), self.paths, config.series)
        self.recorder = Recorder(table, self.paths, device=target.name)
        self._forms = forms = LineForms()
        self.harvest = Harvest(self.recorder, self.paths, context.report, forms.forget, forms.tidy)
        self._tail = Tail(target.address, config.backlog)
        self._decoders: dict[int, tuple[Followed, GnmiDecoder]] = {}
        self._last_news = context.clock.monotonic()
        self._lock = threading.Lock()
        self._closed = False
        self._told: set[str] = set()
        self.more = False
        """The last poll read as much as it may."""

    def poll(self) -> Poll:
        """Runs in a thread. A poll that was given up may still run, so they take turns."""
        with self._lock:
            if self._closed:
                raise PollError(Reason.NO_DATA, "the collector was stopped")
            return self._poll()

    def _poll(self) -> Poll:
        now, clock = self._context.clock.now_ns(), self._context.clock
        got = 0
        for news in self._read():
            if self._closed:
                break
            decoder = self._decoder(news.file)
            now = min(clock.now_ns(), news.file.written_ns)
            decoder.feed(news.data, now)
            got += len(news.data)
            if news.ended:
                decoder.close(now)
                self._decoders.pop(id(news.file), None)
        self._settle(now)
        self.more = got >= self._config.max_bytes
        if got:
            self._last_news = clock.monotonic()
        elif clock.monotonic() - self._last_news > self._config.silence:
            quiet = clock.monotonic() - self._last_news
            raise PollError(Reason.NO_DATA, f"{self._target.address}: no news for {quiet:.0f} s")
        self._tell_oddities()
        return self.harvest.poll()

    def _settle(self, now: int) -> None:
        """Take last records without a line end; let go of files that are closed and read."""
        for key, (file, decoder) in list(self._decoders.items()):
            decoder.settle(now)
            if file.raw is None and not decoder.waiting:
                file.lines = decoder.line
                del self._decoders[key]

    def _read(self) -> Iterator[News]:
        try:
            yield from self._tail.read(self._config.max_bytes)
        except FormatError as error:
            self.harvest.lose(Reason.MALFORMED)
            self._context.report.emit(
                Event.RECORD_SKIPPED, self._target.name, reason=error.message, file=error.file
            )

    def _decoder(self, file: Followed) -> GnmiDecoder:
        known = self._decoders.get(id(file))
        if known is not None:
            return known[1]
        decoder = GnmiDecoder(self.recorder, self._bad, file.path, self._forms)
        decoder.line = file.lines
        self._decoders[id(file)] = (file, decoder)
        return decoder

    def _bad(self, record: BadRecord) -> None:
        self.harvest.lose(Reason.MALFORMED)
        self._context.report.emit(
            Event.RECORD_SKIPPED,
            record.file,
            line=record.line,
            reason=record.reason,
            target=self._target.name,
        )

    def _tell_oddities(self) -> None:
        """Once a source: what is read all the same, but somebody should know."""
        samples = self.recorder.samples
        oddities = (
            ("rounded", samples.rounded, "counts above 2^53 as JSON numbers: may be rounded"),
            ("untimed", samples.untimed, "records without a time: the time of reading is taken"),
            ("units", samples.foreign_units, "times that are not in nanoseconds"),
        )
        for key, count, text in oddities:
            if count and key not in self._told:
                self._told.add(key)
                self._context.report.emit(Event.VALUE_SUSPECT, self._target.name, what=text)
        if self.paths.unmatched and "unmatched" not in self._told:
            self._told.add("unmatched")
            path, _ = self.paths.unmatched.most_common(1)[0]
            self._context.report.emit(
                Event.VALUE_IGNORED,
                self._target.name,
                paths=len(self.paths.unmatched),
                example=path,
            )

    def close(self) -> None:
        """Close all files; a poll that still runs in its thread ends early."""
        self._closed = True
        with self._lock:
            self._tail.close()
