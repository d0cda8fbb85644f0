"""`fabricmon run`: the daemon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from fabricmon.cli.common import config_option, examples


@click.command(
    epilog=examples(
        "run",
        "run -c fabricmon.yaml",
        "run -c fabricmon.yaml --web.config.file=web.yml --log.format=json",
        "run -c fabricmon.yaml --shard 0/3",
    )
)
@config_option
@click.option("--web.listen-address", "listen", help="host:port to listen on.  [default: :10077]")
@click.option(
    "--web.config.file",
    "web_config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TLS and passwords, in the format of the Prometheus exporters.",
)
@click.option(
    "--web.state-file",
    "state_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where acknowledgements and declared maintenance are kept.",
)
@click.option("--web.enable-lifecycle", "lifecycle", is_flag=True, help="Allow POST /-/reload.")
@click.option("--shard", metavar="I/N", help="Poll only part I (from 0) of N of the targets.")
@click.option(
    "--log.level",
    "level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log level.",
)
@click.option(
    "--log.format", "fmt", type=click.Choice(["auto", "json", "console"]), help="Log format."
)
def command(
    config: Path | None,
    listen: str | None,
    web_config: Path | None,
    state_file: Path | None,
    lifecycle: bool,
    shard: str | None,
    level: str | None,
    fmt: str | None,
) -> None:
    """Run the daemon until SIGTERM. SIGHUP reloads the config.

    Without a config it watches an embedded simulated fabric in which faults come and go.
    """
    from fabricmon import app
    from fabricmon.runtime.inventory import Shard

    part = Shard.parse(shard) if shard is not None else None
    loaded = app.load(config)
    context = app.make_context(loaded, level=level, fmt=fmt)
    web = app.web_config(
        loaded,
        listen_address=listen,
        config_file=web_config,
        state_file=state_file,
        enable_lifecycle=lifecycle or None,
    )

    async def serve() -> None:
        daemon, server = app.make_daemon(loaded, context, web, part)
        what = f"fabricmon, shard {part}," if part else "fabricmon"
        await daemon.run(lambda: click.echo(f"{what} listens on {server.url}"))

    asyncio.run(serve())
