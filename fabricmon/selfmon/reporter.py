"""One call for everything that happens: log it, rate limited, and count it, always."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.selfmon.metrics import SelfMetrics

if TYPE_CHECKING:
    import structlog

    from fabricmon.clock import Clock
    from fabricmon.selfmon.events import Event

_QUIET_S = 60.0
_MAX_SUBJECTS = 10_000


class Reporter:
    """Counts every event; logs the first of a kind per subject, then one a minute with a count."""

    def __init__(
        self,
        clock: Clock,
        logger: structlog.typing.FilteringBoundLogger | None = None,
        metrics: SelfMetrics | None = None,
    ) -> None:
        """Without a logger, events are only counted (tests, replay on request)."""
        self._clock = clock
        self._logger = logger
        self.metrics = metrics or SelfMetrics()
        self._last: dict[tuple[Event, str], tuple[float, int]] = {}

    def emit(self, event: Event, subject: str = "", **fields: object) -> None:
        """Report `event` about `subject` (a target, a file; bounds the rate limit)."""
        self.metrics.events.labels(event.label).inc()
        if self._logger is None:
            return
        suppressed = self._due(event, subject)
        if suppressed is None:
            return
        if suppressed:
            fields["suppressed"] = suppressed
        if subject:
            fields = {"subject": subject, **fields}
        try:
            getattr(self._logger, event.level.value)(event.label, **fields)
        except (OSError, ValueError):  # its disk is full, its reader is gone, its stream is closed
            self.metrics.log_lines_lost.inc()

    def _due(self, event: Event, subject: str) -> int | None:
        """How many were swallowed since the last line; None when this one is swallowed too."""
        now = self._clock.monotonic()
        key = (event, subject)
        last, swallowed = self._last.get(key, (None, 0))
        if last is not None and now - last < _QUIET_S:
            self._last[key] = (last, swallowed + 1)
            return None
        if len(self._last) >= _MAX_SUBJECTS:
            self._last.clear()
        self._last[key] = (now, 0)
        return swallowed
