"""`fabricmon record`: poll the config's targets and write a recording, without a daemon."""

from __future__ import annotations

from pathlib import Path

import click

from fabricmon.cli.common import config_option, examples


@click.command(epilog=examples("record -c fabricmon.yaml recording/ --duration 10m"))
@config_option
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--duration", help="Stop after this long, such as 10m.  [default: until SIGTERM]")
def command(config: Path | None, directory: Path, duration: str | None) -> None:
    """Poll every target at the config's interval and write what it gave to DIRECTORY."""
    import asyncio

    from fabricmon import app
    from fabricmon.settings import parse_duration

    loaded = app.load(config)
    context = app.make_context(loaded)
    seconds = parse_duration(duration) if duration else None
    asyncio.run(app.write_recording(loaded, context, directory, seconds))
    for file in sorted(directory.rglob("*.arrows")):
        click.echo(str(file))
