"""Hosts: what NICs and HCAs count, from the kernel or from exporters that already read it."""

from fabricmon.collectors.host.collector import HostCollector, HostConfig

__all__ = ["HostCollector", "HostConfig"]
