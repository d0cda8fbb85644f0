"""A Prometheus page about InfiniBand ports: UFM's telemetry, or another exporter's.

Pages name ports by GUID and number in labels whose spelling differs between exporters. Words of a
page (names, labels) come out in lower case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats import promtext
from fabricmon.formats.infiniband.ibtext import PortCounts, parse_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fabricmon.formats.base import Bad

GROUP = "prometheus"

_WANTED = r"(?i)(infiniband_|port|symbol|link|excessive|vl15)"
_OURS = re.compile(rb"^(?:# (?:HELP|TYPE) )?(?:infiniband_\w+|PortXmit\w+)[ {]", re.MULTILINE)
_GUIDS = ("node_guid", "nodeguid", "local_guid", "guid", "port_guid", "portguid")
_PORTS = ("port_num", "port_number", "portnum", "portnumber", "local_port", "port")
_NAMES = ("node_description", "node_desc", "local_name", "switch", "node_name")


def sniff(head: bytes) -> bool:
    """Whether a page tells of InfiniBand ports."""
    return _OURS.search(head) is not None


def read(lines: Iterable[str], bad: Bad, file: str = "") -> Iterator[PortCounts]:
    """Every port of a page. Samples without a port's GUID and number are left out.

    A float holds counts exactly up to 2^53; beyond, the last digits are the page's, not the port's.
    """
    ports: dict[tuple[int, int], PortCounts] = {}
    for sample in promtext.samples(lines, _WANTED, bad, file):
        labels = {key.lower(): value for key, value in sample.labels.items()}
        number = _first(labels, _PORTS)
        if not number.isdigit() or not 0 <= sample.value < 2**64:
            continue
        try:
            key = (parse_guid(_first(labels, _GUIDS)), int(number))
        except ValueError:
            continue
        if key not in ports:
            name = _first(labels, _NAMES)
            ports[key] = PortCounts(GROUP, key[1], guid=key[0], name=name)
        ports[key].values[sample.name.lower()] = int(sample.value)
    yield from ports.values()


def _first(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
