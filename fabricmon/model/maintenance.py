"""Declared maintenance: incidents there are kept and marked, and alerts are not fired."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.model.incident import Incident


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """Work on a device, or on one port of it. Empty `fabric` or `port` means any."""

    device: str
    start_ns: int
    end_ns: int
    port: str = ""
    fabric: str = ""
    comment: str = ""
    author: str = ""

    @property
    def id(self) -> str:
        """Made of the content, so that declaring the same window twice declares it once."""
        text = "\0".join(
            (self.fabric, self.device, self.port, str(self.start_ns), str(self.end_ns))
        )
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()

    def covers(self, incident: Incident, now_ns: int) -> bool:
        """Whether the incident's cause, or its cable's other end, is being worked on now."""
        cause = incident.cause
        if cause is None or not self.start_ns <= now_ns < self.end_ns:
            return False
        if self.fabric and self.fabric != incident.fabric:
            return False
        ends = ((cause.device, cause.port), (cause.peer_device, cause.peer_port))
        return any(
            device == self.device and (not self.port or port == self.port) for device, port in ends
        )


class Maintenance:
    """Every window there is: those of the config, and those declared over HTTP.

    Replaced as a whole tuple, so that the pipeline's thread may read while the web server writes.
    """

    def __init__(self, configured: Iterable[MaintenanceWindow] = ()) -> None:
        """Begin with what the config says."""
        self._configured = tuple(configured)
        self._declared: tuple[MaintenanceWindow, ...] = ()

    def windows(self) -> tuple[MaintenanceWindow, ...]:
        """All of them, the config's first."""
        return self._configured + self._declared

    def declared(self) -> tuple[MaintenanceWindow, ...]:
        """Those that were declared over HTTP."""
        return self._declared

    def configure(self, windows: Iterable[MaintenanceWindow]) -> None:
        """Take the windows of a reloaded config; declared ones stay."""
        self._configured = tuple(windows)

    def declare(self, window: MaintenanceWindow, now_ns: int) -> None:
        """Add one; those that have ended are forgotten."""
        kept = (w for w in self._declared if w.end_ns > now_ns and w.id != window.id)
        self._declared = (*kept, window)

    def withdraw(self, window_id: str) -> bool:
        """Remove a declared one; False where there is none of that id (or the config owns it)."""
        kept = tuple(w for w in self._declared if w.id != window_id)
        found = len(kept) < len(self._declared)
        self._declared = kept
        return found

    def covers(self, incident: Incident, now_ns: int) -> bool:
        """Whether any window covers the incident now."""
        return any(window.covers(incident, now_ns) for window in self.windows())
