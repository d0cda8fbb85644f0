"""The scrape page: rendered once per tick and fabric in the worker thread, then only handed out."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from pydantic import Field

from fabricmon.selfmon import Event
from fabricmon.settings import Settings
from fabricmon_exporters.prometheus.families import FAMILIES, GROUPS
from fabricmon_exporters.prometheus.labels import PortLabels
from fabricmon_exporters.prometheus.page import Piece, assemble, header
from fabricmon_exporters.prometheus.render import Choice, render
from fabricmon_exporters.prometheus.samples import Memory, Values
from fabricmon_exporters.prometheus.small import OPENED, SMALL, Opened, small_lines, with_exemplars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fabricmon.api import Context, Page
    from fabricmon.model.snapshot import Snapshot
    from fabricmon_exporters.prometheus.families import Metric

_FRESH_S = 1.0
"""Own metrics on the page may be that old, so that scrapes at the same time share a render."""
_MAX_PAGES = 16
_SHARD = re.compile(r"(\d{1,4})/(\d{1,4})$")
_SELF = "self"
_SMALL_GROUPS = frozenset(family.group for family in SMALL) | {_SELF}
METRICS: tuple[Metric, ...] = (*SMALL, *FAMILIES)
"""Everything on the page but fabricmon's own metrics, in the order of the page."""
_KNOWN = {metric.name for metric in METRICS} | set(GROUPS) | _SMALL_GROUPS | {"all"}


class PrometheusConfig(Settings):
    """What users write under `exporters: prometheus:`."""

    series_per_port: int = Field(default=10, ge=0)
    """Series a port has on the page unless `collect[]` asks for more; 0 for all."""
    max_series: int = Field(default=2_000_000, ge=1)
    """Ceiling of one fabric; what is beyond it is dropped and counted."""


@dataclass(slots=True)
class _Fabric:
    """What is kept of one fabric."""

    labels: PortLabels
    memory: Memory
    opened: Opened
    values: Values | None = None
    counts: dict[str, int] | None = None
    pieces: dict[str, Piece] | None = None
    """Family name -> lines of the default page."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A page that was asked for."""

    openmetrics: bool
    names: frozenset[str] | None
    own: bool
    shard: tuple[int, int] | None

    @property
    def is_default(self) -> bool:
        """The page that is rendered ahead."""
        return self.names is None and self.shard is None


