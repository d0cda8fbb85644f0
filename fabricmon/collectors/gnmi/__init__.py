"""gNMI: files that gnmic and its like write, and devices that stream."""

from fabricmon.collectors.gnmi.file import GnmiFileCollector, GnmiFileConfig
from fabricmon.collectors.gnmi.live import GnmiCollector, GnmiConfig

__all__ = ["GnmiCollector", "GnmiConfig", "GnmiFileCollector", "GnmiFileConfig"]
