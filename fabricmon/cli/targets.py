"""`fabricmon targets`: every target and how it is."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from fabricmon.cli._client import get, login_options
from fabricmon.cli.common import config_option, examples, output_option, print_json

if TYPE_CHECKING:
    from pathlib import Path


@click.command(epilog=examples("targets -c fabricmon.yaml", "targets --url http://localhost:10077"))
@config_option
@click.option("--url", help="Ask the running daemon at this address instead of the devices.")
@login_options
@output_option("text", "json")
def command(
    config: Path | None, url: str | None, user: str | None, password_env: str, output: str
) -> None:
    """List every target with its state and its last error. Exit 1 if one is down.

    With --config the targets are polled once now; with --url a running daemon is asked.
    """
    if config is None and url is None:
        raise click.UsageError("give --config, or --url of a running daemon")
    rows = _from_daemon(url, user, password_env) if url else _from_config(config)
    if output == "json":
        print_json(rows)
    else:
        width = max([len(row["target"]) for row in rows], default=6)
        for row in rows:
            state = "up" if row["up"] else "DOWN"
            line = f"{row['target']:<{width}}  {row['collector']:<10}  {state:<4}  {row['error']}"
            click.echo(line.rstrip())
    if not all(row["up"] for row in rows):
        sys.exit(1)


def _from_config(config: Path | None) -> list[dict[str, Any]]:
    from fabricmon import app
    from fabricmon.runtime.once import poll_once

    loaded = app.load(config)
    context = app.make_context(loaded, level="error")
    outcomes = asyncio.run(poll_once(app.assemble(loaded, context)))
    return [
        {
            "fabric": outcome.target.fabric,
            "target": outcome.target.name,
            "collector": outcome.collector,
            "up": outcome.poll is not None,
            "reason": outcome.reason or None,
            "error": outcome.message,
        }
        for outcome in outcomes
    ]


def _from_daemon(url: str, user: str | None, password_env: str) -> list[dict[str, Any]]:
    return [
        {
            "fabric": row["fabric"],
            "target": row["target"],
            "collector": row["collector"],
            "up": row["up"],
            "reason": None,
            "error": row["last_error"],
        }
        for row in get(url, "/api/v1/targets", user, password_env)
    ]
