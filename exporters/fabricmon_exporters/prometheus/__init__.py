"""The Prometheus scrape page.

    Snapshot -> samples (values and masks) -> render (text, in Arrow) -> page (pieces, gzip)
                families (the table of metrics), labels (their text), small (incidents, targets)

`prometheus_client` is the reference: names, HELP, labels and order are byte for byte what it
prints, and values parse to the same float64 (tests/property/test_exposition.py).
"""

from fabricmon_exporters.prometheus.exporter import PrometheusConfig, PrometheusExporter

__all__ = ["PrometheusConfig", "PrometheusExporter"]
