"""The shipped test kit: a clock you turn by hand, and checks every plug-in must pass."""

from fabricmon.testing.clock import ManualClock
from fabricmon.testing.contract import (
    check_collector,
    check_detector,
    check_exporter,
    check_lifecycle,
    check_rule,
)

__all__ = [
    "ManualClock",
    "check_collector",
    "check_detector",
    "check_exporter",
    "check_lifecycle",
    "check_rule",
]