class PrometheusExporter:
    """An `Exporter` that is also a `PageSource`. Thread-safe."""

    Config: ClassVar[type[Settings]] = PrometheusConfig

    def __init__(self, config: PrometheusConfig, context: Context) -> None:
        """Store; nothing else."""
        self.config = config
        self._context = context
        self._fabrics: dict[str, _Fabric] = {}
        self._pages: OrderedDict[_Query, tuple[float, Page]] = OrderedDict()
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Begin with an empty page."""
        self._clear()

    async def stop(self) -> None:
        """Forget everything."""
        self._clear()

    def _clear(self) -> None:
        with self._lock:
            self._fabrics.clear()
            self._pages.clear()

    def publish(self, snapshot: Snapshot) -> None:
        """Render the default page of one fabric."""
        with self._lock:
            fabric = self._fabrics.get(snapshot.fabric)
            if fabric is None:
                fabric = _Fabric(PortLabels(snapshot.fabric), Memory(), Opened())
                self._fabrics[snapshot.fabric] = fabric
            fabric.values = Values(snapshot, fabric.memory)
            fabric.counts = fabric.opened.see(snapshot)
            query = _Query(openmetrics=False, names=None, own=True, shard=None)
            fabric.pieces = {}
            for name, piece in self._render(fabric, query, count_dropped=True):
                if piece.large:
                    piece.packed()
                fabric.pieces[name] = piece
            self._pages.clear()

    def forget(self, fabric: str) -> None:
        """A fabric was taken from the config: its series are gone from the next page."""
        with self._lock:
            self._fabrics.pop(fabric, None)
            self._pages.clear()

    def page(self, query: Mapping[str, Sequence[str]], *, openmetrics: bool) -> Page:
        """The page for `collect[]` (names, groups or `all`) and `shard` (`i/n`, from 0)."""
        wanted = _parse(query, openmetrics=openmetrics)
        now = self._context.clock.monotonic()
        with self._lock:
            found = self._pages.get(wanted)
            if found is not None and now - found[0] < _FRESH_S:
                return found[1]
            page = self._assemble(wanted)
            self._pages[wanted] = (now, page)
            self._pages.move_to_end(wanted)
            if len(self._pages) > _MAX_PAGES:
                self._pages.popitem(last=False)
            return page

    def _assemble(self, query: _Query) -> Page:
        by_family: dict[str, list[Piece]] = {}
        for fabric_name, fabric in sorted(self._fabrics.items()):
            exemplars = with_exemplars(fabric_name, fabric.opened) if query.openmetrics else None
            if query.is_default and fabric.pieces is not None:
                pieces = iter(fabric.pieces.items())
            else:
                pieces = self._render(fabric, query)
            for name, piece in pieces:
                named = Piece(exemplars) if name == OPENED and exemplars else piece
                by_family.setdefault(name, []).append(named)
        parts: list[Piece] = []
        for family in METRICS:
            pieces_of = by_family.get(family.name)
            if pieces_of:
                top = header(family.name, family.type, family.help, openmetrics=query.openmetrics)
                parts += [Piece(top), *pieces_of]
        parts.append(Piece(self._own(query)))
        return assemble(parts, openmetrics=query.openmetrics)

    def _render(
        self, fabric: _Fabric, query: _Query, *, count_dropped: bool = False
    ) -> Iterator[tuple[str, Piece]]:
        """Family name and lines, for everything the query wants of one fabric."""
        assert fabric.values is not None
        assert fabric.counts is not None
        snapshot = fabric.values.snapshot
        for name, lines in small_lines(snapshot, fabric.counts, query.shard).items():
            if lines and (query.names is None or name in query.names):
                yield name, Piece("".join(lines).encode("utf-8"))
        choice = Choice(query.names, query.shard, self.config.series_per_port)
        blocks, dropped = render(fabric.values, fabric.labels, choice, self.config.max_series)
        if dropped and count_dropped:
            self._context.report.metrics.series_dropped.labels("ceiling").inc(dropped)
            self._context.report.emit(Event.EXPORT_DROPPED, snapshot.fabric, series=dropped)
        for block in blocks:
            yield block.family.name, Piece(block.text)

    def _own(self, query: _Query) -> bytes:
        """Fabricmon's own metrics, as `prometheus_client` prints them."""
        registry = self._context.report.metrics.registry
        wanted = query.own and (query.shard is None or query.shard[0] == 0)
        if query.openmetrics:
            text: bytes = generate_openmetrics(registry) if wanted else b"# EOF\n"  # type: ignore[no-untyped-call] # prometheus_client leaves it unannotated
            return text
        return generate_latest(registry) if wanted else b""


def _parse(query: Mapping[str, Sequence[str]], *, openmetrics: bool) -> _Query:
    shards = query.get("shard", ())
    if len(shards) > 1:
        raise ValueError("shard is given twice")
    shard = _parse_shard(shards[0]) if shards else None
    words = frozenset(query.get("collect[]", ()))
    if not words:
        return _Query(openmetrics, None, own=True, shard=shard)
    if not words <= _KNOWN:
        groups = ", ".join(sorted({*GROUPS, *_SMALL_GROUPS, "all"}))
        raise ValueError(
            f"unknown collect[] {min(words - _KNOWN)!r}; "
            f"there are names of metrics, and the groups {groups}"
        )
    names = frozenset(
        family.name
        for family in METRICS
        if "all" in words or family.name in words or family.group in words
    )
    return _Query(openmetrics, names, own=bool(words & {_SELF, "all"}), shard=shard)


def _parse_shard(text: str) -> tuple[int, int]:
    match = _SHARD.match(text)
    if match is None or not int(match[1]) < int(match[2]):
        raise ValueError(f"shard is i/n with 0 <= i < n, not {text[:20]!r}")
    return int(match[1]), int(match[2])
