"""Plain data that every room speaks: numpy and the standard library only.

Shape letters, everywhere: **W** ticks, **K** counters, **N** ports, **Q** queues.
"""
