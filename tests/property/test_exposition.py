"""The page against `prometheus_client`, for any names and values."""

from __future__ import annotations

import gzip

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Exemplar, Sample
from support.snapshots import (
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)

from fabricmon.api import Context
from fabricmon.model.incident import Incident, Victim
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock
from fabricmon_exporters.prometheus import PrometheusConfig, PrometheusExporter
from fabricmon_exporters.prometheus.families import FAMILIES
from fabricmon_exporters.prometheus.labels import MAX_LABEL, label_text
from fabricmon_exporters.prometheus.small import OPENED, SMALL

HOSTILE = st.text(
    st.one_of(
        st.sampled_from('"\\\n\r\t\x00\x1b\x7f\x85\u2028{},= #<é漢😀'),
        st.characters(exclude_categories=()),
    ),
    max_size=160,
)
EVERYTHING = {"collect[]": sorted({family.group for family in (*FAMILIES, *SMALL)})}
"""All but fabricmon's own metrics, which `prometheus_client` prints itself."""


class _Printed:
    """What our page said, as a registry that `prometheus_client` prints in its own way."""

    def __init__(self, page: str, counted: Incident) -> None:
        self._page, self._counted = page, counted

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """Each family of ours, remade by hand from the parsed page."""
        out: list[CounterMetricFamily | GaugeMetricFamily] = []
        for parsed in text_string_to_metric_families(self._page):
            make = CounterMetricFamily if parsed.type == "counter" else GaugeMetricFamily
            names = sorted(parsed.samples[0].labels)
            family = make(parsed.name, parsed.documentation, labels=names)
            for sample in parsed.samples:
                values = [sample.labels[name] for name in names]
                if isinstance(family, CounterMetricFamily):
                    family.add_metric(values, sample.value, exemplar=self._exemplar(sample))
                else:
                    family.add_metric(values, sample.value)
            out.append(family)
        return out

    def _exemplar(self, sample: Sample) -> Exemplar | None:
        """The incident, on the count of its kind. `prometheus_client` prints it in OpenMetrics."""
        named = sample.name == OPENED and sample.labels["kind"] == self._counted.kind
        return Exemplar({"incident_id": self._counted.id}, 1) if named else None


def _exporter() -> PrometheusExporter:
    clock = ManualClock()
    return PrometheusExporter(PrometheusConfig(), Context(clock, Reporter(clock)))


def _lines(page: str) -> list[tuple[object, ...]]:
    """Each line as (everything but the value, the value), twice where it has an exemplar."""
    out: list[tuple[object, ...]] = []
    for line in page.split("\n"):
        if line.startswith("#") or not line:
            out.append((line,))
            continue
        sample, mark, exemplar = line.partition(" # {incident_id=")
        parts = [text.rpartition(" ") for text in (sample, exemplar) if text]
        out.append((mark, *((text, float(number)) for text, _, number in parts)))
    return out


@given(
    names=st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=6, unique=True),
    fabric=HOSTILE,
    totals=st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6),
    shares=st.lists(st.floats(0, 1, width=32), min_size=6, max_size=6),
)
def test_the_page_is_what_prometheus_client_prints(
    names: list[tuple[str, str]], fabric: str, totals: list[int], shares: list[float]
) -> None:
    """Text and order are byte-equal to `prometheus_client`'s, values are the same float64."""
    n = len(names)
    table = make_table(names)
    frame = make_frame(n, stall=shares[:n])
    frame.total[:] = np.array(totals, np.uint64)[None, :n]
    frame.queue_total[:] = np.array(totals, np.uint64)[None, :n, None]
    device, port = names[0]
    incident = make_incident(victims=[Victim(d, p, 0.25) for d, p in names], fabric=fabric)
    snapshot = make_snapshot(
        table,
        frame,
        fabric=fabric,
        incidents=[incident],
        targets=[make_status(device, fabric=fabric)],
        job_cost={port: shares[0]},
    )
    exporter = _exporter()
    exporter.publish(snapshot)
    page = exporter.page(
        {"collect[]": sorted({f.group for f in (*FAMILIES, *SMALL)})}, openmetrics=False
    )
    text = page.body.decode("utf-8")
    registry = CollectorRegistry()
    registry.register(_Printed(text, incident))
    assert _lines(text) == _lines(generate_latest(registry).decode("utf-8"))
    assert page.gzipped is not None
    assert gzip.decompress(page.gzipped) == page.body
    om = exporter.page(
        {"collect[]": sorted({f.group for f in (*FAMILIES, *SMALL)})}, openmetrics=True
    )
    assert _lines(om.body.decode("utf-8")) == _lines(generate_openmetrics(registry).decode("utf-8"))
    family = next(
        f for f in text_string_to_metric_families(text) if f.name == "fabricmon_port_receive_bytes"
    )
    assert [
        (s.labels["device"], s.labels["fabric"], s.labels["port"], s.value) for s in family.samples
    ] == [
        (label_text(d), label_text(fabric), label_text(p), float(total % 2**53))
        for (d, p), total in zip(names, totals, strict=False)
    ]


@given(st.lists(HOSTILE, unique=True, max_size=40))
def test_label_text_is_short_clean_and_keeps_names_apart(names: list[str]) -> None:
    """A label is at most 128 clean characters, and different names stay different."""
    texts = [label_text(name) for name in names]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert len(text) <= MAX_LABEL
        text.encode("utf-8")
        assert all(c == "\n" or not (ord(c) < 32 or 127 <= ord(c) < 160) for c in text)
