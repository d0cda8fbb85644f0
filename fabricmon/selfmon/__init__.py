"""fabricmon watching itself: logs, events, own metrics.

Nothing logs by hand. A component reports an `Event`; the `Reporter` writes the log line (rate
limited per event and subject) and counts it, so logs and metrics cannot drift apart.
"""

from fabricmon.selfmon.events import Event, Level
from fabricmon.selfmon.heap import keep_compact
from fabricmon.selfmon.logs import configure_logging
from fabricmon.selfmon.metrics import SelfMetrics
from fabricmon.selfmon.reporter import Reporter

__all__ = ["Event", "Level", "Reporter", "SelfMetrics", "configure_logging", "keep_compact"]
