"""Prometheus remote write 1.0: every tick pushed, through a bounded queue on disk."""

from fabricmon_exporters.remote_write.exporter import RemoteWriteConfig, RemoteWriteExporter

__all__ = ["RemoteWriteConfig", "RemoteWriteExporter"]
