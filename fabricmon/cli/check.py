"""`fabricmon check`: is this config right? Builds everything and touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fabricmon.cli.common import config_option, examples


@click.command(epilog=examples("check fabricmon.yaml"))
@config_option
@click.argument("file", required=False, type=click.Path(path_type=Path))
def command(config: Path | None, file: Path | None) -> None:
    """Check a config file: every key, name, plug-in and mapping. Touches no device."""
    from fabricmon import app

    loaded = app.load(file or config)
    context = app.make_context(quiet=True)
    assembly = app.assemble(loaded, context, fetch=False)
    app.web_config(loaded)
    targets = sum(len(g.targets) for plan in assembly.fabrics.values() for g in plan.guards)
    click.echo(
        f"{loaded.document.file}: good: {len(assembly.fabrics)} fabric(s), "
        f"{targets} target(s), exporters {', '.join(assembly.exporters) or 'none'}"
    )
