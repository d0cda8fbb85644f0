"""gNMI: files that gnmic and its like write, and devices that stream."""

from fabricmon.collectors.gnmi.file import GnmiFileCollector, GnmiFileConfig

__all__ = ["GnmiFileCollector", "GnmiFileConfig"]
