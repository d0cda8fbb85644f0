"""The command line: one file per command, imported when it is called.

Data goes to stdout, logs to stderr. Exit codes: 0 good; 1 a target failed, or an incident was found
and `--fail-on-incident` was given; 2 usage or config.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from fabricmon import __version__
from fabricmon.errors import FabricmonError

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "run": "Run the daemon (without a config: on a simulated fabric).",
    "once": "Poll every target once and print what it gave.",
    "replay": "Judge recorded dumps, faster than real time.",
    "record": "Poll and write a recording.",
    "simulate": "Run a scenario of the simulated fabric.",
    "evaluate": "Score the verdicts on labelled dumps.",
    "check": "Check a config file, offline.",
    "doctor": "Find out why something does not work, live.",
    "targets": "List targets and how they are.",
    "mappings": "List what each vendor mapping covers.",
    "top": "Watch a running daemon in the terminal.",
    "report": "Tell what happened: is it the fabric, and which port.",
    "explain": "Explain a kind of incident, a counter or a metric.",
}
"""Every command and its line in `--help`; the module of the same name holds it."""


class _Lazy(click.Group):
    """Commands are imported when they run, so that `--help` costs nothing."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"fabricmon.cli.{name}").command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FabricmonError as error:
            from fabricmon.settings import masked

            click.echo(f"fabricmon: {masked(str(error))}", err=True)
            ctx.exit(2)


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "FABRICMON"},
    epilog="Start with `fabricmon run`, then open the address it prints.",
)
@click.version_option(__version__, "--version", prog_name="fabricmon")
def main() -> None:
    """Congestion telemetry and diagnosis for the networks of GPU training clusters.

    Reads switch and host counters over SNMP, gNMI and InfiniBand, finds head-of-line blocking and
    stalls, and names the port that started it, who suffers, and what it costs.
    """
