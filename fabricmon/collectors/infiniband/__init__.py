"""InfiniBand: the whole subnet through one local port, or through what others recorded of it.

A target is one way into one subnet. Its address says which: `any` or `mlx5_0:1` for a local HCA
port, a directory that somebody fills with tool output, or the URL of a Prometheus endpoint (UFM).
"""

from fabricmon.collectors.infiniband.collector import InfinibandCollector

__all__ = ["InfinibandCollector"]
