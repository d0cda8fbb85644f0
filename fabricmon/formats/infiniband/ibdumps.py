"""Any text that InfiniBand tools leave behind: what it is, and what it says.

One door to all of them, for replay and for folders that a cron job fills.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon.formats.infiniband.tools import (
    ibdiagnet,
    iblinkinfo,
    ibnetdiscover,
    ibprom,
    ibqueryerrors,
    perfquery,
    ufm,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.formats.base import Bad
    from fabricmon.formats.infiniband.ibfabric import IbFabric
    from fabricmon.formats.infiniband.ibtext import PortCounts


SHAPES_ALONE = frozenset({"ibnetdiscover", "iblinkinfo"})
"""Kinds that tell of nodes and cables, and count nothing."""
SHAPES = SHAPES_ALONE | {"ibdiagnet db_csv"}
"""Kinds that tell of nodes and cables."""


@dataclass(slots=True)
class Dump:
    """What one file says. `times` (ns since the epoch) goes with `counts` where it has them."""

    kind: str
    fabric: IbFabric | None = None
    counts: list[PortCounts] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


def sniff(head: bytes) -> str:
    """Which tool's text begins like this; empty for none."""
    return next((kind for kind, (is_it, _) in _KINDS.items() if is_it(head)), "")


def read(text: str, bad: Bad, file: str = "", kind: str = "") -> Dump:
    """Read one file, of a kind that is known or else looked for. Bad records cost only themselves.

    Raises `ValueError` where it is none of these.
    """
    kind = kind or sniff(text[:8192].encode("latin-1", "replace"))
    if kind not in _KINDS:
        raise ValueError(f"{file or 'the text'} is no output of an InfiniBand tool")
    return _KINDS[kind][1](text, bad, file)


def _perfquery(text: str, bad: Bad, file: str) -> Dump:
    return Dump("perfquery", None, list(perfquery.read(text.splitlines(), bad, file)))


def _ibnetdiscover(text: str, bad: Bad, file: str) -> Dump:
    return Dump("ibnetdiscover", ibnetdiscover.read(text.splitlines(), bad, file))


def _iblinkinfo(text: str, bad: Bad, file: str) -> Dump:
    return Dump("iblinkinfo", iblinkinfo.read(text.splitlines(), bad, file))


def _ibqueryerrors(text: str, bad: Bad, file: str) -> Dump:
    return Dump("ibqueryerrors", None, list(ibqueryerrors.read(text.splitlines(), bad, file)))


def _db_csv(text: str, bad: Bad, file: str) -> Dump:
    fabric, counts = ibdiagnet.read_csv(text.splitlines(), bad, file)
    return Dump("ibdiagnet db_csv", fabric if fabric.nodes else None, counts)


def _pm(text: str, bad: Bad, file: str) -> Dump:
    return Dump("ibdiagnet pm", None, list(ibdiagnet.read_pm(text.splitlines(), bad, file)))


def _page(text: str, bad: Bad, file: str) -> Dump:
    return Dump("Prometheus page", None, list(ibprom.read(text.splitlines(), bad, file)))


def _ufm(text: str, bad: Bad, file: str) -> Dump:
    rows = list(ufm.read(text, bad, file))
    return Dump("UFM telemetry", None, [counts for _, counts in rows], [time for time, _ in rows])


_KINDS: dict[str, tuple[Callable[[bytes], bool], Callable[[str, Bad, str], Dump]]] = {
    "ibdiagnet db_csv": (ibdiagnet.sniff_csv, _db_csv),
    "ibdiagnet pm": (ibdiagnet.sniff_pm, _pm),
    "ibnetdiscover": (ibnetdiscover.sniff, _ibnetdiscover),
    "ibqueryerrors": (ibqueryerrors.sniff, _ibqueryerrors),
    "iblinkinfo": (iblinkinfo.sniff, _iblinkinfo),
    "perfquery": (perfquery.sniff, _perfquery),
    "UFM telemetry": (ufm.sniff, _ufm),
    "Prometheus page": (ibprom.sniff, _page),
}
"""The most telling signs first."""
