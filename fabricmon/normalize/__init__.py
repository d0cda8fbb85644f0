"""Readings become frames: unwrap, align, derive. See `Normalizer`.

store      the arrays: one row per counter and queue, one column per port
unwrap     what a counter did between two readings: moved, wrapped, stuck, fell
refresh    devices that renew their counters slower than we poll
ratios     shares of time out of rates: stall, pressure, use
normalizer absorb batches, make a frame per tick
"""

from fabricmon.normalize.normalizer import Normalizer

__all__ = ["Normalizer"]
