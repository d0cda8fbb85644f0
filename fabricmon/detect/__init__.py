"""Which ports behave like no healthy port of their kind does. See `ForestDetector`.

features  numbers a forest can judge: physical, one-sided, phase-free
peers     whom a port is compared with, and the middle of each such group
physics   what needs no forest: counters that must not move, ports that stand still
forest    one isolation forest with its calibrated threshold
nursery   healthy rows to learn from, kept apart from everything that was diagnosed
detector  the tick: features, gate, score, k of n, learn
"""

from fabricmon.detect.detector import ForestConfig, ForestDetector

__all__ = ["ForestConfig", "ForestDetector"]
