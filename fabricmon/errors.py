"""Every error fabricmon raises on purpose.

    FabricmonError
    ├── ConfigError    what the user wrote is wrong; names file, line and key; exit code 2
    ├── FormatError    a dump or reply is not what it claims to be; names file and line
    ├── PollError      a target could not be read; carries a reason from a closed list
    └── PluginError    an entry point is missing, doubled or does not load

Anything else that escapes a component is a bug; the runtime counts and logs it, and goes on.
"""

from __future__ import annotations

from enum import StrEnum


class FabricmonError(Exception):
    """Base of all errors that are reported to people as one line."""


class ConfigError(FabricmonError):
    """What the user wrote cannot be used."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, key: str = "") -> None:
        """Compose `file:line: key: message`, leaving out what is not known."""
        self.message, self.file, self.line, self.key = message, file, line, key
        place = f"{file}:{line}" if file and line else file
        super().__init__(": ".join(part for part in (place, key, message) if part))


class FormatError(FabricmonError):
    """A file or a reply cannot be read as the format it claims to be."""

    def __init__(self, message: str, *, file: str = "", line: int = 0) -> None:
        """Compose `file:line: message`, leaving out what is not known."""
        self.message, self.file, self.line = message, file, line
        place = f"{file}:{line}" if file and line else file
        super().__init__(f"{place}: {message}" if place else message)


class Reason(StrEnum):
    """Why a target, a row or a reply was lost. Closed: it becomes a metric label."""

    TIMEOUT = "timeout"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    UNEXPECTED = "unexpected"
    NO_DATA = "no_data"
    LIMIT = "limit"
    INTERNAL = "internal"


class PollError(FabricmonError):
    """A target could not be read at all in this poll."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Keep the label (`reason`) apart from the text for the log (`message`)."""
        self.reason = reason
        super().__init__(message)


class PluginError(FabricmonError):
    """A plug-in is missing, claimed by two packages, or does not load."""
