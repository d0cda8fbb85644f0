"""Reading recordings back: the same items in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabricmon.errors import FormatError
from fabricmon.formats.compressed import plain
from fabricmon.record.codec import FABRIC, MARK, VERSION, Decoder, schema
from fabricmon.record.writer import SUFFIX
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fabricmon.model.stream import Item
    from fabricmon.selfmon import Reporter


def sniff(head: bytes) -> bool:
    """Whether a file that begins so is a recording."""
    return head.startswith(b"\xff\xff\xff\xff") and MARK.encode() in head


class Recording:
    """A recording: its files in the order they were written. A file that is none costs itself."""

    def __init__(self, paths: Sequence[Path], report: Reporter, *, fabric: str = "") -> None:
        """Files, or folders of files. `fabric` picks one of several, or renames the only one.

        Raises `FormatError` where no file is a recording, or where they are of several fabrics.
        """
        self._report = report
        found: dict[str, list[Path]] = {}
        for file in _files(paths):
            try:
                found.setdefault(_fabric_of(file), []).append(file)
            except FormatError as error:
                report.emit(Event.RECORD_SKIPPED, str(file), reason=str(error))
        where = ", ".join(map(str, paths))
        if not found:
            raise FormatError("no recording in it", file=where)
        if len(found) > 1 and fabric not in found:
            names = ", ".join(sorted(found))
            raise FormatError(f"recordings of several fabrics: {names}; name one", file=where)
        name = fabric if fabric in found else next(iter(found))
        self.fabric, self._files = fabric or name, found[name]

    def items(self) -> Iterator[Item]:
        """The stream, from its start. A torn end is told and costs what was after the last tick."""
        for number, file in enumerate(self._files):
            yield from self._read(file, first=number == 0)

    def _read(self, file: Path, *, first: bool) -> Iterator[Item]:
        import pyarrow as pa  # noqa: PLC0415 - 50 MB that only recording needs

        decoder, ticks = Decoder(str(file)), 0
        with file.open("rb") as raw:
            reader = _reader(plain(raw, str(file)), str(file))
            while True:
                try:
                    batch = reader.read_next_batch()
                    items = list(decoder.items(batch, first_file=first))
                except StopIteration:
                    return
                except (pa.ArrowException, OSError, MemoryError, FormatError) as error:
                    where = f"unreadable after {ticks} whole ticks"
                    self._report.emit(
                        Event.RECORD_SKIPPED, str(file), reason=where, error=str(error)
                    )
                    return
                yield from items
                ticks += 1


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob(f"*{SUFFIX}*")) if path.is_dir() else [path]


def _fabric_of(file: Path) -> str:
    with file.open("rb") as raw:
        metadata = _reader(plain(raw, str(file)), str(file)).schema.metadata
    return str(metadata.get(FABRIC.encode(), b"").decode("utf-8", "replace"))


def _reader(stream: Any, file: str) -> Any:
    """An Arrow stream reader. Raises `FormatError` where this is no recording we can read."""
    import pyarrow as pa  # noqa: PLC0415 - see `Recording`

    try:
        reader = pa.ipc.open_stream(stream)
        metadata = reader.schema.metadata or {}
        version = metadata.get(MARK.encode(), b"").decode("ascii", "replace")
        fits = reader.schema.equals(schema(""))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not readable as a recording: {error}", file=file) from error
    if version != str(VERSION) or not fits:
        raise FormatError(f"a recording of version {version or 'unknown'}", file=file)
    return reader
