"""`fabricmon simulate`: a scenario through the whole pipeline, faster than real time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabricmon.cli.common import (
    examples,
    fail_on_incident,
    output_option,
    print_incidents,
    print_json,
)

if TYPE_CHECKING:
    from fabricmon.api import Context
    from fabricmon.simulate import Simulation


def _names(_context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """For the shell: scenarios whose name begins so."""
    from fabricmon import simulate

    return [row.name for row in simulate.catalogue() if row.name.startswith(begun)]


@click.command(
    epilog=examples(
        "simulate --list",
        "simulate incast --seed 3",
        "simulate pfc-storm --write dump/",
        "simulate incast-ib --serve devices/",
    )
)
@click.argument("name", required=False, shell_complete=_names)
@click.option("--list", "listing", is_flag=True, help="List every scenario.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of everything random.")
@click.option("--ports", type=click.IntRange(min=1), help="About how many switch ports.")
@click.option("--duration", help="How long, such as 10m.")
@click.option("--poll", help="Poll interval, such as 5s.")
@click.option(
    "--write", "directory", type=click.Path(path_type=Path), help="Write dumps to this directory."
)
@click.option(
    "--as",
    "as_",
    default="interchange",
    show_default=True,
    help="What to write: interchange, recording, perfquery, ibqueryerrors, gnmic-event, "
    "gnmic-json, snmprec.",
)
@click.option(
    "--serve",
    "serve_at",
    type=click.Path(path_type=Path, file_okay=False),
    help="Stand there as devices until stopped; what is where is written to this directory.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Simulated seconds per second (with --serve).",
)
@output_option("text", "json")
@fail_on_incident
def command(
    name: str | None,
    listing: bool,
    seed: int,
    ports: int | None,
    duration: str | None,
    poll: str | None,
    directory: Path | None,
    as_: str,
    serve_at: Path | None,
    speed: float,
    output: str,
    fail_on_incident: bool,
) -> None:
    """Run scenario NAME (or a scenario file) and print the incidents it leads to."""
    from fabricmon import app, record, simulate
    from fabricmon.cli._progress import Watched
    from fabricmon.runtime.offline import drive
    from fabricmon.settings import parse_duration

    if listing or name is None:
        _list(output)
        return
    simulation = simulate.load(
        name,
        seed=seed,
        ports=ports,
        duration=parse_duration(duration) if duration else None,
        poll=parse_duration(poll) if poll else None,
    )
    context = app.make_context(level="warning")
    ticks = round(simulation.scenario.config.duration / simulation.poll_s)
    watched = Watched(simulation, f"simulating {simulation.scenario.name}", ticks)
    if serve_at is not None:
        asyncio.run(_serve(simulation, serve_at.resolve(), context, speed))
        return
    if directory is not None:
        known = simulate.labels_of(simulation)
        record.write(watched, directory, as_, context.report, known)
        return
    outcome = drive(watched.items(), app.make_pipeline(simulation.fabric, context))
    print_incidents(outcome.worst_first(), output)
    if fail_on_incident and outcome.incidents:
        sys.exit(1)


async def _serve(simulation: Simulation, folder: Path, context: Context, speed: float) -> None:
    """Serve until SIGTERM or SIGINT."""
    import signal

    from fabricmon.simulate.serve import Served

    served = Served(simulation, folder, context.clock, speed=speed)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        for line in await served.start():
            click.echo(line)
        click.echo(f"configs for `fabricmon run -c`: {folder}/fabricmon-*.yaml")
        living = asyncio.create_task(served.run())
        await asyncio.wait(
            {living, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        living.cancel()
    finally:
        await served.stop()


def _list(output: str) -> None:
    from fabricmon import simulate

    rows = simulate.catalogue()
    if output == "json":
        print_json([{"name": row.name, "kind": row.kind, "title": row.title} for row in rows])
        return
    width = max(len(row.name) for row in rows)
    kinds = max(len(row.kind) for row in rows)
    for row in rows:
        click.echo(f"{row.name:<{width}}  {row.kind:<{kinds}}  {row.title}")
