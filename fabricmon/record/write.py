"""A whole stream written as files of one format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fabricmon.formats.interchange import Label
    from fabricmon.model.stream import Source
    from fabricmon.selfmon import Reporter

FORMATS = (
    "interchange",
    "recording",
    "perfquery",
    "ibqueryerrors",
    "gnmic-event",
    "gnmic-json",
    "snmprec",
)
"""What `write` can write."""


def write(
    source: Source, folder: Path, as_: str, report: Reporter, labels: Sequence[Label] = ()
) -> None:
    """Write all of `source` into `folder`, which is made.

    `labels` is what is known to have happened in it; formats that hold none leave it out. Raises
    `ConfigError` for a format that is not known, `FormatError` where a fabric cannot be told in it.
    """
    from fabricmon.record.writers import WRITERS  # noqa: PLC0415 - mappings of every family

    if as_ not in WRITERS:
        raise ConfigError(f"{as_!r} cannot be written; use one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    writer = WRITERS[as_](folder, source.fabric, report)
    try:
        for item in source.items():
            writer.write(item)
    finally:
        writer.close(labels)
