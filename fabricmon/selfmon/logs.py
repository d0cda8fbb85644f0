"""structlog, set up once: JSON or console lines on stderr, secrets masked."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, TextIO

from fabricmon.settings import masked

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import structlog


def _mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: masked(value) if isinstance(value, str) else value for key, value in event.items()}


def configure_logging(
    level: str = "info", fmt: str = "auto", stream: TextIO | None = None
) -> structlog.typing.FilteringBoundLogger:
    """Set structlog up and return the root logger.

    `fmt` is `json`, `console` or `auto` (console on a terminal). Standard-library loggers of the
    libraries we use are routed to the same place, warnings and worse only.
    """
    import structlog  # noqa: PLC0415 - 60 ms that commands without a log need not pay

    stream = stream or sys.stderr
    if fmt == "auto":
        fmt = "console" if stream.isatty() else "json"
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _mask,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(sort_keys=False, default=str)
        if fmt == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger
