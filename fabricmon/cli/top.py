"""`fabricmon top`: a running daemon in the terminal."""

from __future__ import annotations

import click

from fabricmon.cli._client import login_options
from fabricmon.cli.common import examples


@click.command(epilog=examples("top", "top http://monitor:10077 --refresh 5"))
@click.argument("url", default="http://localhost:10077")
@click.option(
    "--refresh", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds."
)
@login_options
def command(url: str, refresh: float, user: str | None, password_env: str) -> None:
    """Watch incidents and the worst ports of the daemon at URL. No device is asked.

    Keys: s sorts, / filters, p pauses, ? helps, q ends.
    """
    try:
        from fabricmon.cli._top import Top
    except ModuleNotFoundError as error:
        raise click.ClickException("top needs the extra: pip install 'fabricmon[tui]'") from error

    Top(url, refresh, user, password_env).run()
