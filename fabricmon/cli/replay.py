"""`fabricmon replay`: recorded dumps through the whole pipeline, faster than real time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabricmon.cli._serving import address_option, drive_and_serve
from fabricmon.cli.common import (
    config_option,
    examples,
    fail_on_incident,
    output_option,
    print_incidents,
)

if TYPE_CHECKING:
    from fabricmon.runtime.offline import Outcome


@click.command(
    epilog=examples(
        "replay recording/",
        "replay perfquery-*.txt --interval 30s -o json",
        "replay export.csv --columns columns.yaml",
        "replay recording/ --serve :10077",
    )
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@config_option
@click.option("--fabric", default="", help="The fabric's name, where the dump names none.")
@click.option("--interval", help="The poll interval, such as 5s.  [default: learnt from the dump]")
@click.option(
    "--columns",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Which CSV column is what (YAML).",
)
@click.option(
    "--serve",
    metavar="ADDRESS",
    callback=address_option,
    help="Show it in the browser, such as on :10077, until Ctrl-C.",
)
@output_option("text", "json")
@fail_on_incident
def command(
    paths: tuple[Path, ...],
    config: Path | None,
    fabric: str,
    interval: str | None,
    columns: Path | None,
    serve: str | None,
    output: str,
    fail_on_incident: bool,
) -> None:
    """Judge dumps: recordings, interchange dumps, tool output, gNMI files, CSV.

    What a file is, is found by looking at it. A bad record costs that record and is named.
    """
    from fabricmon import app, record
    from fabricmon.cli._progress import Watched
    from fabricmon.runtime.offline import drive
    from fabricmon.settings import parse_duration

    loaded = app.load(config) if config else None
    context = app.make_context(loaded, level="warning")
    source = record.open_source(
        paths,
        report=context.report,
        fabric=fabric,
        columns=columns,
        intent=app.intent_of(loaded),
        interval_s=parse_duration(interval) if interval else 0.0,
    )
    pipeline = app.make_pipeline(source.fabric, context, loaded)

    def show(outcome: Outcome) -> None:
        print_incidents(outcome.worst_first(), output)

    if serve is not None:
        asyncio.run(drive_and_serve(source.items(), pipeline, context, serve, show))
        return
    outcome = drive(Watched(source, "ticks judged").items(), pipeline)
    show(outcome)
    if fail_on_incident and outcome.incidents:
        sys.exit(1)
