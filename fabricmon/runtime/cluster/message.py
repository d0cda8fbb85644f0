"""What travels through the log: one item of a fabric's stream in one message.

Subjects are `fabricmon.CLUSTER.FABRIC.` and the shard for what was polled, `tick` for ticks, the
worker's own id for the shape it found. The body is a recording of that one item (`record.codec`,
Arrow IPC with zstd); a header says who sent it under which lease, so that most refusals need no
decoding.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from fabricmon.errors import FormatError
from fabricmon.model.readings import PortSet, ReadingBatch
from fabricmon.model.topology import Topology
from fabricmon.record.codec import Decoder, Encoder, schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fabricmon.model.readings import Column
    from fabricmon.model.stream import Item

HEADER = "Fabricmon"
TICK = "tick"
_MOST_BYTES = 64 << 20
_MOST_KNOWN = 65_536
_PART = 5_000
"""Nodes, links and ports of a shape in one message."""


def word(name: str) -> str:
    """`name` as one token of a subject and as a part of a key: what is not plain becomes `=XX`."""
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E").replace("%", "=")


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who sent a message, under which lease, and which one of its own it is."""

    worker: str
    store: int
    """When the server's store of leases was made, which begins to count tokens anew."""
    token: int
    """Fencing token of the lease it was sent under."""
    number: int
    """Counts the messages of one target from one worker; grows with each."""
    sent_ns: int
    """The sender's wall clock when it was sent: its distance from the server's is its skew."""
    target: str = ""
    collector: str = ""
    took_s: float = 0.0
    """A tick: how long ago the sender's round had begun."""

    def headers(self) -> dict[str, str]:
        """As message headers; the id lets the server drop what is sent twice."""
        ident = f"{word(self.target) or TICK}-{self.worker}-{self.token}-{self.number}"
        return {"Nats-Msg-Id": ident, HEADER: orjson.dumps(astuple(self)).decode()}

    @classmethod
    def read(cls, headers: Mapping[str, str] | None) -> Stamp:
        """The inverse. Raises `FormatError`."""
        try:
            fields = orjson.loads((headers or {})[HEADER])
            worker, store, token, number, sent_ns, *texts, took_s = fields
            counts = (int(store), int(token), int(number), int(sent_ns))
            target, collector = map(str, texts)
            return cls(str(worker), *counts, target, collector, float(took_s))
        except (KeyError, ValueError, TypeError) as error:
            raise FormatError(f"a message without a stamp of ours: {error!r}") from error


def pack(item: Item, fabric: str) -> bytes:
    """One item as the body of a message."""
    import pyarrow as pa  # noqa: PLC0415 - 50 MB that a single daemon need not pay

    layout, encoder = schema(fabric), Encoder()
    encoder.add(item)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
    with pa.ipc.new_stream(sink, layout, options=options) as stream:
        stream.write_batch(encoder.take(layout))
    body: bytes = sink.getvalue().to_pybytes()
    return body


class Unpacker:
    """Bodies back to items. Names of ports and columns are made one object again, as they were."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._known: dict[PortSet | tuple[Column, ...], Any] = {}

    def item(self, body: bytes) -> Item:
        """The item. Raises `FormatError`."""
        import pyarrow as pa  # noqa: PLC0415 - see `pack`

        if len(body) > _MOST_BYTES:
            raise FormatError(f"a message of {len(body)} bytes")
        try:
            options = pa.ipc.IpcReadOptions(
                use_threads=False
            )  # waking them costs more than it gives
            with pa.ipc.open_stream(body, options=options) as stream:
                if not stream.schema.equals(schema("")):
                    raise FormatError("not a recording of this version")
                items = [item for batch in stream for item in Decoder("message").items(batch)]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"not a recording: {error}") from error
        if len(items) != 1:
            raise FormatError(f"{len(items)} items in a message")
        item = items[0]
        return self._interned(item) if isinstance(item, ReadingBatch) else item

    def _interned(self, batch: ReadingBatch) -> ReadingBatch:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        known = self._known.setdefault
        return ReadingBatch(
            batch.target,
            known(batch.ports, batch.ports),
            known(batch.columns, batch.columns),
            batch.values,
            batch.state,
            batch.time_ns,
            known(batch.gauge_columns, batch.gauge_columns),
            batch.gauges,
            batch.discontinuity,
            batch.partial,
        )


def parts(item: Item, most_bytes: int) -> Iterator[Item]:
    """The item in pieces that fit a message; a pipeline that takes them all knows the same."""
    match item:
        case ReadingBatch():
            yield from _rows(item, most_bytes)
        case Topology():
            yield from _shape(item)
        case _:
            yield item


def _shape(whole: Topology) -> Iterator[Topology]:
    longest = max(len(whole.nodes), len(whole.links), len(whole.ports))
    for begin in range(0, max(longest, 1), _PART):
        part = slice(begin, begin + _PART)
        first = whole if begin == 0 else Topology()
        nodes, links, ports = whole.nodes[part], whole.links[part], whole.ports[part]
        yield replace(first, nodes=nodes, links=links, ports=ports)


def _rows(batch: ReadingBatch, most_bytes: int) -> Iterator[ReadingBatch]:
    """A batch by its ports: 8 bytes a value, before compression."""
    each = 8 * (len(batch.columns) + len(batch.gauge_columns) + 1) + len(batch.columns)
    rows = max(1, most_bytes // (each + 64))
    if len(batch.ports) <= rows:
        yield batch
        return
    for begin in range(0, len(batch.ports), rows):
        part = slice(begin, begin + rows)
        yield ReadingBatch(
            batch.target,
            PortSet(batch.ports.device[part], batch.ports.port[part]),
            batch.columns,
            batch.values[:, part],
            batch.state[:, part],
            batch.time_ns[part],
            batch.gauge_columns,
            batch.gauges[:, part],
            batch.discontinuity,
            batch.partial,
        )
