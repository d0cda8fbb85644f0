"""Prometheus' text page as a source: node_exporter and dcgm-exporter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fabricmon.formats.base import BadRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fabricmon.formats.base import Bad

_SAMPLE = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\d+)?$"
)
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"\s*,?\s*')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


class Sample(NamedTuple):
    """One line of a page."""

    name: str
    labels: dict[str, str]
    value: float


def sniff(head: bytes) -> bool:
    """Whether a file beginning like this is a page."""
    return head.startswith((b"# HELP ", b"# TYPE ")) or bool(
        re.match(rb"(node|DCGM)_\w+(\{[^}]*\})? ", head)
    )


def samples(lines: Iterable[str], wanted: str, bad: Bad, file: str = "") -> Iterator[Sample]:
    """The samples whose name begins with one of the words of the pattern `wanted`."""
    prefix = re.compile(wanted)
    for number, line in enumerate(lines, 1):
        if not prefix.match(line):
            continue
        found = _SAMPLE.match(line.strip())
        try:
            value = float(found["value"]) if found is not None else None
        except ValueError:
            value = None
        if found is None or value is None:
            bad(BadRecord(file, number, f"no sample: {line[:80]!r}"))
            continue
        labels = {
            key: re.sub(r'\\["\\n]', lambda m: _ESCAPES[m[0]], text)
            for key, text in _LABEL.findall(found["labels"] or "")
        }
        yield Sample(found["name"], labels, value)


WANTED = (
    r"node_infiniband_|node_ethtool_(received|transmitted|link)_|node_network_(up|speed_bytes)\b"
    r"|DCGM_FI_\w*NVLINK"
)
"""Names that speak of ports; a page has thousands of others."""


def ports(
    lines: Iterable[str], bad: Bad, file: str = ""
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Host (empty where the page does not say), port and fields (`prom/NAME`) of each port."""
    found: dict[tuple[str, str], dict[str, object]] = {}
    for sample in samples(lines, WANTED, bad, file):
        labels = sample.labels
        device = labels.get("device", "")
        if sample.name.startswith("DCGM_"):
            port = f"gpu{labels.get('gpu', labels.get('minor_number', '?'))}/nvlink"
        elif "port" in labels:
            port = f"{device}/{labels['port']}"
        else:
            port = device
        if port:
            host = labels.get("Hostname", "")
            found.setdefault((host, port), {})[f"prom/{sample.name}"] = sample.value
    for (host, port), fields in found.items():
        yield host, port, fields
