"""`fabricmon doctor`: try everything the daemon needs, and say how to mend what fails."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from fabricmon.cli.common import config_option, examples, output_option, print_json

if TYPE_CHECKING:
    from pathlib import Path

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(epilog=examples("doctor -c fabricmon.yaml", "doctor -c fabricmon.yaml -o json"))
@config_option
@output_option("text", "json")
def command(config: Path | None, output: str) -> None:
    """Try names, reach, credentials, permissions, limits and destinations of a config, live.

    Exit 1 when something fails.
    """
    from dataclasses import asdict

    from fabricmon import app
    from fabricmon.runtime.doctor import FAIL, examine

    loaded = app.load(config)
    results = asyncio.run(examine(app.patient(loaded, app.make_context(quiet=True))))
    if output == "json":
        print_json([asdict(result) for result in results])
    else:
        for result in results:
            mark = click.style(f"{result.level:<4}", fg=_COLOURS[result.level])
            first, *rest = textwrap.wrap(f"{result.check}: {result.message}", 74) or [""]
            click.echo(f"{mark} {first}")
            fix = textwrap.wrap(f"-> {result.fix}", 72) if result.fix else []
            for line in rest + fix:
                click.echo(f"     {line}")
    if any(result.level == FAIL for result in results):
        sys.exit(1)
