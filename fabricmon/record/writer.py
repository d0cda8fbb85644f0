"""Writing a recording: one Arrow record batch per tick, flushed, in files that rotate.

A file that was cut by `kill -9` or a full disk reads up to its last whole tick. Each file stands
for itself: it names its ports and carries the topology that was known when it was begun.
"""

from __future__ import annotations

import glob
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from fabricmon.model.stream import Item, Tick
from fabricmon.model.topology import Topology
from fabricmon.record.codec import Encoder, schema
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.selfmon import Reporter

SUFFIX = ".arrows"
_BUFFER = 1 << 20


class Writer:
    """Records the stream of one fabric.

    `path` is a file if it ends in `.arrows` (then it is never rotated), else a folder. Nothing is
    touched before the first tick is written.
    """

    def __init__(
        self,
        path: Path,
        fabric: str,
        report: Reporter,
        *,
        rotate_s: float = 3600.0,
        keep_bytes: int = 0,
    ) -> None:
        """A new file every `rotate_s` of ticks; oldest files go beyond `keep_bytes` (0: never)."""
        self._path, self._fabric, self._report = path, fabric, report
        self._rotate_ns, self._keep_bytes = round(rotate_s * 1e9), keep_bytes
        self._schema: Any = None
        self._file: BinaryIO | None = None
        self._name = path
        self._stream: Any = None
        self._encoder = Encoder()
        self._pending: list[Item] = []
        self._topology: Topology | None = None
        self._begun_ns = 0
        self._whole = 0

    def write(self, item: Item) -> None:
        """Take one item; what came since the last tick is written when the next tick comes."""
        self._pending.append(item)
        if isinstance(item, Tick):
            self._commit(item.time_ns)

    def close(self) -> None:
        """Write what came since the last tick and end the file."""
        if self._pending:
            self._commit(self._begun_ns)
        if self._stream is not None:
            try:
                self._stream.close()
            except OSError as error:
                self._failed(error)
        self._end()

    def _commit(self, time_ns: int) -> None:
        items, self._pending = self._pending, []
        try:
            if self._stream is None or self._due(time_ns):
                self._begin(time_ns)
            for item in items:
                self._encoder.add(item)
            self._stream.write_batch(self._encoder.take(self._schema))
            assert self._file is not None
            self._file.flush()
            self._whole = self._file.tell()
        except OSError as error:
            self._failed(error)
        for item in items:
            if isinstance(item, Topology):
                self._topology = self._topology.merged(item) if self._topology else item

    def _due(self, time_ns: int) -> bool:
        single = self._path.suffix == SUFFIX
        return not single and not 0 <= time_ns - self._begun_ns < self._rotate_ns

    def _begin(self, time_ns: int) -> None:
        import pyarrow as pa  # noqa: PLC0415 - 50 MB that only recording needs

        if self._stream is not None:
            self._stream.close()
            self._end()
        self._schema = schema(self._fabric)
        self._file, self._name = self._open(time_ns)
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
        self._stream = pa.ipc.new_stream(self._file, self._schema, options=options)
        self._encoder = Encoder()
        self._begun_ns = time_ns
        if self._topology is not None:
            self._encoder.add(self._topology, carried=True)
        self._prune()
        self._report.emit(Event.RECORDING_ROTATED, self._fabric, file=str(self._name))

    def _open(self, time_ns: int) -> tuple[BinaryIO, Path]:
        if self._path.suffix == SUFFIX:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._path.open("wb", buffering=_BUFFER), self._path
        self._path.mkdir(parents=True, exist_ok=True)
        stamp = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")
        name = self._path / f"{self._prefix}-{self._next_number():06d}-{stamp}{SUFFIX}"
        return name.open("xb", buffering=_BUFFER), name

    @property
    def _prefix(self) -> str:
        return "".join(c if c.isalnum() or c in "-_." else "_" for c in self._fabric)

    def _existing(self) -> list[Path]:
        """Files of this fabric, oldest first: by number, since clocks step."""
        return sorted(self._path.glob(f"{glob.escape(self._prefix)}-[0-9]*{SUFFIX}"))

    def _next_number(self) -> int:
        files = self._existing()
        return int(files[-1].name.removeprefix(self._prefix + "-")[:6]) + 1 if files else 0

    def _prune(self) -> None:
        """Remove the oldest files of this fabric while all together are above `keep_bytes`."""
        if not self._keep_bytes or self._path.suffix == SUFFIX:
            return
        files = self._existing()
        sizes = {file: file.stat().st_size for file in files}
        for file in files[:-1]:
            if sum(sizes.values()) <= self._keep_bytes:
                break
            file.unlink(missing_ok=True)
            del sizes[file]

    def _failed(self, error: OSError) -> None:
        """Lose this tick, keep what is whole, and begin a new file at the next tick."""
        self._report.emit(Event.RECORDING_FAILED, self._fabric, error=str(error))
        self._end(cut=True)

    def _end(self, *, cut: bool = False) -> None:
        self._stream = None
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            file.close()
        except OSError:  # the buffer of a tick that is reported as lost already
            cut = True
        if cut and self._whole:
            with self._name.open("r+b") as whole:
                whole.truncate(self._whole)
        elif cut:
            self._name.unlink(missing_ok=True)
        self._whole = 0
